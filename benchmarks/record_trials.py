"""Real trials of one model, recorded cheaply: for the simulators of benchmarks/search.py.

    python benchmarks/record_trials.py MODEL --out FILE.json.gz --store FOLDER [--count 320]
        [--cpu-s 0.25] [--optimization LEVEL]

Every row is real: the candidate is built, its outputs are judged on the search part, and its CPU
time on one thread of this machine stands over the given model's beside it, medians of short
blocks in turn. That is less than a study measures, and enough to fit a simulator to; nothing of it
enters a front. Recorded too is what an estimator knows beforehand (work and damage of each
alternative alone, work of pairs), so that strategies meet in simulation the estimates that they
meet in a study. A third of the codes is drawn, a third are parts of everything on, and a third are
small changes of what was best so far. Repairs are left out. What is pruned stays for some rows in
a row (`--hold`), which differ in precision only: pruning looks at its data anew on every other
graph, many seconds a candidate. Interrupted, the rows so far are in the file; the same command
goes on. Another level of the runtime's own graph optimizations is another runtime setting: without
`all` no layer is blocked, and below `extended` no int8 kernel is chosen.
"""

import argparse
import gzip
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from edgeopt.api.accuracy import Accuracy
from edgeopt.api.device import open_device
from edgeopt.api.reopen import workshop_for
from edgeopt.api.subject import open_subject
from edgeopt.api.workspace import Workspace
from edgeopt.core import digest as digests
from edgeopt.core.action import Choice, Recipe
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.errors import EdgeOptError
from edgeopt.estimate.estimator import GraphEstimator
from edgeopt.estimate.work import NAMES, work_of
from edgeopt.graph.runtime import RuntimeFailure, Session
from edgeopt.graph.write import write_model
from edgeopt.search import codes as coding
from edgeopt.search.codes import Codes
from edgeopt.transforms.base import Offer
from edgeopt.transforms.space import GraphSpace

FORMAT = 1
SAVE_EVERY = 5
SHOWN = ("ratio", "accuracy", "size", "seconds", "failed")
FAMILIES = ("rewrite", "fuse", "prune", "quantize")
PRUNED_FIRST = ("rewrite", "fuse", "prune")
SAMPLES = 256
"""Of the search part that each candidate is judged on, at most."""


class Recorder:
    """One model's space, its device, and the rows so far."""

    def __init__(
        self,
        space: GraphSpace,
        accuracy: Accuracy,
        folder: Path,
        cpu_s: float,
        samples: int,
        settings: RuntimeSettings = RuntimeSettings(),  # noqa: B008
    ) -> None:
        self.space, self.choices = space, space.choices
        self._accuracy, self._folder = accuracy, folder
        self._part = accuracy.data.search.take(samples)
        self._feed = self._part.feeds[0]
        self._settings = settings
        self._given = Session(space.workshop.model.path, settings)
        once = min(self._once(self._given) for _ in range(3))
        self._rounds = max(7, min(200, round(cpu_s / once)))
        self.base = accuracy.baseline(self._part).value
        self.rows: list[dict[str, Any]] = []
        self._seen: set[str] = set()
        self._tried: set[Codes] = set()

    def known(self) -> dict[str, Any]:
        """What does not depend on any trial."""
        space = self.space
        estimator = GraphEstimator(space, folder=self._folder)
        start = [coding.starting(choice) for choice in self.choices]

        def work(*changed: tuple[int, int]) -> list[float]:
            codes = list(start)
            for index, code in changed:
                codes[index] = code
            graph = space.graph(space.decode(codes))
            return [round(float(x), 5) for x in work_of(graph, space.shapes_of(graph))]

        none = space.graph(space.empty())
        pairs = sorted(estimator.coupled(self.choices))
        guesses = [(name, found.recipe) for name, found in space.guesses()]
        named = [(name, coding.encode(self.choices, recipe)) for name, recipe in guesses]
        return {
            "features": list(NAMES),
            "choices": [_described(choice) for choice in self.choices],
            "guesses": [[name, list(codes)] for name, codes in named if codes is not None],
            "start": start,
            "accuracy": self.base,
            "samples": len(self._part),
            "size_bytes": space.workshop.model.size_bytes,
            "work_given": [round(float(x), 5) for x in work_of(none, space.shapes_of(none))],
            "work_start": work(),
            "work_alone": [
                [work((i, k)) for k in range(len(c))] for i, c in enumerate(self.choices)
            ],
            "pairs": [[i, j, work((i, 1), (j, 1))] for i, j in pairs],
            "damage": [float(f"{x:.5g}") for x in estimator.damages],
        }

    def take_in(self, rows: Sequence[dict[str, Any]]) -> None:
        """Rows of an earlier start of this script."""
        self.rows += rows
        self._seen |= {str(row["recipe"]) for row in rows}
        self._tried |= {tuple(row["codes"]) for row in rows}

    def add(self, codes: Sequence[int]) -> bool:
        """Build, time and judge; False where the codes or the recipe are known."""
        if tuple(codes) in self._tried:
            return False
        self._tried.add(tuple(codes))
        try:
            recipe = self.space.decode(codes)
        except EdgeOptError as error:
            self.rows.append({"codes": list(codes), "recipe": f"! {codes}", "failed": str(error)})
            return True
        name = digests.short(recipe.digest)
        if name in self._seen:
            return False
        self._seen.add(name)
        self.rows.append({"codes": list(codes), "recipe": name, **self.measured(recipe)})
        return True

    def measured(self, recipe: Recipe) -> dict[str, Any]:
        """Work, time, size and accuracy of one recipe, or why it failed."""
        start = time.process_time()
        row: dict[str, Any] = {}
        try:
            graph = self.space.graph(recipe)
            row["work"] = [round(float(x), 5) for x in work_of(graph, self.space.shapes_of(graph))]
            file = write_model(graph, self._folder / "candidate.onnx")
            built_s = time.process_time()
            candidate = Session(file.path, self._settings)
            row["ratio"] = round(self._ratio(candidate), 4)
            timed_s = time.process_time()
            scored = self._accuracy.evidence(file.path, self._part, file.digest)
            row |= {
                "accuracy": round(float(scored.value), 5),
                "size": round(file.size_bytes / self.space.workshop.model.size_bytes, 4),
                "file": digests.short(file.digest),
                "seconds": [
                    round(built_s - start, 3),
                    round(timed_s - built_s, 3),
                    round(time.process_time() - timed_s, 3),
                ],
            }
        except (EdgeOptError, RuntimeFailure) as error:
            row["failed"] = str(error)[:200]
        return row

    def best(self, count: int) -> list[Codes]:
        """Fastest so far, half of them within two points of the given model's accuracy."""
        done = [row for row in self.rows if "ratio" in row]
        kept = [row for row in done if row["accuracy"] >= self.base - 0.02]
        ranked = sorted(kept, key=_ratio)[:count] + sorted(done, key=_ratio)[: count // 2]
        return [tuple(row["codes"]) for row in ranked]

    def _ratio(self, candidate: Session) -> float:
        times: tuple[list[float], list[float]] = ([], [])
        sides = list(zip((self._given, candidate), times, strict=True))
        for session, _ in sides:
            self._once(session)
        for turn in range(self._rounds):
            for session, kept in sides if turn % 2 else reversed(sides):
                kept.append(self._once(session))
        return median(times[1]) / median(times[0])

    def _once(self, session: Session) -> float:
        start = time.thread_time()
        session.run(self._feed)
        return time.thread_time() - start


def _ratio(row: dict[str, Any]) -> float:
    return float(row["ratio"])


def _described(choice: Choice) -> dict[str, Any]:
    return {
        "name": choice.name,
        "family": choice.family,
        "labels": list(choice.labels),
        "joint": choice.joint,
    }


def proposals(recorder: Recorder, generator: np.random.Generator, hold: int) -> Iterator[Codes]:
    """Codes without end: drawn, parts of everything on, small changes of the best, in turn.

    Args:
        recorder: Of the model.
        generator: Of everything that is drawn.
        hold: Rows in a row that are pruned alike.
    """
    choices = recorder.choices
    known = [tuple(each) for _, each in recorder_guesses(recorder)]
    yield from known
    first = [choice.family in PRUNED_FIRST for choice in choices]
    yield from coding.heuristic(choices)
    makers: tuple[Callable[[], Codes], ...] = (
        lambda: coding.draw(choices, generator),
        lambda: part_of(_one(known, generator), choices, generator),
        lambda: changed(_one(recorder.best(12) or known, generator), choices, generator),
    )
    for turn in itertools.count():
        held = makers[turn % len(makers)]()
        yield held
        for another in range(hold - 1):
            codes = makers[(turn + another) % len(makers)]()
            yield tuple(h if f else c for c, h, f in zip(codes, held, first, strict=True))


def _one(rows: Sequence[Codes], generator: np.random.Generator) -> Codes:
    return rows[int(generator.integers(len(rows)))]


def recorder_guesses(recorder: Recorder) -> list[tuple[str, Codes]]:
    """First guesses that codes can say."""
    found = (
        (name, coding.encode(recorder.choices, c.recipe)) for name, c in recorder.space.guesses()
    )
    return [(name, codes) for name, codes in found if codes is not None]


def part_of(codes: Codes, choices: Sequence[Choice], generator: np.random.Generator) -> Codes:
    """A guess with a run of its inexact choices, or some scattered ones, off."""
    places = [i for i, c in enumerate(choices) if codes[i] and c.family not in coding.EXACT]
    if not places:
        return coding.draw(choices, generator)
    share = generator.random()
    if generator.random() < 0.5:
        off = {place for place in places if generator.random() < share}
    else:
        length = max(1, round(share * len(places)))
        first = int(generator.integers(len(places) - length + 1))
        off = set(places[first : first + length])
    return tuple(0 if i in off else code for i, code in enumerate(codes))


def changed(codes: Codes, choices: Sequence[Choice], generator: np.random.Generator) -> Codes:
    """One to four choices at another alternative."""
    found = list(codes)
    for index in generator.choice(len(choices), size=int(generator.integers(1, 5))):
        found[index] = int(generator.integers(len(choices[index])))
    return tuple(found)


def save(path: Path, document: dict[str, Any]) -> None:
    """Written aside and renamed; the same rows give the same bytes."""
    aside = path.with_suffix(".part")
    with aside.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(json.dumps(document, separators=(",", ":")).encode())
    aside.replace(path)


def main() -> None:
    """Record until the file holds as many rows as were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True, help="folder for what can be kept")
    parser.add_argument("--count", type=int, default=320)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cpu-s", type=float, default=0.25, help="of each side of a comparison")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--hold", type=int, default=1, help="rows that are pruned alike")
    parser.add_argument("--device", default="local")
    parser.add_argument(
        "--optimization", choices=("all", "extended", "basic", "off"), default="all"
    )
    asked = parser.parse_args()
    subject = open_subject(asked.model, data=None, metric=None, seed=0, progress=print)
    assert subject.data is not None, "the script needs a model with data"
    with (
        Workspace.open(asked.store) as workspace,
        open_device(asked.device, workspace.folder / "agent") as device,
    ):
        workshop = workshop_for(subject, workspace, device.profile.opset_ceiling)
        offer = Offer(profile=device.profile, data=True)
        space = GraphSpace(workshop, offer, families=FAMILIES)
        settings = RuntimeSettings(optimization=asked.optimization)
        accuracy = Accuracy(subject, settings)
        recorder = Recorder(space, accuracy, workspace.folder, asked.cpu_s, asked.samples, settings)
        document: dict[str, Any] = {
            "format": FORMAT,
            "model": asked.model,
            "runtime": settings.text,
            "rows": recorder.rows,
        }
        if asked.out.exists():
            document = json.loads(gzip.decompress(asked.out.read_bytes()))
            described = [_described(choice) for choice in space.choices]
            assert document["choices"] == described, "recorded with another space: begin anew"
            recorder.take_in(document["rows"])
            document["rows"] = recorder.rows
        else:
            print(f"{len(space.choices)} choices; estimates", flush=True)
            document |= recorder.known() | {"machine": device.profile.name}
        generator = np.random.default_rng([asked.seed, len(recorder.rows)])
        for codes in proposals(recorder, generator, asked.hold):
            if len(recorder.rows) >= asked.count:
                break
            if recorder.add(codes):
                last = recorder.rows[-1]
                print(len(recorder.rows), {k: last[k] for k in last if k in SHOWN}, flush=True)
                if len(recorder.rows) % SAVE_EVERY == 0:
                    save(asked.out, document)
        save(asked.out, document)


if __name__ == "__main__":
    main()
