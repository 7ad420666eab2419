"""Hardware profiles: what ships is sound, what is wrong is said, and which one fits."""

from dataclasses import fields
from pathlib import Path

import pytest

import edgeopt
from edgeopt.core.profile import (
    Accelerator,
    Cluster,
    DeviceProfile,
    Limits,
    Match,
    MemoryBandwidth,
    PowerMode,
    PythonVersions,
    QuantizationTypes,
    Runtimes,
    Sensor,
    Threads,
)
from edgeopt.errors import ConfigError
from edgeopt.targets.profiles import (
    list_profiles,
    load_profile,
    match_profile,
    read_profile,
    search_path,
)

GOOD = 'name = "mine"\ntitle = "Mine"\narchitecture = "x86_64"\n'


def write(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


NESTED = {
    "match": Match,
    "clusters": Cluster,
    "quantization": QuantizationTypes,
    "bandwidth": MemoryBandwidth,
    "accelerators": Accelerator,
    "power_modes": PowerMode,
    "sensors": Sensor,
    "threads": Threads,
    "python": PythonVersions,
    "runtimes": Runtimes,
    "limits": Limits,
}


@pytest.mark.parametrize("name", list_profiles())
def test_shipped_profile_is_sound(name: str) -> None:
    """It loads (each fact then has a source), and its sensors are on the agent's shelf."""
    profile = load_profile(name)
    folder = Path(edgeopt.__file__).parent / "device_agent" / "sensors"
    shelf = {path.stem for path in folder.glob("*.py")}
    assert {each.name for each in profile.sensors} <= shelf
    assert {"channel_block", "opset_ceiling", "traps", "tried_on_hardware"} <= set(profile.sources)
    assert profile.tried_on_hardware == (name == "x86-vnni")
    assert all(text.endswith(".") for text in profile.traps)


def test_every_kind_that_was_promised_ships() -> None:
    """Fourteen kinds, and no alias is the name of another kind."""
    assert set(list_profiles()) == {
        *("jetson-nano", "jetson-xavier-nx", "jetson-orin-nano", "jetson-orin-nx"),
        *("jetson-agx-orin", "jetson-thor", "raspberry-pi-4", "raspberry-pi-5", "rock-5b"),
        *("x86-avx2", "x86-vnni", "x86-n100", "generic-arm64", "android-arm64"),
    }
    aliases = [alias for name in list_profiles() for alias in load_profile(name).aliases]
    assert len(aliases) == len({*aliases, *list_profiles()}) - len(list_profiles())


def test_readme_names_every_key() -> None:
    """hardware_profiles/README.md has a row for each key that a file may hold, and each kind."""
    text = (search_path()[-1] / "README.md").read_text()
    keys = ["extends", *(each.name for each in fields(DeviceProfile))]
    for table, cls in NESTED.items():
        keys += [f"{table}.{each.name}" for each in fields(cls)]
    assert [key for key in keys if f"| `{key}` |" not in text] == []
    assert [name for name in list_profiles() if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + 'sensor = ["x"]', "did you mean 'sensors'"),
        (GOOD + "channel_block = 2.5", "channel_block is not an integer"),
        (GOOD + "opset_ceiling = true", "opset_ceiling is not an integer"),
        (GOOD + 'features = "avx2"', "features is not a list of texts"),
        (GOOD + "sources = [1]", "sources is not a table"),
        (GOOD + '[quantization]\nactivation = "int16"', "neither uint8 nor int8"),
        (GOOD + '[quantization]\nactivations = "int8"', "quantization.activations"),
        (GOOD + 'quantization = "int8"', "quantization is not a table"),
        (GOOD.replace("mine", "other"), "name is 'other'"),
        ('name = "mine"\n', "is missing"),
        ("name = ", "cannot be read"),
    ],
)
def test_wrong_file_is_explained(tmp_path: Path, text: str, message: str) -> None:
    """Each mistake is a message with the file and what to do."""
    with pytest.raises(ConfigError) as caught:
        read_profile(write(tmp_path, text))
    assert message in str(caught.value)
    assert "mine.toml" in str(caught.value)


def test_unknown_profile_offers_the_nearest() -> None:
    """A typing mistake in a profile's name is recognised."""
    with pytest.raises(ConfigError, match="x86-vnni"):
        load_profile("x86-vni")


def test_own_folder_comes_first(tmp_path: Path) -> None:
    """A project's file of the same name replaces the one that ships."""
    folder = tmp_path / "hardware_profiles"
    folder.mkdir()
    write(folder, GOOD.replace("mine", "x86-vnni"), "x86-vnni")
    places = search_path(tmp_path)
    assert load_profile("x86-vnni", places).title == "Mine"
    assert "x86-avx2" in list_profiles(places)


@pytest.mark.parametrize(
    ("architecture", "features", "name"),
    [
        ("x86_64", ["avx2", "avx512_vnni", "fma", "vnni"], "x86-vnni"),
        ("x86_64", ["avx2", "fma"], "x86-avx2"),
        ("aarch64", ["neon", "dotprod"], "generic-arm64"),
        ("x86_64", ["sse4_1"], "unknown-x86_64"),
        ("riscv64", [], "unknown-riscv64"),
    ],
)
def test_the_most_special_fitting_profile(
    architecture: str, features: list[str], name: str
) -> None:
    """Features decide; where nothing fits, no integer types are offered."""
    found = match_profile({"architecture": architecture, "features": features})
    assert found.name == name
    assert (found.quantization is None) == name.startswith("unknown")
