"""Fake system roots: folders with a board's files in the board's own formats.

    root = build("jetson-orin-nano", tmp_path / "root")

and `EDGEOPT_SYSROOT=<root>` makes the agent believe that it runs there. What a driver of the
board writes (power, clocks, heat) can be changed afterwards: `write_watts`, `Waveform`.
Nothing in here was compared with hardware.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from tests.boards.specs import BOARDS, Cluster, Spec

__all__ = ["BOARDS", "PMIC", "build", "write", "write_watts"]

_VCGENCMD = """#!/bin/sh
# What the firmware answers lies in files; a missing one is a command it does not know.
root=$(dirname "$0")/..
if [ -f "$root/firmware/$1" ]; then cat "$root/firmware/$1"; else
  echo "error=1 error_msg=\\"Command not registered\\""; exit 255; fi
"""
PMIC: Mapping[str, tuple[float, float]] = {
    "3V7_WL_SW": (3.7, 0.02),
    "3V3_SYS": (3.3, 0.07),
    "1V8_SYS": (1.8, 0.1),
    "DDR_VDD2": (1.1, 0.08),
    "DDR_VDDQ": (0.6, 0.03),
    "1V1_SYS": (1.1, 0.1),
    "0V8_SW": (0.8, 0.1),
    "VDD_CORE": (0.9, 0.47),
    "3V3_DAC": (3.3, 0.005),
    "3V3_ADC": (3.3, 0.005),
    "0V8_AON": (0.8, 0.01),
    "HDMI": (5.1, 0.01),
}
"""The Raspberry Pi 5's rails: volts, and share of their sum."""
PMIC_STEP_A = 0.00097622
RAPL_UNIT_UJ = 61.03515625
RAPL_RANGE_UJ = 262143328850
BATTERY_STEP_UA = 1000


def write(root: Path, path: str, text: str) -> None:
    """Write a file of the tree at once: a reader sees the old text or the new one."""
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = place.with_name(f".{place.name}.new")
    aside.write_bytes(text.encode())
    aside.replace(place)


def build(board: str, folder: Path) -> Path:
    """Write a board's files into a folder; returns the folder."""
    spec = BOARDS[board]
    write(folder, "/proc/sys/kernel/random/boot_id", "6f1ed002-ab59-5c2e-b6c7-4f1f2f0a5d11\n")
    write(folder, "/proc/cpuinfo", _cpuinfo(spec))
    write(folder, "/proc/meminfo", f"MemTotal:       {spec.memory_kb} kB\nSwapTotal:       0 kB\n")
    if spec.os_name:
        write(folder, "/etc/os-release", f'PRETTY_NAME="{spec.os_name}"\nNAME="{spec.os_name}"\n')
    _identity(folder, board, spec)
    _processors(folder, spec)
    for number, (name, heat) in enumerate(spec.zones):
        write(folder, f"/sys/class/thermal/thermal_zone{number}/type", name + "\n")
        write(folder, f"/sys/class/thermal/thermal_zone{number}/temp", f"{heat}\n")
    if spec.gpu:
        _graphics(folder, spec)
    if spec.vcgencmd:
        _firmware(folder)
    _sensors(folder, spec)
    write_watts(folder, board, watts=2.0, joules=10.0)
    return folder


def _identity(root: Path, board: str, spec: Spec) -> None:
    if board.startswith("x86"):
        write(root, "/sys/class/dmi/id/product_name", spec.model + "\n")
        write(root, "/sys/class/dmi/id/sys_vendor", "AZW\n")
        return
    if spec.model:
        write(root, "/proc/device-tree/model", spec.model + "\0")
    write(root, "/proc/device-tree/compatible", "\0".join(spec.compatible) + "\0")
    if board.startswith("android"):
        write(
            root, "/system/build.prop", "ro.build.version.release=14\nro.board.platform=pineapple\n"
        )
    if spec.tegra:
        write(root, "/etc/nv_tegra_release", spec.tegra)
        modes = "".join(
            f"< POWER_MODEL ID={number} NAME={name} >\nCPU_ONLINE CORE_0 1\n\n"
            for number, name in spec.modes
        )
        write(root, "/etc/nvpmodel.conf", f"{modes}< PM_CONFIG DEFAULT={spec.mode} >\n")
        write(root, "/var/lib/nvpmodel/status", f"pmode:{spec.mode:04d}\nfmode:fanNull\n")


def _cpuinfo(spec: Spec) -> str:
    blocks: list[str] = []
    for cluster in spec.clusters:
        for _ in range(cluster.cores):
            blocks.append(_core(len(blocks), spec, cluster))
    return "\n".join(blocks)


def _core(number: int, spec: Spec, cluster: Cluster) -> str:
    if spec.cpu_name:
        return (
            f"processor\t: {number}\nvendor_id\t: GenuineIntel\nmodel name\t: {spec.cpu_name}\n"
            f"flags\t\t: {spec.features}\n"
        )
    return (
        f"processor\t: {number}\nBogoMIPS\t: 62.50\nFeatures\t: {spec.features}\n"
        f"CPU implementer\t: {cluster.implementer}\nCPU architecture: 8\nCPU variant\t: 0x0\n"
        f"CPU part\t: {cluster.part}\nCPU revision\t: 1\n"
    )


def _processors(root: Path, spec: Spec) -> None:
    base, first = "/sys/devices/system/cpu", 0
    for cluster in spec.clusters:
        numbers = range(first, first + cluster.cores)
        policy = f"{base}/cpufreq/policy{first}"
        write(root, f"{policy}/related_cpus", " ".join(map(str, numbers)) + "\n")
        write(root, f"{policy}/scaling_governor", "schedutil\n")
        write(root, f"{policy}/scaling_cur_freq", f"{cluster.max_khz}\n")
        write(root, f"{policy}/cpuinfo_max_freq", f"{cluster.max_khz}\n")
        write(root, f"{policy}/scaling_max_freq", f"{cluster.max_khz}\n")
        write(root, f"{policy}/cpuinfo_min_freq", "408000\n")
        states = f"408000 1200\n{cluster.max_khz} 3400\n"
        write(root, f"{policy}/stats/time_in_state", states)
        for number in numbers:
            write(root, f"{base}/cpu{number}/cpu_capacity", f"{cluster.capacity}\n")
            os.symlink(f"../cpufreq/policy{first}", root / f"{base}/cpu{number}/cpufreq"[1:])
        first += cluster.cores
    write(root, f"{base}/online", f"0-{first - 1}\n")
    write(root, f"{base}/possible", f"0-{first - 1}\n")


def _graphics(root: Path, spec: Spec) -> None:
    place = f"/sys/class/devfreq/{spec.gpu}"
    for name, clock in (("cur", 624750000), ("min", 306000000), ("max", 1020000000)):
        write(root, f"{place}/{name}_freq", f"{clock}\n")
    write(root, f"{place}/governor", "nvhost_podgov\n" if spec.tegra else "simple_ondemand\n")
    if not spec.tegra:
        write(root, f"{place}/load", "37@624750000Hz\n")
        return
    # Thousandths, in the device's own folder.
    write(root, f"{place}/device/load", "370\n")
    place = _hwmon(root, "soctherm_oc", "/sys/devices/platform/soctherm-oc-event")
    for number in (1, 2, 3):
        write(root, f"{place}/oc{number}_event_cnt", "0\n")


def _firmware(root: Path) -> None:
    write(root, "/bin/vcgencmd", _VCGENCMD)
    (root / "bin/vcgencmd").chmod(0o755)
    write(root, "/firmware/get_throttled", "throttled=0x0\n")
    write(root, "/firmware/measure_volts", "volt=0.8563V\n")


def _hwmon(root: Path, name: str, device: str) -> str:
    """A hwmon device with the next number, seen from its class and from its device."""
    group = root / "sys/class/hwmon"
    group.mkdir(parents=True, exist_ok=True)
    number = len(list(group.iterdir()))
    place = f"{device}/hwmon/hwmon{number}"
    write(root, f"{place}/name", name + "\n")
    os.symlink(os.path.relpath(root / place[1:], group), group / f"hwmon{number}")
    return place


def _sensors(root: Path, spec: Spec) -> None:
    # Something else comes first, as on a real board: numbers mean nothing.
    write(root, _hwmon(root, "pwmfan", "/sys/devices/platform/pwm-fan") + "/rpm", "0\n")
    if spec.sensor == "ina3221_hwmon":
        for address in dict.fromkeys(rail.address for rail in spec.rails):
            place = _hwmon(root, "ina3221", f"/sys/bus/i2c/drivers/ina3221/1-{address}")
            mine = [rail for rail in spec.rails if rail.address == address]
            for channel in (1, 2, 3):
                rail = mine[channel - 1] if channel <= len(mine) else None
                write(root, f"{place}/in{channel}_label", f"{rail.label if rail else 'NC'}\n")
                write(root, f"{place}/in{channel}_input", "0\n")
                write(root, f"{place}/curr{channel}_input", "0\n")
                shunt = rail.shunt_uohm if rail else 5000
                write(root, f"{place}/shunt{channel}_resistor", f"{shunt}\n")
            write(root, f"{place}/in7_label", "sum of shunt voltages\n")
            write(root, f"{place}/in7_input", "12\n")
    if spec.sensor == "ina3221_iio":
        place = "/sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0"
        for number, rail in enumerate(spec.rails):
            write(root, f"{place}/rail_name_{number}", rail.label + "\n")
    if spec.vin:
        place = _hwmon(root, "ina238", "/sys/bus/i2c/drivers/ina238/2-0044")
        write(root, f"{place}/shunt_resistor", "2000\n")
    if spec.sensor == "rapl":
        base = "/sys/class/powercap"
        for zone, name in (("0", "package-0"), ("0:0", "core"), ("0:1", "uncore")):
            write(root, f"{base}/intel-rapl:{zone}/name", name + "\n")
            write(root, f"{base}/intel-rapl:{zone}/max_energy_range_uj", f"{RAPL_RANGE_UJ}\n")
    if spec.sensor == "power_supply":
        for name, kind in (("battery", "Battery"), ("usb", "USB")):
            write(root, f"/sys/class/power_supply/{name}/type", kind + "\n")
        write(root, "/sys/class/power_supply/usb/online", "0\n")
        write(root, "/sys/class/power_supply/battery/status", "Discharging\n")
        write(root, "/sys/class/power_supply/battery/voltage_now", "4000000\n")


def write_watts(root: Path, board: str, *, watts: float, joules: float) -> None:
    """What the board's sensor shows at a total power, or for a counter after that energy.

    Readings are rounded to the sensor's step, as its converter does.
    """
    spec = BOARDS[board]
    if spec.sensor == "ina3221_hwmon":
        _write_ina3221(root, spec, watts)
    if spec.sensor == "ina3221_iio":
        for number, rail in enumerate(spec.rails):
            current = _step_ma(rail.share * watts / rail.volts, rail.shunt_uohm)
            place = f"/sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0/in_{{}}{number}_input"
            write(root, place.format("voltage"), f"{round(rail.volts * 1000)}\n")
            write(root, place.format("current"), f"{current}\n")
            write(root, place.format("power"), f"{round(rail.volts * current)}\n")
    if spec.vin:
        place = _find(root, "ina238")
        step_a = 5e-6 / 2e-3
        current = round(watts / 20.0 / step_a) * step_a
        write(root, f"{place}/in1_input", "20000\n")
        write(root, f"{place}/curr1_input", f"{round(current * 1000)}\n")
        write(root, f"{place}/power1_input", f"{round(current * 20.0 * 1e6)}\n")
    if spec.sensor == "pmic_read_adc":
        write(root, "/firmware/pmic_read_adc", pmic_text(watts))
    if spec.sensor == "rapl":
        base, ticks = "/sys/class/powercap", round(joules * 1e6 / RAPL_UNIT_UJ)
        for zone, share in (("0", 1.0), ("0:0", 0.6), ("0:1", 0.1)):
            place = f"{base}/intel-rapl:{zone}"
            largest = int((root / place[1:] / "max_energy_range_uj").read_text())
            count = round(ticks * share * RAPL_UNIT_UJ) % (largest + 1)
            write(root, f"{place}/energy_uj", f"{count}\n")
    if spec.sensor == "power_supply":
        # This vendor counts what leaves the battery as positive; the standard says negative.
        current = round(watts / 4.0 * 1e6 / BATTERY_STEP_UA) * BATTERY_STEP_UA
        write(root, "/sys/class/power_supply/battery/current_now", f"{current}\n")


def _step_ma(amperes: float, shunt_uohm: int) -> int:
    """An INA3221's reading: steps of 40 µV over the shunt."""
    step = 40.0 / shunt_uohm
    return round(round(amperes / step) * step * 1000)


def _write_ina3221(root: Path, spec: Spec, watts: float) -> None:
    seen: dict[str, int] = {}
    places = {
        address: f"sys/bus/i2c/drivers/ina3221/1-{address}/hwmon"
        for address in dict.fromkeys(rail.address for rail in spec.rails)
    }
    for rail in spec.rails:
        channel = seen[rail.address] = seen.get(rail.address, 0) + 1
        folders = sorted((root / places[rail.address]).iterdir())
        if not folders or not rail.volts:
            continue
        place = "/" + folders[0].relative_to(root).as_posix()
        current = _step_ma(rail.share * watts / rail.volts, rail.shunt_uohm)
        write(root, f"{place}/in{channel}_input", f"{round(rail.volts * 125) * 8}\n")
        write(root, f"{place}/curr{channel}_input", f"{current}\n")


def _find(root: Path, name: str) -> str:
    for place in sorted((root / "sys/class/hwmon").iterdir()):
        if (place / "name").read_text().strip() == name:
            return "/" + place.relative_to(root).as_posix()
    raise LookupError(name)


def pmic_text(watts: float) -> str:
    """What `vcgencmd pmic_read_adc` prints at that sum of V times I."""
    lines: list[str] = []
    for number, (rail, (volts, share)) in enumerate(PMIC.items()):
        current = round(share * watts / volts / PMIC_STEP_A) * PMIC_STEP_A
        lines.append(f"{rail + '_A':>13} current({number})={current:.8f}A")
    for number, (rail, (volts, _)) in enumerate(PMIC.items(), start=8):
        lines.append(f"{rail + '_V':>13} volt({number})={volts:.8f}V")
    lines += [f"{'EXT5V_V':>13} volt(24)=5.14940000V", f"{'BATT_V':>13} volt(25)=0.00000000V"]
    return "\n".join(lines) + "\n"
