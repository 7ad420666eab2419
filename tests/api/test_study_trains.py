"""Whether a study trains, and who is asked for it when."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeopt.api.prepare import Ready, prepared
from edgeopt.api.request import RunRequest
from edgeopt.core.candidate import Candidate
from edgeopt.core.measurement import Failure, Measurement, Value
from edgeopt.core.trial import Trial
from edgeopt.measure.plan import FINAL, QUICK, Protocol
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder


def _request(folder: Path, *, data: bool) -> RunRequest:
    """Layers of 64 channels that can be cut, and the samples to train what is left."""
    b = Builder(2)
    b.node("Relu", [b.conv("x", "a", (3, 64))], "a.r")
    b.node("Relu", [b.conv("a.r", "b", (64, 64))], "b.r")
    b.node("GlobalAveragePool", ["b.r"], "p")
    b.conv("p", "logits", (64, 5), kernel=1)
    model = b.model([("x", "float32", (1, 3, 8, 8))], [("logits", "float32", (1, 5, 1, 1))])
    x = np.random.default_rng(0).normal(size=(60, 3, 8, 8)).astype(np.float32)
    np.savez(folder / "data.npz", x=x)
    return RunRequest(
        model=str(graphs.write(model, folder)),
        data=str(folder / "data.npz") if data else None,
        metric="agreement" if data else None,
        objectives=("latency", "accuracy") if data else ("latency",),
        budget_s=200.0,
        store=folder / "store",
    ).checked()


def _names(ready: Ready) -> list[str]:
    return [name for name, _ in ready.strategies("local")]


def test_trainings_come_behind_the_first_guesses(tmp_path: Path) -> None:
    """Before the search, at a quarter of its time; nobody is left without any."""
    pytest.importorskip("torch", reason="needs torch: pip install 'edgeopt[rl]'")
    with prepared(
        _request(tmp_path, data=True), lambda _: None, lambda: False, keep=False
    ) as ready:
        assert ready.spaces["local"].training_s == 50.0
        names = _names(ready)
        assert names.index("static") < names.index("trained") < names.index("portfolio")
        (lane,) = ready.lanes
        assert lane.spare_s() < lane.left_s()
        assert ready.workshop.evidence.patience_s == pytest.approx(0.7 * lane.spare_s(), abs=5)


def test_a_strategy_that_was_named_has_its_turn_before_a_training(tmp_path: Path) -> None:
    """In a short study it would have none otherwise."""
    pytest.importorskip("torch", reason="needs torch: pip install 'edgeopt[rl]'")
    request = replace(_request(tmp_path, data=True), strategy="ladder")
    with prepared(request, lambda _: None, lambda: False, keep=False) as ready:
        assert _names(ready) == ["static", "released", "ladder", "trained"]


def test_without_data_or_without_pruning_nothing_is_trained(tmp_path: Path) -> None:
    """Then it is no strategy of the study."""
    request = _request(tmp_path, data=False)
    with prepared(request, lambda _: None, lambda: False, keep=False) as ready:
        assert "trained" not in _names(ready)
    exact = replace(_request(tmp_path, data=True), families=("rewrite", "fuse"))
    with prepared(exact, lambda _: None, lambda: False, keep=False) as ready:
        assert "trained" not in _names(ready)


class _Asked:
    """A strategy that counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0

    def ask(self, count: int) -> list[Candidate]:
        self.times += 1
        return []

    def tell(self, trials: Sequence[Trial]) -> None:
        return None


def test_no_question_is_asked_without_time_for_its_answer(tmp_path: Path) -> None:
    """A part of a question may take a sixth of what is left at most; with nothing left nobody is
    asked, and it is said what the rest is for."""
    said: list[str] = []
    with prepared(_request(tmp_path, data=True), said.append, lambda: False, keep=False) as ready:
        (lane,) = ready.lanes
        patience = ready.estimators["local"]
        assert patience.patience_s == pytest.approx(20.0)
        lane.start_s -= 110.0
        assert 0.0 < patience.patience_s == pytest.approx(lane.spare_s() / 6, abs=1)
        late = _Asked()
        lane.start_s -= 60.0
        assert patience.patience_s == 0.0
        lane.explore([("late", late)])
    assert late.times == 0
    assert "for measuring the best ones again" in said[-1]


class _Offers(_Asked):
    """One candidate, once; keeps what it was told."""

    def __init__(self, candidate: Candidate) -> None:
        super().__init__()
        self.candidate = candidate
        self.told: list[Trial] = []

    def ask(self, count: int) -> list[Candidate]:
        super().ask(count)
        return [self.candidate] if self.times == 1 else []

    def tell(self, trials: Sequence[Trial]) -> None:
        self.told += trials


def test_what_was_trained_is_measured_completely_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is the fastest: so that everybody learns what it loses on the probes while there
    is time for another training. What others found waits until the search ends."""
    with prepared(
        _request(tmp_path, data=True), lambda _: None, lambda: False, keep=False
    ) as ready:
        (lane,) = ready.lanes
        guesses = [candidate for _, candidate in ready.spaces["local"].guesses()][:2]

        def trial(candidate: Candidate, outcome: Measurement | Failure, protocol: str) -> Trial:
            return Trial(
                number=0,
                candidate=candidate,
                device="local",
                protocol=protocol,
                strategy="",
                outcome=outcome,
            )

        def quick(asked: Sequence[tuple[str, Candidate]], _: object) -> tuple[list[Trial], bool]:
            # The later one is twice as fast, and as good.
            speed = 1 + guesses.index(asked[0][1])
            values = {
                each.metric: Value(value=1.0 / speed if each.metric == "latency" else 1.0, unit="")
                for each in lane.book.objectives("local")
            }
            found = trial(asked[0][1], Measurement(values=values), QUICK.name)
            return [lane.book.add(found)], False

        def complete(_: str, candidate: Candidate, protocol: Protocol, __: str) -> Trial:
            return trial(candidate, Failure(stage="shift", reason="blur"), protocol.name)

        monkeypatch.setattr(lane, "_measure", quick)
        monkeypatch.setattr(lane, "_one", complete)
        plain, trained = _Offers(guesses[0]), _Offers(guesses[1])
        lane.explore([("static", plain), ("trained", trained)])
    assert [t.protocol for t in plain.told] == [QUICK.name, QUICK.name, FINAL.name]
    assert plain.told == trained.told
    last = plain.told[-1]
    assert (last.candidate.key, last.measurement) == (guesses[1].key, None)
