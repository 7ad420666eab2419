"""A board slowed by a control group: it measures as any other, and its waits are real."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeopt.testing.target_exam import bench_job, material
from tests.lab.board import Network, Reach
from tests.lab.groups import Group

pytestmark = pytest.mark.lab


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Group]:
    """A third of a processor."""
    try:
        group = Group(tmp_path, processors=0.33)
    except OSError as error:
        pytest.skip(f"slowing a board needs root and control groups: {error}")
    yield group
    group.remove()


def test_slow_board_measures(slow: Group, network: Network, reach: Reach, tmp_path: Path) -> None:
    """A third of a processor: jobs are done all the same, and the kernel made them wait."""
    board = network.board("lab-slow", entry={"python": str(slow.python)})
    target = reach(board.entry)
    model, feeds = material(tmp_path)
    before = slow.throttled()
    job = bench_job(target.put(model), target.put(feeds), min_seconds=0.2)
    reply = target.request("bench", deadline_s=400, **job)
    assert reply["ok"], reply
    assert slow.throttled() > before
    target.close()
    assert board.quiet()
