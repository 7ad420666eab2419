"""Exact rewriting alone: our graphs beside the runtime's own optimizations and three simplifiers.

    python benchmarks/substitution.py [NAME ...] [--json FILE] [--rounds 7] [--wall]

Names are nets of `pattern_families` or models of the zoo; without any all nets of the former. Each
is brought into five more forms: by onnxsim, onnxslim and onnxoptimizer, canonicalized by us, and
searched: from the canonical form a hill climb over the space's exact choices and macros, each
step kept where three of four blocks were faster by 2 %. All six run with all optimizations of ONNX
Runtime on one thread, in turn, in three processes; times are those of the running thread, so that
other work on the machine does not count (`--wall` for the clock's). `over best` is against the
fastest of the four others, chosen by the same times (which favours them), with a 95 % interval.
Our graphs are verified against the given file first; a peer whose outputs are off by more than
1e-3 of the largest is left out and said.
"""

import argparse
import json
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from interleaved import GIVEN, block, held_feeds, ratio, times
from pattern_families import NETS
from peers import SIMPLIFIERS, built

from edgeopt.api.subject import open_subject
from edgeopt.core.action import Recipe
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.testing.graphs import random_feeds
from edgeopt.testing.transform_exam import NoEvidence, offer
from edgeopt.transforms.canonicalize import NAME
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace

ZOO = Path.home() / ".cache" / "edgeopt" / "zoo"
FEEDS = 2
BLOCK_S = 0.02
LEAST_GAIN = 1.02
TRIES = 7
WRONG = 1e-3
OURS = ("canonicalized", "searched")


def source_of(name: str, folder: Path) -> tuple[Path, list[Feed]]:
    """The model file of a name, and feeds for it."""
    if name in NETS:
        proto = NETS[name]()
        path = folder / "given.onnx"
        path.write_bytes(proto.SerializeToString())
        return path, random_feeds(proto, FEEDS)
    path = ZOO / f"{name}.onnx"
    archive = str(path.with_suffix(".npz"))
    subject = open_subject(path, data=archive, metric=None, seed=0, progress=lambda text: None)
    data = subject.data
    assert data is not None, "the subject was opened with data"
    return path, list(data.search.feeds[:FEEDS])


class Bench:
    """One model: its forms as files.

    Args:
        name: Of the model.
        folder: For the files.
        wall: Whether the clock's time counts.
    """

    def __init__(self, name: str, folder: Path, *, wall: bool) -> None:
        self.folder, self.clock = folder, time.perf_counter if wall else time.thread_time
        self.source, self.feeds = source_of(name, folder)
        model = read_model(self.source)
        self.workshop = Workshop(model, evidence=NoEvidence(), opset_ceiling=21, feed=self.feeds[0])
        self.space = GraphSpace(self.workshop, offer(), families=("rewrite", "fuse"))

    def files(self) -> tuple[dict[str, Path], dict[str, str], dict[str, Recipe]]:
        """Files by name, what went wrong by name, and our recipes."""
        files, failed = built(self.source, self.folder, self.feeds, SIMPLIFIERS)
        files = {GIVEN: self.source, **files}
        self._leave_out_wrong(files, failed)
        recipes = self._ours()
        for name, recipe in recipes.items():
            path = self.folder / f"{name}.onnx"
            made = self.workshop.build(recipe)
            self.workshop.verify(made)
            path.write_bytes(to_bytes(made.graph))
            files[name] = path
        return files, failed, recipes

    def _leave_out_wrong(self, files: dict[str, Path], failed: dict[str, str]) -> None:
        plain = RuntimeSettings(optimization="off", threads=1)
        expected = Session(self.source, plain).run(self.feeds[0])
        for name in [name for name in files if name != GIVEN]:
            found = Session(files[name], plain).run(self.feeds[0])
            off = max(_off(found[key], array) for key, array in expected.items())
            if off > WRONG:
                failed[name] = f"outputs are off by {off:.2g}"
                files.pop(name)

    def _ours(self) -> dict[str, Recipe]:
        choices = self.space.choices
        codes = [int(choice.name.endswith(f":{NAME}")) for choice in choices]
        found = {"canonicalized": self.space.decode(codes)}
        best = self._session(codes)
        for index, choice in enumerate(choices):
            for code in range(len(choice)):
                tried = [*codes[:index], code, *codes[index + 1 :]]
                if tried == codes:
                    continue
                session = self._session(tried)
                if self._gain(best, session) > LEAST_GAIN:
                    codes, best = tried, session
        return {**found, "searched": self.space.decode(codes)}

    def _session(self, codes: Sequence[int]) -> Session:
        graph = self.workshop.build(self.space.decode(codes)).graph
        return Session(to_bytes(graph), RuntimeSettings(threads=1))

    def _gain(self, one: Session, other: Session) -> float:
        """How many times faster the other session is: lower quartile over blocks in turn."""
        pairs = [
            [block(each, self.feeds, self.clock, BLOCK_S) for each in (one, other)]
            for _ in range(TRIES)
        ]
        return float(np.quantile([old / new for old, new in pairs], 0.25))


def row(name: str, rounds: int, *, wall: bool) -> dict[str, object]:
    """Everything that is said about one model."""
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        bench = Bench(name, folder, wall=wall)
        files, failed, recipes = bench.files()
        feeds = folder / "feeds.npz"
        arrays = {
            f"{i}/{key}": value for i, f in enumerate(bench.feeds) for key, value in f.items()
        }
        np.savez(feeds, **arrays)
        assert len(held_feeds(feeds)) == len(bench.feeds), "an archive holds every feed"
        clock = "wall" if wall else "cpu"
        models = {key: (path, "all") for key, path in files.items()}
        found = times(models, feeds, clock=clock, rounds=rounds, block_s=BLOCK_S)
    middles = {key: float(np.median(np.concatenate(value))) for key, value in found.items()}
    best = min((key for key in files if key not in OURS), key=middles.__getitem__)
    said: dict[str, object] = {"name": name, "ms": middles[GIVEN] * 1e3, "best": best}
    said |= {key: ratio(found, key) for key in files if key != GIVEN}
    for key in OURS:
        said[f"{key} over best"] = ratio({GIVEN: found[best], key: found[key]}, key)
    counts: dict[str, int] = {}
    for action in recipes["searched"].actions:
        counts[action.transform] = counts.get(action.transform, 0) + 1
    return {**said, "rules": counts, "failed": failed}


def shown(said: Mapping[str, object]) -> str:
    """A line of the table."""
    cells = [f"{said['name']:<20} {said['ms']:8.2f}"]
    for key in (*SIMPLIFIERS, *OURS):
        value = said.get(key)
        cells.append(
            f"{value[0]:6.2f}" if isinstance(value, tuple) else "  wrong" if value else "     -"
        )
    middle, low, high = said["searched over best"]  # type: ignore[misc]
    cells.append(f"{middle:6.2f} [{low:.2f}, {high:.2f}] over {said['best']}")
    return " ".join(cells)


def _off(found: np.ndarray, expected: np.ndarray) -> float:
    """Of the largest value; of classes and indices the share that differs."""
    if found.shape != expected.shape:
        return math.inf
    if expected.dtype.kind != "f":
        return float(np.mean(found != expected))
    return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-9))


def main() -> None:
    """Measure, print a line a model, and the geometric means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(NETS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--wall", action="store_true", help="the clock's time, not the thread's")
    options = parser.parse_args()
    said: list[dict[str, object]] = []
    print("model                given ms   sim  slim  opt  canonical searched  over best (95 %)")
    for name in options.names:
        said.append(row(name, options.rounds, wall=options.wall))
        print(shown(said[-1]), said[-1]["failed"] or "", flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(said, indent=1), encoding="utf-8")
    for key in OURS:
        ratios = [one[f"{key} over best"] for one in said]
        logs = [math.log(one[0]) for one in ratios]  # type: ignore[index]
        below = [str(one["name"]) for one in said if one[f"{key} over best"][2] < 1]  # type: ignore[index]
        mean = math.exp(sum(logs) / len(logs))
        print(f"{key}: geometric mean {mean:.3f} over the best of the others; slower: {below}")


if __name__ == "__main__":
    main()
