"""Which sensor a board has, what its total is, and what it says where it cannot be read."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.boards.boards import RAPL_RANGE_UJ, build, write, write_watts
from tests.energy.agent_energy import AGENT, asked

_BATTERY = "/sys/class/power_supply/battery"
SIX = ["GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"]
CHOSEN = {
    "jetson-nano": ("ina3221_iio", "module", ["POM_5V_IN"]),
    "jetson-xavier-nx": ("ina3221_hwmon", "module", ["VDD_IN"]),
    "jetson-agx-xavier": ("ina3221_hwmon", "module", SIX),
    "jetson-orin-nano": ("ina3221_hwmon", "module", ["VDD_IN"]),
    "jetson-orin-nx": ("ina3221_hwmon", "module", ["VDD_IN"]),
    "jetson-agx-orin": (
        "ina3221_hwmon",
        "soc-rails (partial)",
        ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"],
    ),
    "jetson-thor": ("ina238", "board", ["VIN"]),
    "x86-n100": ("rapl", "package", ["package-0"]),
    "android-arm64": ("power_supply", "battery", ["battery"]),
}


@pytest.mark.parametrize("board", CHOSEN)
def test_the_total_is_the_boards_own(board: str, tmp_path: Path) -> None:
    """Name, scope and rails of the preferred sensor; the reading is the power within its steps."""
    root = build(board, tmp_path)
    write_watts(root, board, watts=12.0, joules=77.0)
    code = "(lambda s: [s.describe(), s.read()])(sensors.choose()[0])"
    told, read = asked(root, code)
    assert (told["name"], told["scope"], told["total"]) == CHOSEN[board]
    assert told["readable"]
    expected = 77.0 if told["kind"] == "counter" else 12.0
    assert sum(read.values()) == pytest.approx(expected, abs=0.5 * (told["resolution_w"] or 0.01))


def test_pi_5_sums_twelve_rails(tmp_path: Path) -> None:
    """EXT5V and BATT have no current and are left out."""
    root = build("raspberry-pi-5", tmp_path)
    write_watts(root, "raspberry-pi-5", watts=6.0, joules=0.0)
    told, read = asked(root, "(lambda s: [s.describe(), s.read()])(sensors.choose()[0])")
    assert (told["name"], told["scope"], len(told["total"])) == ("pmic_read_adc", "pmic", 12)
    assert sum(read.values()) == pytest.approx(6.0, abs=0.03)
    assert told["gain"] is None
    assert told["max_hz"] <= 10


@pytest.mark.parametrize(
    ("board", "words"),
    [("raspberry-pi-4", "voltages"), ("rock-5b", "meter"), ("generic-arm64", "meter")],
)
def test_no_sensor_is_said_with_what_helps(board: str, words: str, tmp_path: Path) -> None:
    """Boards without a current sensor."""
    sensor, reason = asked(build(board, tmp_path), "sensors.choose()")
    assert sensor is None
    assert words in reason
    assert "meter" in reason


def test_nc_and_switched_off_channels_are_no_rails(tmp_path: Path) -> None:
    """NC labels, channels that are off, and in7, which is no rail."""
    root = build("jetson-agx-orin", tmp_path)
    told = asked(root, "sensors.describe()")[0]
    assert "NC" not in told["labels"]
    assert len(told["labels"]) == 4
    place = next((root / "sys/bus/i2c/drivers/ina3221/1-0041/hwmon").iterdir())
    (place / "in2_enable").write_text("0\n")
    assert "VDDQ_VDD2_1V8AO" not in asked(root, "sensors.describe()")[0]["labels"]


def test_unknown_rails_are_not_added_up(tmp_path: Path) -> None:
    """A board that no table knows: a reason, no sum."""
    root = build("jetson-orin-nano", tmp_path)
    place = next((root / "sys/bus/i2c/drivers/ina3221/1-0040/hwmon").iterdir())
    (place / "in1_label").write_text("VBAT\n")
    sensor, reason = asked(root, "sensors.choose(['ina3221_hwmon'])")
    assert sensor is None
    assert "VBAT" in reason


def test_a_monitor_in_the_supply(tmp_path: Path) -> None:
    """An INA226 on a board of its own: microwatts, steps by its shunt; two are told apart."""
    root = build("rock-5b", tmp_path)
    for number, (chip, place) in enumerate((("ina226", "3-0040"), ("ina219", "3-0041"))):
        device = f"/sys/bus/i2c/devices/{place}/hwmon/hwmon{number + 5}"
        write(root, f"{device}/name", chip + "\n")
        write(root, f"{device}/power1_input", "7250000\n")
        write(root, f"{device}/shunt_resistor", "10000\n")
        os.symlink(root / device[1:], root / f"sys/class/hwmon/hwmon{number + 5}")
        if number == 0:
            told, read = asked(root, "(lambda s: [s.describe(), s.read()])(sensors.choose()[0])")
            assert (told["name"], told["scope"]) == ("ina2xx", "board")
            assert told["resolution_w"] == pytest.approx(0.00625)
            assert read == {"POWER": 7.25}
    names = [each["name"] for each in asked(root, "sensors.describe()")]
    assert names == ["ina2xx/3-0040", "ina2xx/3-0041"]


def test_counters_of_root_only_are_a_reason(tmp_path: Path) -> None:
    """RAPL without read permission: the udev line that helps, never an estimate."""
    root = build("x86-n100", tmp_path)
    (root / "sys/class/powercap/intel-rapl:0/energy_uj").chmod(0)
    sensor, reason = asked(root, "sensors.choose()", prefix=unprivileged())
    assert sensor is None
    assert "readable by root only" in reason
    assert "udev" in reason


def unprivileged() -> tuple[str, ...]:
    """A prefix under which file permissions hold even for root."""
    if os.geteuid() != 0:
        return ()
    tool = shutil.which("setpriv")
    if tool is None:
        pytest.skip("root reads every file, and setpriv (util-linux) is not there to prevent it")
    return (tool, "--bounding-set", "-dac_override,-dac_read_search")


def test_counters_know_where_they_start_again(tmp_path: Path) -> None:
    """One unit above the largest value; sub-zones are part of the package."""
    told = asked(build("x86-n100", tmp_path), "sensors.describe()")[0]
    assert told["labels"] == ["package-0"]
    assert told["ranges_j"] == {"package-0": pytest.approx((RAPL_RANGE_UJ + 1) * 1e-6)}


@pytest.mark.parametrize(
    ("current", "watts"), [("1500000", 6.0), ("-1500000", 6.0), ("1500", 6.0), ("-1500", 6.0)]
)
def test_battery_of_any_vendor(current: str, watts: float, tmp_path: Path) -> None:
    """Either sign, microamperes or milliamperes."""
    root = build("android-arm64", tmp_path)
    write(root, f"{_BATTERY}/current_now", current + "\n")
    assert asked(root, "sensors.choose()[0].read()") == {"battery": pytest.approx(watts)}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [("status", "Charging", "external power"), ("current_now", "0", "no device's power")],
)
def test_battery_that_says_nothing(name: str, text: str, words: str, tmp_path: Path) -> None:
    """Charging, or a figure that no device draws."""
    root = build("android-arm64", tmp_path)
    write(root, f"{_BATTERY}/{name}", text + "\n")
    sensor, reason = asked(root, "sensors.choose()")
    assert sensor is None
    assert words in reason


def test_a_strange_line_invalidates_the_whole_answer(tmp_path: Path) -> None:
    """Nothing is believed of an answer that is not understood."""
    root = build("raspberry-pi-5", tmp_path)
    text = (root / "firmware/pmic_read_adc").read_text()
    write(root, "/firmware/pmic_read_adc", text + "   NEW_RAIL something(3)=1.0X\n")
    sensor, reason = asked(root, "sensors.choose()")
    assert sensor is None
    assert "NEW_RAIL" in reason


def test_firmware_that_may_not_be_asked(tmp_path: Path) -> None:
    """Without access to the firmware the group is named."""
    root = build("raspberry-pi-5", tmp_path)
    write(root, "/bin/vcgencmd", "#!/bin/sh\necho VCHI initialization failed\nexit 255\n")
    (root / "bin/vcgencmd").chmod(0o755)
    assert "group `video`" in asked(root, "sensors.choose()")[1]


def test_names_choose_in_their_order(tmp_path: Path) -> None:
    """The first that is readable; where the board has none of them, its own order counts."""
    root = build("jetson-thor", tmp_path)
    code = "sensors.choose(['rapl', 'ina3221_hwmon'])[0].name"
    assert asked(root, code) == "ina3221_hwmon"
    assert asked(root, "sensors.choose(['rapl'])[0].name") == "ina238"
    assert asked(root, "sensors.named('rapl')") is None


def test_nvml_refuses_on_a_jetson(tmp_path: Path) -> None:
    """The rails are there instead."""
    sensor, reason = asked(build("jetson-orin-nx", tmp_path), "sensors.choose(['nvml'])")
    assert sensor is None
    assert "Jetson" in reason


_NVML = """
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h)
{ *h = (void *)(long)(i + 1); return i < 3 ? 0 : 2; }
int nvmlDeviceGetHandleByUUID(const char *u, void **h)
{ *h = (void *)9L; return strcmp(u, "GPU-5f3c") ? 6 : 0; }
int nvmlDeviceGetPowerUsage(void *h, unsigned *mw) { *mw = 65000 + (long)h; return %d; }
"""


def with_nvml(folder: Path, code: int = 0) -> Path:
    """A board with a library built here, of three GPUs; the power's return code is `code`."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build a stand-in for libnvidia-ml")
    root = build("x86-n100", folder)
    (root / "usr/lib").mkdir(parents=True)
    (root / "nvml.c").write_text(_NVML % code)
    library = root / "usr/lib/libnvidia-ml.so.1"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(root / "nvml.c")]
    subprocess.run(command, check=True, timeout=120)
    return root


def test_nvml_that_cannot_be_read(tmp_path: Path) -> None:
    """Error 3 is `not supported`."""
    root = with_nvml(tmp_path, code=3)
    assert "does not report" in asked(root, "sensors.choose(['nvml'])[1]")


@pytest.mark.parametrize(
    ("visible", "gpu", "label", "watts"),
    [
        ("2,0", 0, "gpu2", 65.003),
        ("2,0", 1, "gpu0", 65.001),
        ("0,1,2", 2, "gpu2", 65.003),
        ("GPU-5f3c,1", 0, "GPU-5f3c", 65.009),
        ("GPU-5f3c,1", 1, "gpu1", 65.002),
    ],
)
def test_the_gpu_that_the_work_runs_on(
    visible: str, gpu: int, label: str, watts: float, tmp_path: Path
) -> None:
    """As CUDA counts what is visible; it comes first whatever sensors the profile names.

    The process that samples finds the same one by its name.
    """
    told, read = asked(
        with_nvml(tmp_path),
        "(lambda s: [s.describe(), sensors.named(s.name).read()])"
        f"(sensors.choose(['rapl', 'nvml'], gpu={gpu})[0])",
        CUDA_VISIBLE_DEVICES=visible,
    )
    assert (told["scope"], told["labels"]) == ("gpu", [label])
    assert read == {label: pytest.approx(watts)}
    assert "another order" in told["note"]


def test_gpus_that_are_not_there_or_not_used(tmp_path: Path) -> None:
    """Another GPU's sensor is no stand-in, and none says anything of work on the processor."""
    root = with_nvml(tmp_path)
    name = "sensors.choose({}, gpu={})[0].name"
    assert asked(root, name.format([], 7)) == "rapl"
    assert asked(root, name.format([], None)) == "rapl"
    assert asked(root, name.format(["nvml"], None)) == "nvml"
    kinds = "[each.name for each in sensors.find()]"
    assert asked(root, kinds, CUDA_VISIBLE_DEVICES="1,5,0") == ["rapl", "nvml"]
    assert asked(root, kinds, CUDA_VISIBLE_DEVICES="") == ["rapl"]
    assert asked(root, kinds) == ["rapl", "nvml", "nvml/1", "nvml/2"]
    ordered = asked(root, "sensors.choose([], gpu=1)[0].note", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert "another order" not in ordered


def test_a_renumbered_device_is_not_taken_for_another(tmp_path: Path) -> None:
    """The label at the old place is another's: the reading fails, a new search finds it."""
    root = build("jetson-agx-xavier", tmp_path)
    first, second = (
        next((root / f"sys/bus/i2c/drivers/ina3221/1-{each}/hwmon").iterdir())
        for each in ("0040", "0041")
    )
    aside = tmp_path / "aside"
    moves = [(str(a), str(b)) for a, b in ((first, aside), (second, first), (aside, second))]
    before = f"""
sensor = sensors.choose()[0]
for old, new in {moves!r}:
    os.rename(old, new)
try:
    said = sensor.read()
except OSError as error:
    said = str(error)
again = sensors.choose()[0]
"""
    said, found = asked(root, "[said, again.read()]", before=before)
    assert "not at its place" in said
    assert list(found) == SIX


def test_little_cores_take_the_sampler(tmp_path: Path) -> None:
    """Of the cores that the runs leave free the slowest; none where all are equal and in use."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor")
    root = tmp_path / "equal"
    cores = sorted(os.sched_getaffinity(0))
    assert asked(root, f"sampler.pick_core({cores})") is None
    assert asked(root, f"sampler.pick_core({cores[:1]})") in cores[1:]
    for core in cores:
        capacity = 300 if core == cores[0] else 1024
        write(root, f"/sys/devices/system/cpu/cpu{core}/cpu_capacity", f"{capacity}\n")
    assert asked(root, f"sampler.pick_core({cores})") == cores[0]
    assert asked(root, f"sampler.pick_core({cores[:1]})") != cores[0]


def test_this_machine_can_be_asked() -> None:
    """Without a fake root nothing fails, whatever is there."""
    script = "import sensors; [s['scope'] for s in sensors.describe()]"
    environment = {k: v for k, v in os.environ.items() if k != "EDGEOPT_SYSROOT"}
    environment["PYTHONPATH"] = str(AGENT)
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=120)
