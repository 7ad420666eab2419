"""What a lane does when its device goes away while a candidate is scored, and what it drops."""

import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from edgeopt.api import search
from edgeopt.api.host import Host
from edgeopt.api.search import BATCH, _that_fit, of_the_moment
from edgeopt.api.under_way import Scoring
from edgeopt.core.measurement import Failure, Verdict
from edgeopt.errors import ConnectionLostError
from edgeopt.measure.runner import Outcome


@dataclass
class Lane:
    """As much of a lane as scoring sees: which bench is open, and how it is opened again."""

    host: Host
    device: str
    bench: int = 0
    away: threading.Event | None = None

    def reopened(self, lost: int, error: ConnectionLostError) -> None:
        if self.away is not None:
            self.away.wait(60)
        assert lost == self.bench
        self.bench += 1


def _on_the_second_bench(bench: int) -> str:
    if bench == 0:
        raise ConnectionLostError("gone", where="board", hint="")
    return f"scored on bench {bench}"


def test_a_device_that_went_away_is_scored_on_when_it_is_back():
    """The same work is queued again with the bench that was opened anew."""
    with Host() as host:
        assert Scoring(Lane(host, "a"), _on_the_second_bench).result() == "scored on bench 1"


def test_other_devices_are_scored_meanwhile():
    """A lane that waits for its board holds up no queue."""
    back = threading.Event()
    with Host() as host:
        waiting = Scoring(Lane(host, "a", away=back), _on_the_second_bench)
        thread = threading.Thread(target=waiting.result)
        thread.start()
        assert Scoring(Lane(host, "b"), lambda bench: bench).result() == 0
        back.set()
        thread.join(60)
        assert not thread.is_alive()


def test_slow_scoring_of_one_device_holds_up_no_other():
    """Each device has a queue of its own."""
    release = threading.Event()
    with Host() as host:
        slow = host.score("a", release.wait, 60)
        assert host.score("b", lambda: 7).result(60) == 7
        release.set()
        assert slow.result(60)


def test_a_defect_is_no_lost_connection():
    """Anything else is raised at once."""

    def fail(bench: int) -> None:
        raise ValueError("no")

    with Host() as host, pytest.raises(ValueError, match="no"):
        Scoring(Lane(host, "a"), fail).result()


def _outcome(status, *reasons):
    return Outcome(
        values={},
        absent={},
        verdict=Verdict(status=status, reasons=reasons),
        environment={},
        profile=None,
        device_s=0.0,
    )


@pytest.mark.parametrize(
    ("outcome", "again"),
    [
        (_outcome("invalid", "drift: the baseline changed", "busy: other work"), True),
        (_outcome("invalid", "starved: the runs got 10%"), True),
        (_outcome("invalid", "fallback: everything ran elsewhere"), False),
        (_outcome("suspect", "drift: the baseline changed"), False),
        (_outcome("valid"), False),
        (Failure(stage="load", reason="starved: of nothing"), False),
        (Failure(stage="run", reason="ended by signal 9", sudden=True), True),
    ],
)
def test_what_a_busy_machine_spoilt_is_measured_once_more(outcome, again):
    """Not what is a fact of the model, and not what may be used as it is."""
    assert of_the_moment(outcome) is again


def test_what_is_asked_for_fits_into_the_time_that_is_left() -> None:
    """Where finding out what a recipe comes to takes minutes, less than a batch, and then nothing;
    never one alone, since who trains answers with a pair."""
    assert _that_fit(spare_s=0.0, pace_s=0.0) == BATCH
    assert _that_fit(spare_s=600.0, pace_s=60.0) == BATCH
    assert _that_fit(spare_s=599.0, pace_s=100.0) == 5
    assert _that_fit(spare_s=110.0, pace_s=100.0) == 2
    assert _that_fit(spare_s=99.0, pace_s=100.0) == 0


def test_who_answers_too_slowly_for_what_is_left_is_not_asked_again() -> None:
    """And the search knows that it was the time that ended, not the ideas."""
    asked: list[int] = []

    def ask(count: int) -> tuple[SimpleNamespace, ...]:
        asked.append(count)
        time.sleep(0.02)
        return (SimpleNamespace(key=str(len(asked))),)

    with Host() as host:
        lane = SimpleNamespace(
            host=host, spare_s=lambda: 0.01, _is_over=lambda: False, _crowded=False
        )
        batches = list(search.Lane._batches(lane, SimpleNamespace(ask=ask)))
    assert [[each.key for each in batch] for batch in batches] == [["1"]]
    assert asked == [BATCH]
    assert lane._crowded
