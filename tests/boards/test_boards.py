"""The fake system roots: files in the boards' formats, and a waveform that knows its integral."""

import time
from pathlib import Path

import pytest

from tests.boards.boards import BOARDS, build, pmic_text
from tests.boards.waveform import Waveform


@pytest.mark.parametrize("board", BOARDS)
def test_every_board_can_be_built(board: str, tmp_path: Path) -> None:
    """Device-tree strings end with NUL, and there is a processor entry a core."""
    spec, root = BOARDS[board], build(board, tmp_path)
    cores = sum(cluster.cores for cluster in spec.clusters)
    assert (root / "proc/cpuinfo").read_text().count("processor\t:") == cores
    assert (root / f"sys/devices/system/cpu/cpu{cores - 1}/cpufreq/scaling_governor").exists()
    if spec.compatible:
        assert (root / "proc/device-tree/compatible").read_bytes().endswith(b"\0")
    for place in (root / "sys/class/hwmon").iterdir():
        assert (place / "name").read_text().endswith("\n")


def test_waveform_knows_its_integral(tmp_path: Path) -> None:
    """Constant power: energy is power times time, whatever the writer's delays."""
    root = build("x86-n100", tmp_path)
    with Waveform(root, "x86-n100", lambda _: 3.0, period_s=0.01) as wave:
        begin = wave.written[0]
        while len(wave.written) < 5:
            time.sleep(0.005)
        end = wave.written[-1]
        assert wave.joules(begin, end) == pytest.approx(3.0 * (end - begin))
        with pytest.raises(ValueError, match="began after"):
            wave.joules(begin - 1, end)


def test_pmic_prints_every_rail() -> None:
    """Twelve currents, and voltages of fourteen."""
    text = pmic_text(4.0)
    assert text.count("current(") == 12
    assert text.count("volt(") == 14
