"""How far predicted latencies can be trusted: N random assignments, predicted, then measured.

    python benchmarks/additivity.py MODEL [--count 40] [--seed 0] [--device local] [--store DIR]

Each assignment draws how much of the precision choices is on, half of them as one contiguous run
of the network and half scattered; everything exact is on, nothing is pruned. Three predictions
stand beside what the device measures (interleaved with the given model, protocol `quick`):

    prior     the node-and-edge model before any measurement
    before    the same, refitted from the assignments measured before this one
    sum       gains of single choices added up, as measured (only with --single)
    units     the number of choices that are on: the weak baseline to beat

Printed are Spearman's rank correlations and the mean absolute error. Nothing here enters a front.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgeopt.api.device import open_device
from edgeopt.api.reopen import workshop_for
from edgeopt.api.subject import Subject, open_subject
from edgeopt.api.workspace import Workspace
from edgeopt.core.action import Recipe
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.estimates import LATENCY
from edgeopt.core.protocols import Target
from edgeopt.estimate.estimator import GraphEstimator
from edgeopt.estimate.gain import Gain
from edgeopt.estimate.regression import rank_correlation
from edgeopt.estimate.work import work_of
from edgeopt.graph.write import write_model
from edgeopt.measure.feeds import write_feeds
from edgeopt.measure.plan import QUICK
from edgeopt.measure.runner import measure
from edgeopt.transforms.base import EXACT, Offer
from edgeopt.transforms.space import GraphSpace

FEEDS = 8
Codes = tuple[int, ...]


def assignments(space: GraphSpace, count: int, generator: np.random.Generator) -> list[Codes]:
    """Random codes without duplicates, contiguous and scattered in turn."""
    places = [i for i, choice in enumerate(space.choices) if choice.family == "quantize"]
    found: dict[Codes, None] = {}
    while len(found) < count:
        share = generator.random()
        if len(found) % 2:
            on = [place for place in places if generator.random() < share]
        else:
            length = max(1, round(share * len(places)))
            first = int(generator.integers(len(places) - length + 1))
            on = places[first : first + length]
        codes = [int(choice.family in EXACT) for choice in space.choices]
        for place in on:
            codes[place] = 1
        found[tuple(codes)] = None
    return list(found)


class Bench:
    """Measures recipes of one space."""

    def __init__(self, subject: Subject, space: GraphSpace, target: Target, folder: Path) -> None:
        self._subject, self._space, self._target, self._folder = subject, space, target, folder
        self._feeds = folder / "feeds.npz"
        data = subject.data
        assert data is not None, "the script needs a model with data"
        write_feeds([data.search.feeds[i] for i in range(FEEDS)], self._feeds)

    def ratio(self, recipe: Recipe) -> float:
        """Latency over the given model's, interleaved on the device."""
        path = self._folder / "candidate.onnx"
        write_model(self._space.workshop.build(recipe).graph, path)
        outcome = measure(
            self._target,
            baseline=self._subject.model.path,
            candidate=path,
            feeds=self._feeds,
            settings=RuntimeSettings(),
            baseline_settings=RuntimeSettings(),
            protocol=QUICK,
        )
        return outcome.values["latency"].samples.ratio.value


def spearman(predicted: Sequence[float], measured: Sequence[float]) -> str:
    found = rank_correlation(np.array(predicted), np.array(measured))
    return "  n/a" if found is None else f"{found:5.2f}"


def main() -> None:
    """Predict, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="local")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--single", action="store_true", help="also measure each choice alone")
    asked = parser.parse_args()
    subject = open_subject(asked.model, data=None, metric=None, seed=0, progress=print)
    with (
        tempfile.TemporaryDirectory() as folder,
        Workspace.open(asked.store or Path(folder) / "store") as workspace,
        open_device(asked.device, workspace.folder / "agent") as device,
    ):
        workshop = workshop_for(subject, workspace, device.profile.opset_ceiling)
        space = GraphSpace(workshop, Offer(profile=device.profile))
        bench = Bench(subject, space, device.target, Path(folder))
        compare(space, bench, asked.count, asked.seed, single=asked.single)


def compare(space: GraphSpace, bench: Bench, count: int, seed: int, *, single: bool) -> None:
    """All predictions before the measurement that they are compared with."""
    estimator = GraphEstimator(space)
    start = space.graph(space.empty())
    learning = Gain(work_of(start, space.shapes_of(start)))
    alone = alone_of(space, bench) if single else {}
    codes = assignments(space, count, np.random.default_rng(seed))
    columns: dict[str, list[float]] = {name: [] for name in ("prior", "before", "units", "sum")}
    measured: list[float] = []
    for number, row in enumerate(codes):
        recipe = space.decode(row)
        graph = space.graph(recipe)
        work = work_of(graph, space.shapes_of(graph))
        on = [i for i, choice in enumerate(space.choices) if choice.family == "quantize" and row[i]]
        columns["prior"].append(1 + estimator.predict(recipe).changes[LATENCY].mean)
        columns["before"].append(1 + learning.predict(work).mean)
        columns["units"].append(-float(len(on)))
        columns["sum"].append(sum(alone.get(i, 0.0) for i in on))
        ratio = bench.ratio(recipe)
        measured.append(ratio)
        learning.learn(work, ratio)
        told = "  ".join(f"{name} {columns[name][-1]:.3f}" for name in ("prior", "before"))
        print(f"[{number:>3}] {len(on):>3} on  measured {ratio:.3f}  {told}", flush=True)
    half = len(measured) // 2
    for name, values in columns.items():
        if name == "sum" and not single:
            continue
        late = spearman(values[half:], measured[half:])
        print(f"{name:<7} Spearman all {spearman(values, measured)}  second half {late}", end="")
        if name in {"prior", "before"}:
            errors = np.abs(np.array(values) - np.array(measured))
            print(
                f"  mean error {errors.mean():.3f}, second half {errors[half:].mean():.3f}", end=""
            )
        print()
    print({name: round(price, 1) for name, price in learning.prices_us.items()})


def alone_of(space: GraphSpace, bench: Bench) -> dict[int, float]:
    """Measured change of each precision choice alone, over everything exact."""
    exact = [int(choice.family in EXACT) for choice in space.choices]
    start = bench.ratio(space.decode(exact))
    found: dict[int, float] = {}
    for index, choice in enumerate(space.choices):
        if choice.family == "quantize":
            codes = [*exact[:index], 1, *exact[index + 1 :]]
            found[index] = bench.ratio(space.decode(codes)) - start
    return found


if __name__ == "__main__":
    main()
