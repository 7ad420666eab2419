"""Releases, modules and power modes as the board's files write them, in the agent's own words."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import edgeopt
from tests.boards.boards import write

AGENT = Path(edgeopt.__file__).parent / "device_agent"
CONF = (
    "< PARAM TYPE=FILE NAME=CPU_ONLINE >\nCORE_0 /sys/devices/system/cpu/cpu0/online\n"
    "< POWER_MODEL ID=0 NAME=15W >\nCPU_ONLINE CORE_0 1\n< POWER_MODEL ID=1 NAME=25W >\n"
    "< POWER_MODEL ID=2 NAME=MAXN_SUPER >\n< PM_CONFIG DEFAULT=1 >\n"
)


def said(expression: str, root: Path) -> Any:
    """What an expression over the agent's module `board` gives, below a system root."""
    done = subprocess.run(
        [sys.executable, "-c", f"import board, json; print(json.dumps({expression}))"],
        env={**os.environ, "PYTHONPATH": str(AGENT), "EDGEOPT_SYSROOT": str(root)},
        capture_output=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)


def test_jetpack_of_each_release(tmp_path: Path) -> None:
    """The public table; of an unknown release the generation; of another system nothing."""
    releases = {
        "32.7.4": "4.6",
        "35.4.1": "5",
        "35.6.0": "5.1.4",
        "35.6.4": "5.1.6",
        "36.4.3": "6.2",
        "36.4.7": "6.2.1",
        "36.5.0": "6.2.2",
        "36.9.1": "6",
        "38.2.0": "7.0",
        "38.4.0": "7.1",
        "39.2.0": "7.2",
        "41.0.0": None,
        "": None,
    }
    names = list(releases)
    found = said(f"[board.jetpack(name) for name in {names!r}] + [board.jetpack(None)]", tmp_path)
    assert dict(zip(names, found[:-1], strict=True)) == releases
    assert found[-1] is None


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("# R32 (release), REVISION: 7.4, GCID: 33514132, BOARD: t210ref, EABI: aarch64", "32.7.4"),
        ("# R36 (release), REVISION: 4.7, GCID: 42132812, BOARD: generic\n", "36.4.7"),
        ("# R39 (release), REVISION: 2, GCID: 1\n", "39.2"),
        ("nothing of the kind\n", None),
    ],
)
def test_release_file(text: str, release: str | None, tmp_path: Path) -> None:
    """The first line of nv_tegra_release."""
    write(tmp_path, "/etc/nv_tegra_release", text)
    assert said("board.l4t()", tmp_path) == release


@pytest.mark.parametrize(
    ("status", "conf", "mode"),
    [
        ("pmode:0002 fmode:fanNull\n", CONF, "MAXN_SUPER"),
        ("pmode:0000\nfmode:quiet\n", CONF, "15W"),
        # A mode that the table lacks is told by its number, never by a wrong name.
        ("pmode:0009\n", CONF, "9"),
        # Never switched: the mode that the board boots in.
        (None, CONF, "25W"),
        ("pmode:0001\n", None, "1"),
        (None, None, None),
    ],
)
def test_power_mode_by_name(
    status: str | None, conf: str | None, mode: str | None, tmp_path: Path
) -> None:
    """Read from nvpmodel's own files; nothing is run and nothing is changed."""
    if status is not None:
        write(tmp_path, "/var/lib/nvpmodel/status", status)
    if conf is not None:
        write(tmp_path, "/etc/nvpmodel.conf", conf)
    assert said("board.power_mode()", tmp_path) == mode


@pytest.mark.parametrize(
    ("entries", "module", "chip"),
    [
        (["nvidia,p3768-0000+p3767-0005-super", "nvidia,tegra234"], "p3767-0005", "tegra234"),
        (["acme,box", "nvidia,p3767-0001", "nvidia,tegra234"], "p3767-0001", "tegra234"),
        (["acme,board-1+p3701-0005", "nvidia,tegra234"], "p3701-0005", "tegra234"),
        (["raspberrypi,5-model-b", "brcm,bcm2712"], None, "bcm2712"),
        (["novendor"], None, None),
        ([], None, None),
    ],
)
def test_module_and_chip(
    entries: list[str], module: str | None, chip: str | None, tmp_path: Path
) -> None:
    """The module stands behind the carrier; the chip is the last entry, without its maker."""
    found = said(f"[board.module({entries!r}), board.soc({entries!r})]", tmp_path)
    assert found == [module, chip]


def test_nano_names_its_module_in_a_folder(tmp_path: Path) -> None:
    """JetPack 4's device tree has the carrier only; the boot loader's list has the module."""
    write(tmp_path, "/proc/device-tree/compatible", "nvidia,p3450-0000\0nvidia,tegra210\0")
    folder = "/proc/device-tree/chosen/plugin-manager/ids"
    for name in ("3448-0000-401", "3449-0000-401"):
        write(tmp_path, f"{folder}/{name}", "\0")
    assert said("board.module(board.compatible())", tmp_path) == "p3448-0000"


def test_real_root_is_not_pretended() -> None:
    """Without another root the agent takes the real machine's architecture and tools."""
    environment = {key: value for key, value in os.environ.items() if key != "EDGEOPT_SYSROOT"}
    done = subprocess.run(
        [sys.executable, "-c", "import board, machine; print(machine.pretended(), board.kind())"],
        env={**environment, "PYTHONPATH": str(AGENT)},
        capture_output=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.decode().split(maxsplit=1)[0] == "False"
