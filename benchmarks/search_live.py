"""Strategies on a real model: real space, estimates and builds; CPU time in place of a latency.

    python benchmarks/search_live.py MODEL --strategy NAME --store FOLDER [--count 40] [--seed 0]

As record_trials.py measures: the candidate's CPU time on one thread over the given model's beside
it, medians of short blocks in turn, and the accuracy on some samples of the search part. That
holds on a busy machine, where wall times do not; nothing of it enters a front. Printed is every
candidate, and at some counts the fastest that keeps the bound and the hypervolume of the front.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from record_trials import FAMILIES, Recorder

from edgeopt.api.accuracy import Accuracy
from edgeopt.api.device import open_device
from edgeopt.api.reopen import workshop_for
from edgeopt.api.subject import open_subject
from edgeopt.api.workspace import Workspace
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.front import front_of
from edgeopt.core.indicators import hypervolume
from edgeopt.core.measurement import Failure, Measurement, Value
from edgeopt.core.objective import Objective
from edgeopt.core.trial import Trial
from edgeopt.estimate.estimator import GraphEstimator
from edgeopt.plugins import STRATEGIES
from edgeopt.transforms.base import Offer
from edgeopt.transforms.space import GraphSpace

ALLOWED = 0.01


def trial(recorder: Recorder, candidate: Candidate, number: int) -> Trial:
    """Measured now."""
    row = recorder.measured(candidate.recipe)
    outcome: Measurement | Failure = Failure(stage="load", reason=str(row.get("failed")))
    if "accuracy" in row:
        outcome = Measurement(
            values={
                "latency": Value(value=row["ratio"], unit="s"),
                "size": Value(value=row["size"], unit="B"),
                "accuracy": Value(value=row["accuracy"], unit="1"),
            }
        )
    return Trial(
        number=number,
        candidate=candidate,
        device="here",
        protocol="quick",
        strategy="live",
        outcome=outcome,
    )


def volume(trials: list[Trial], objectives: tuple[Objective, ...], base: float) -> float:
    """Of the feasible front, as benchmarks/search.py has it, by measured values."""
    members = front_of(trials, objectives, "here").members
    rows: list[list[float]] = []
    for member in members:
        found = (member.value("latency"), member.value("size"), member.value("accuracy"))
        latency, size, accuracy = (0.0 if each is None else each.value for each in found)
        rows.append([latency, size, max(base - accuracy, 0.0)])
    reference = np.array([1.1, 1.1, 1.25 * ALLOWED])
    return hypervolume(np.array(rows).reshape(-1, 3), reference) / float(reference.prod())


def search(given: argparse.Namespace, recorder: Recorder) -> None:
    """Ask, measure, tell."""
    space, base = recorder.space, recorder.base
    objectives = (
        Objective(metric="latency"),
        Objective(metric="accuracy", direction="max", bound=base - ALLOWED),
        Objective(metric="size"),
    )
    trials = [trial(recorder, Candidate(recipe=space.empty()), 0)]
    for _, guess in space.guesses():
        if guess.runtime.optimization == "all" and not guess.is_baseline:
            trials.append(trial(recorder, guess, len(trials)))
    strategy = STRATEGIES.load(given.strategy)(
        space,
        seed=given.seed,
        objectives=objectives,
        estimator=GraphEstimator(space, folder=given.store),
    )
    strategy.tell(trials)
    told(trials, trials, objectives, base)
    while len(trials) < given.count:
        asked = strategy.ask(min(10, given.count - len(trials)))
        if not asked:
            break
        fresh = [trial(recorder, each, len(trials) + n) for n, each in enumerate(asked)]
        strategy.tell(fresh)
        trials += fresh
        told(fresh, trials, objectives, base)
    for accord in getattr(strategy, "accords", ()):
        print(accord)


def told(
    fresh: list[Trial], trials: list[Trial], objectives: tuple[Objective, ...], base: float
) -> None:
    """A line a candidate, then what is best so far."""
    for one in fresh:
        values: Any = getattr(one.outcome, "values", {})
        print(one.number, {name: round(v.value, 4) for name, v in values.items()}, flush=True)
    members = front_of(trials, objectives, "here").members
    if members:
        best = members[0].value("latency")
        share = volume(trials, objectives, base)
        print(f"  {len(trials)}: fastest {best and best.value}, volume {share:.4f}", flush=True)


def main() -> None:
    """One strategy, one model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--strategy", required=True)
    parser.add_argument("--store", type=Path, required=True, help="folder for what can be kept")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cpu-s", type=float, default=0.15)
    parser.add_argument("--samples", type=int, default=128)
    given = parser.parse_args()
    subject = open_subject(given.model, data=None, metric=None, seed=0, progress=print)
    with (
        Workspace.open(given.store) as workspace,
        open_device("local", workspace.folder / "agent") as device,
    ):
        workshop = workshop_for(subject, workspace, device.profile.opset_ceiling)
        space = GraphSpace(workshop, Offer(profile=device.profile, data=True), families=FAMILIES)
        accuracy = Accuracy(subject, RuntimeSettings())
        recorder = Recorder(space, accuracy, workspace.folder, given.cpu_s, given.samples)
        search(given, recorder)


if __name__ == "__main__":
    main()
