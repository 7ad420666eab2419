"""A profile for a device: what counts first, what is fitted to the device, what is warned of."""

from pathlib import Path
from typing import Any

import pytest

from edgeopt.targets.profile_match import opset_of
from edgeopt.targets.profiles import (
    disagreement,
    fit_profile,
    load_profile,
    match_profile,
    search_path,
)

ORIN: dict[str, Any] = {
    "architecture": "aarch64",
    "features": ["dotprod", "fp16", "neon"],
    "board": "NVIDIA Jetson Orin NX Engineering Reference Developer Kit",
    "board_model": "NVIDIA Jetson Orin NX Engineering Reference Developer Kit",
    "compatible": ["nvidia,p3768-0000+p3767-0000", "nvidia,tegra234"],
    "module": "p3767-0000",
    "soc": "tegra234",
    "cpu_parts": ["0x41:0xd42"],
    "memory_bytes": 2**34 - 2**29,
    "runtime": "1.23.2",
}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "jetson-orin-nx"),
        # The module counts more than a model text that was copied from elsewhere.
        ({"board": "Raspberry Pi 5 Model B"}, "jetson-orin-nx"),
        ({"module": None}, "jetson-orin-nx"),
        ({"module": None, "compatible": ["nvidia,tegra234"]}, "jetson-orin-nano"),
        ({"module": None, "compatible": [], "soc": None}, "jetson-orin-nano"),
        ({"module": None, "compatible": [], "soc": None, "cpu_parts": []}, "generic-arm64"),
        # Somebody else's board with a part that is in no profile.
        ({"module": "p9999-0000", "compatible": [], "soc": "x1", "cpu_parts": []}, "generic-arm64"),
        # A profile is not taken for a device that lacks what it promises.
        ({"features": ["neon"]}, "generic-arm64"),
        ({"architecture": "armv7l"}, "unknown-armv7l"),
    ],
)
def test_what_counts_first(changes: dict[str, Any], name: str) -> None:
    """Module, device tree, system on chip, parts, features."""
    assert match_profile({**ORIN, **changes}).name == name


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Intel(R) N100", "x86-n100"),
        ("Intel(R) Core(TM) i3-N305", "x86-vnni"),
        ("", "x86-vnni"),
    ],
)
def test_processor_by_name(model: str, name: str) -> None:
    """The N100 by its model; another processor with VNNI by its features."""
    facts = {
        "architecture": "x86_64",
        "features": ["avx2", "avx_vnni", "vnni"],
        "cpu_model": model,
    }
    assert match_profile(facts).name == name


def test_own_machine_by_its_product_name(tmp_path: Path) -> None:
    """A project's profile for an x86 box, recognised by what DMI calls it."""
    (tmp_path / "shop-box.toml").write_text(
        'name = "shop-box"\nextends = "x86-vnni"\ntitle = "The box in the shop"\n'
        '[match]\nmodels = ["NUC13ANH*"]\n[sources]\nmatch = "dmidecode"\n'
    )
    facts = {
        "architecture": "x86_64",
        "features": ["avx2", "vnni"],
        "board": "NUC13ANHi5",
        "board_model": "Intel NUC13ANHi5",
    }
    folders = (tmp_path, *search_path())
    assert match_profile(facts, folders).name == "shop-box"
    assert match_profile({**facts, "board": "NUC12", "board_model": None}, folders).name == (
        "x86-vnni"
    )
    assert "shop-box" in disagreement(load_profile("x86-vnni"), facts, folders)


@pytest.mark.parametrize(
    ("runtime", "opset"),
    [
        ("1.10.0", 15),
        ("1.16.3", 19),
        ("1.18.0", 21),
        ("1.32.0", 21),
        ("1.7.0", None),
        ("2.0", None),
        ("", None),
        ("1.x", None),
    ],
)
def test_opset_of_a_runtime(runtime: str, opset: int | None) -> None:
    """By the table of the runtime's own documentation; what it lacks is not guessed."""
    assert opset_of(runtime) == opset


def test_profile_is_fitted_to_the_device() -> None:
    """An old runtime lowers the ceiling, never raises it; less memory and a ban are said."""
    assert match_profile({**ORIN, "runtime": "1.16.3"}).opset_ceiling == 19
    assert match_profile({**ORIN, "runtime": None}).opset_ceiling == 21
    nano = load_profile("jetson-nano")
    assert fit_profile(nano, {"runtime": "1.32.0"}).opset_ceiling == 15
    small = match_profile({**ORIN, "module": "p3767-0001", "memory_bytes": 2**33 - 2**29})
    assert small.memory_bytes == 2**33 - 2**29
    assert "7.5 GiB" in small.traps[0]
    banned = fit_profile(load_profile("pi4"), {"runtime": "1.21.0"})
    assert "illegal instruction" in banned.traps[0]
    assert "emulated" in match_profile({**ORIN, "machine_kind": "emulated"}).traps[0]


@pytest.mark.parametrize(
    ("profile", "changes", "words"),
    [
        ("jetson-orin-nx", {}, ()),
        ("generic-arm64", {}, ("Orin NX", "jetson-orin-nx", "generic-arm64")),
        ("jetson-orin-nano", {}, ("p3767-0000", "jetson-orin-nx")),
        ("raspberry-pi-5", {}, ("Orin NX", "raspberry-pi-5")),
        ("x86-vnni", {}, ("x86_64", "aarch64")),
        ("raspberry-pi-5", {"features": ["neon"]}, ("dotprod, fp16", "lacks")),
        # Nothing contradicts: the device says nothing about itself.
        (
            "raspberry-pi-5",
            dict.fromkeys(("board", "board_model", "module", "soc"), None)
            | {"compatible": [], "cpu_parts": []},
            (),
        ),
        (
            "raspberry-pi-5",
            {"compatible": ["acme,box"], "soc": "box", "module": None, "cpu_parts": []},
            ("nothing on the device", "raspberry-pi-5"),
        ),
    ],
)
def test_disagreement_is_one_sentence(
    profile: str, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    """Of a chosen profile with what the device says; empty where nothing speaks against it."""
    text = disagreement(load_profile(profile), {**ORIN, **changes})
    assert bool(text) == bool(words)
    assert all(word in text for word in words), text
    assert "\n" not in text
