"""What a profile's file may not say, and how a project's own profile changes a shipped one."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeopt.core.profile import QuantizationTypes, Threads
from edgeopt.errors import ConfigError
from edgeopt.targets.profiles import (
    disagreement,
    list_profiles,
    load_profile,
    match_profile,
    read_profile,
    search_path,
)

HEAD = 'name = "mine"\ntitle = "Mine"\narchitecture = "aarch64"\n'


def write(folder: Path, text: str, name: str = "mine") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def refused(path: Path, folders: tuple[Path, ...] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        read_profile(path, folders)
    assert caught.value.hint
    assert str(path.parent) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory_bytes = 8", "memory_bytes is 8\n  the unit is bytes"),
        ("[bandwidth]\npeak_gb_per_s = 68000.0", "peak_gb_per_s is 68000\n  the unit is GB/s"),
        ("[bandwidth]\npeak_gb_per_s = nan", "the unit is GB/s"),
        ("[bandwidth]\npeak_gbps = 68", "did you mean 'peak_gb_per_s'"),
        ('[bandwidth]\npeak_basis = "guess"', "peak_basis is neither vendor nor derived"),
        ('[[clusters]]\nname = "A76"\ncores = 4\nmax_mhz = 2400000', "the unit is MHz"),
        ('[[clusters]]\nname = "A76"\ncores = 4\nmax_ghz = 2.4', "did you mean 'max_mhz'"),
        ('[[clusters]]\nname = "A76"', "clusters[0].cores is missing"),
        ('[[clusters]]\nname = "A76"\ncores = 4\nisa = ["dot_prod"]', "did you mean 'dotprod'"),
        ('[[clusters]]\nname = "A76"\ncores = 4\npart = "d0b"', "written like 0x41:0xd0b"),
        ("clusters = 4", "clusters is not a list of tables"),
        ('features = ["asimddp"]', "features[0] is 'asimddp'"),
        ('architecture = "arm64"', "architecture is neither x86_64 nor aarch64"),
        ('providers = ["cuda"]', "written like CPUExecutionProvider"),
        ('float_only = ["CUDAExecutionProvider"]', "which is none of providers"),
        ("[provider_options.XnnpackExecutionProvider]\na = 1", "is not a table of texts"),
        ('[provider_options.XExecutionProvider]\na = "1"', "which is none of providers"),
        ("[provider_quantization]\nCPUExecutionProvider = 1", "is not a table"),
        ('default_power_mode = "15W"', "none of power_modes"),
        ('[[power_modes]]\nname = "15W"\nwatts_label = 15000', "the unit is W"),
        ('[[sensors]]\nname = "ina3221_hwmon"', "sensors[0].scope is missing"),
        ('[[sensors]]\nname = "x"\nscope = "Module"', "did you mean 'module'"),
        ('throttle_counters = ["soctherm"]', "soctherm_oc"),
        ('[threads]\ncandidates = ["4"]', "candidates is not a list of integers"),
        ("[threads]\ncandidates = [0]", "the unit is threads"),
        ('[python]\nmin = "3"', "written like 3.8"),
        ('[python]\nmin = "3.10"\ntypical = "3.8"', "older than python.min"),
        ('[runtimes]\nbanned = ["1.21.0"]', "is not a table of texts"),
        ('[match]\nmodule_ids = ["3767-0005"]', "written like p3767-0005"),
        ('[match]\ncompatibles = ["x"]', "did you mean 'compatible'"),
        ("[limits]\nfree_bytes = 250", "the unit is bytes"),
        ("opset_ceiling = 19", "opset_ceiling has no source"),
        ('opset_ceiling = 19\n[sources]\nopset_ceiling = " "', "opset_ceiling has no source"),
        ('[sources]\nopset = "x"', "did you mean 'opset_ceiling'"),
        ('[sources]\nopset_ceiling = ""\n[sources2]', "sources2"),
        ("extends = 3", "extends is not a text"),
    ],
)
def test_wrong_value_is_explained(tmp_path: Path, text: str, message: str) -> None:
    """Each mistake names the file, the key, and the unit or the nearest thing that is right."""
    head = HEAD.replace('architecture = "aarch64"\n', "") if "architecture" in text else HEAD
    # Only what is inconsistent gets so far that its sources are asked for.
    keys = ("default_power_mode", "float_only", "provider_options", "python")
    sources = "".join(f'\n[sources]\n{key} = "a test"' for key in keys if key in text)
    assert message in refused(write(tmp_path, head + text + sources))


KEYS = (
    *("name", "title", "architecture", "features", "match", "clusters", "bandwidth", "providers"),
    *("threads", "quantization", "sensors", "sources", "memory_bytes", "extends", "x"),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(KEYS),
        st.sampled_from(['""', "1", "-1", "1.5", "true", "[]", "[1]", '["a"]', "{}", "{ a = 1 }"]),
    )
)
def test_any_file_is_read_or_explained(tmp_path: Path, keys: dict[str, str]) -> None:
    """Whatever stands behind a key, the answer is a profile or a message, never a trace."""
    path = write(tmp_path, "".join(f"{key} = {value}\n" for key, value in keys.items()))
    said = ""
    try:
        name = read_profile(path).name
    except ConfigError as error:
        name, said = "", str(error)
    assert name == "mine" or "mine.toml" in said


def test_own_profile_changes_a_shipped_one(tmp_path: Path) -> None:
    """Tables are merged, the rest is replaced, and the device is still recognised."""
    text = (
        'name = "jetson-orin-nano"\nextends = "jetson-orin-nano"\nopset_ceiling = 19\n'
        "[threads]\ndefault = 4\n"
        '[sources]\nopset_ceiling = "our build"\nthreads = "two cores are the camera\'s"\n'
    )
    write(tmp_path / "hardware_profiles", text, "jetson-orin-nano")
    places = search_path(tmp_path)
    shipped, own = load_profile("jetson-orin-nano"), load_profile("jetson-orin-nano", places)
    assert (own.opset_ceiling, own.threads) == (
        19,
        Threads(default=4, candidates=shipped.threads.candidates),
    )
    assert own.match == shipped.match
    assert own.sources["opset_ceiling"] == "our build"
    assert own.sources["sensors"] == shipped.sources["sensors"]
    assert list_profiles(places) == list_profiles()


def test_own_kind_comes_before_what_it_extends(tmp_path: Path) -> None:
    """A name of its own fits the same boards, takes no alias, and is found first."""
    text = 'name = "drone"\nextends = "orin"\ntitle = "The drone"\n'
    middle = 'name = "orin"\nextends = "jetson-orin-nx"\naliases = ["ours"]\n'
    folder = tmp_path / "hardware_profiles"
    write(folder, text.replace('"orin"', '"jetson-orin-nx"'), "drone")
    places = search_path(tmp_path)
    facts = {
        "architecture": "aarch64",
        "features": ["neon", "fp16", "dotprod"],
        "module": "p3767-0000",
    }
    assert match_profile(facts, places).name == "drone"
    assert match_profile(facts).name == "jetson-orin-nx"
    assert load_profile("orin-nx", places).name == "jetson-orin-nx"
    assert load_profile("drone", places).aliases == ()
    # What it extends fits the board as well: nothing to warn of.
    assert disagreement(load_profile("jetson-orin-nx"), facts, places) == ""
    write(folder, text, "drone")
    write(folder, middle, "orin")
    assert load_profile("drone", places).memory_bytes == 2**34
    assert load_profile("ours", places).name == "orin"


def test_extending_in_a_circle_or_nothing_is_refused(tmp_path: Path) -> None:
    """Two files that extend each other, one that extends itself, one that extends nothing."""
    folders = (tmp_path,)
    first = write(tmp_path, 'name = "a"\nextends = "b"\n', "a")
    write(tmp_path, 'name = "b"\nextends = "a"\n', "b")
    assert "in a circle: a -> b -> a" in refused(first, folders)
    itself = write(tmp_path, 'name = "c"\nextends = "c"\n', "c")
    assert "in a circle: c -> c" in refused(itself, folders)
    lost = write(tmp_path, 'name = "d"\nextends = "jetson-orin-nan"\n', "d")
    assert "did you mean 'jetson-orin-nano'" in refused(lost, search_path())


def test_sources_are_asked_of_each_file(tmp_path: Path) -> None:
    """What a file changes needs a source in that file: the base's is not true of it."""
    text = 'name = "mine"\nextends = "x86-vnni"\nchannel_block = 8\n'
    assert "channel_block has no source" in refused(write(tmp_path, text))


def test_types_by_provider() -> None:
    """TensorRT wants symmetric int8, CUDA none, the CPU what the profile says in general."""
    profile = load_profile("orin-nano")
    assert profile.quantization_for("TensorrtExecutionProvider") == QuantizationTypes(
        activation="int8", symmetric=True
    )
    assert profile.quantization_for("CUDAExecutionProvider") is None
    assert profile.quantization_for("CPUExecutionProvider") == profile.quantization
    nano = load_profile("jetson-nano")
    assert nano.quantization_for("TensorrtExecutionProvider") is None


def test_half_precision_belongs_to_a_provider() -> None:
    """A profile on one of its providers says of that one alone whether float16 is fast."""
    orin = load_profile("jetson-orin-nano")
    assert orin.on("TensorrtExecutionProvider").float16 == ("TensorrtExecutionProvider",)
    assert orin.on("CPUExecutionProvider").float16 == ()
    assert load_profile("x86-vnni").float16 == ()
