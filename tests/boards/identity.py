"""What a fake system root says about itself beside its sensors: kernel, releases, control groups.

root = known("raspberry-pi-5", tmp_path)    # a board of boards.BOARDS, or a machine of MACHINES
root = near("raspberry-pi-3", tmp_path)     # something that no profile is made for
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.boards.boards import BOARDS, build, write
from tests.boards.specs import Cluster, Spec

_XEON = "fpu sse4_1 sse4_2 fma avx f16c avx2 avx512f"
# x86 machines that differ only in their instruction set.
MACHINES: Mapping[str, tuple[str, str]] = {
    "x86-avx2": ("Intel(R) Core(TM) i5-8250U CPU @ 1.60GHz", "fpu sse4_1 fma avx f16c avx2"),
    "x86-vnni": ("Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", f"{_XEON} avx512_vnni"),
    "x86-sse": ("Intel(R) Atom(TM) CPU D525 @ 1.80GHz", "fpu sse4_1"),
    "x86-vnni-vm": ("Intel(R) Xeon(R) Processor", f"{_XEON} avx512_vnni hypervisor"),
}
KINDS = (*(name for name in BOARDS if name != "jetson-agx-xavier"), "x86-avx2", "x86-vnni")
"""One machine of each kind that a profile is made for, by the profile's name."""
_RELEASES = {
    "18.04.6": ("ubuntu", "18.04", "4.9.337-tegra"),
    "20.04.6": ("ubuntu", "20.04", "5.10.216-tegra"),
    "22.04.5": ("ubuntu", "22.04", "5.15.148-tegra"),
    "24.04.3": ("ubuntu", "24.04", "6.8.12-tegra"),
    "12 (bookworm)": ("debian", "12", "6.6.51+rpt-rpi-v8"),
}
_NEAR: Mapping[str, tuple[str, dict[str, object]]] = {
    # Base, and what is different about it.
    "orin-unknown-module": (
        "jetson-orin-nx",
        {
            "model": "Acme Vision Box",
            "compatible": ("acme,box+p3767-0999", "nvidia,p3767-0999", "nvidia,tegra234"),
        },
    ),
    "orin-container": ("jetson-orin-nx", {"model": "", "compatible": (), "tegra": ""}),
    "orin-nano-4gb": (
        "jetson-orin-nano",
        {
            "compatible": ("nvidia,p3768-0000+p3767-0004", "nvidia,p3767-0004", "nvidia,tegra234"),
            "memory_kb": 3900000,
        },
    ),
    "future-release": (
        "jetson-orin-nano",
        {"tegra": "# R36 (release), REVISION: 9.1, GCID: 1, BOARD: generic, EABI: aarch64\n"},
    ),
    "raspberry-pi-3": (
        "raspberry-pi-4",
        {
            "model": "Raspberry Pi 3 Model B Plus Rev 1.3",
            "compatible": ("raspberrypi,3-model-b-plus", "brcm,bcm2837"),
            "clusters": (Cluster(cores=4, max_khz=1400000, part="0xd03"),),
            "memory_kb": 948000,
        },
    ),
    "compute-module-4": (
        "raspberry-pi-4",
        {
            "model": "Raspberry Pi Compute Module 4 Rev 1.1",
            "compatible": ("raspberrypi,4-compute-module", "brcm,bcm2711"),
        },
    ),
    "other-arm-server": (
        "generic-arm64",
        {
            "compatible": (),
            "model": "",
            "clusters": (Cluster(cores=4, max_khz=2600000, part="0xd0c"),),
        },
    ),
}
NEAR = tuple(_NEAR)
"""Machines that resemble one of the kinds."""


def known(kind: str, folder: Path) -> Path:
    """A machine of a kind; returns its system root."""
    if kind in MACHINES:
        return _machine(kind, folder)
    build(kind, folder)
    return _said(BOARDS[kind], folder)


def near(name: str, folder: Path) -> Path:
    """A machine that resembles a kind; returns its system root."""
    base, changes = _NEAR[name]
    spec = replace(BOARDS[base], **changes)
    BOARDS[name] = spec
    try:
        build(name, folder)
    finally:
        del BOARDS[name]
    if not spec.compatible:
        (folder / "proc/device-tree/compatible").unlink()
        write(folder, "/proc/1/cgroup", "0::/docker/5d1f\n")
        write(folder, "/.dockerenv", "")
    return _said(spec, folder)


def _said(spec: Spec, folder: Path) -> Path:
    write(folder, "/proc/sys/kernel/arch", ("x86_64" if spec.cpu_name else "aarch64") + "\n")
    for text, (system, version, kernel) in _RELEASES.items():
        if text in spec.os_name:
            release = f'PRETTY_NAME="{spec.os_name}"\nID={system}\nVERSION_ID="{version}"\n'
            write(folder, "/etc/os-release", release)
            write(folder, "/proc/sys/kernel/osrelease", kernel + "\n")
    return folder


def _machine(kind: str, folder: Path) -> Path:
    name, flags = MACHINES[kind]
    cores = "\n".join(
        f"processor\t: {number}\nvendor_id\t: GenuineIntel\nmodel name\t: {name}\n"
        f"flags\t\t: {flags}\n"
        for number in range(4)
    )
    write(folder, "/proc/cpuinfo", cores)
    write(folder, "/proc/meminfo", "MemTotal:       16100000 kB\nSwapTotal:       0 kB\n")
    write(folder, "/proc/sys/kernel/arch", "x86_64\n")
    write(folder, "/sys/class/dmi/id/product_name", "Standard PC\n")
    write(folder, "/sys/class/dmi/id/sys_vendor", "QEMU\n" if "vm" in kind else "Dell Inc.\n")
    write(folder, "/etc/os-release", 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nID=ubuntu\n')
    return folder
