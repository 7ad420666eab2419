"""Every group of channels of every model: is a net without them the net that does not read them?

    python benchmarks/prune_groups.py [--models NAME ...] [--draws 5000] [--seed 0]

For each model of the zoo, tiny structure and random graph: units at random are removed from each
group alone, the result is checked, and its outputs must be those of the whole net with zeros where
the units were read (outputs behind a discrete operator by what it decides on), within 1e-5 of the
largest number. A net that few channels are left of may amplify rounding beyond that: it is
counted apart where what reads the channels makes the same within 1e-5 (behind that both nets are
one), and the runtime's own rewriting moves the same outputs at least half as far.
Printed: groups tried, the worst difference, and the layers that are in no group with the reason.
Ends with 1 where one was wrong.
"""

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx_ir as ir

from edgeopt.core.data import Feed
from edgeopt.errors import ModelError
from edgeopt.graph.check import check
from edgeopt.graph.normalize import normalize
from edgeopt.graph.read import open_graph, read_model
from edgeopt.testing.graphs import random_feeds
from edgeopt.testing.prunable import NETS
from edgeopt.testing.prune_groups import (
    TOLERANCE,
    apart_where_read,
    difference,
    noise,
    removed,
    some_units,
    unread,
)
from edgeopt.testing.random_prunable import network
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.channels.groups import Dependencies, Group

ZOO = Path.home() / ".cache" / "edgeopt" / "zoo"
_OPSET = 21
_TOLD = 250
"""Random graphs between two words of how far it is."""
_QUOTED = re.compile(r" '[^']*'")


@dataclass
class Tally:
    """What was found out about some groups."""

    tried: int = 0
    impossible: int = 0
    noisy: int = 0
    worst: float = 0.0
    wrong: list[str] = field(default_factory=list[str])
    refused: Counter[str] = field(default_factory=Counter[str])

    def add(self, other: "Tally") -> None:
        """Count the groups of another graph too."""
        self.tried += other.tried
        self.impossible += other.impossible
        self.noisy += other.noisy
        self.worst = max(self.worst, other.worst)
        self.wrong += other.wrong
        self.refused += other.refused


def main() -> None:
    """Zoo, structures, random graphs."""
    arguments = _arguments()
    wrong, models = 0, Tally()
    for path in sorted(ZOO.glob("*.onnx")):
        if not arguments.models or path.stem in arguments.models:
            tally = _zoo(path, arguments.seed, arguments.groups)
            models.add(tally)
            wrong += _report(path.stem, tally)
    _report("all models", models)
    if not arguments.models:
        for name, net in NETS.items():
            model = net()
            tally = _every_group(opened(model), random_feeds(model, 1), arguments.seed)
            wrong += _report(name, tally)
    if arguments.draws:
        wrong += _report(f"{arguments.draws} random", _random(arguments.draws, arguments.seed))
    sys.exit(wrong > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Removed channels against unread ones.")
    parser.add_argument("--models", nargs="*", default=[], help="of the zoo; all, and structures")
    parser.add_argument("--draws", type=int, default=5000, help="groups of random graphs")
    parser.add_argument("--groups", type=int, default=0, help="at most so many a model; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def _zoo(path: Path, seed: int, limit: int) -> Tally:
    graph = normalize(open_graph(read_model(path)), opset_ceiling=_OPSET)
    graph.graph.sort()
    return _every_group(graph, [_feed(graph, path.with_suffix(".npz"))], seed, limit)


def _feed(graph: ir.Model, data: Path) -> Feed:
    """The first sample, in the shapes that the model takes."""
    found: dict[str, np.ndarray] = {}
    with np.load(data) as held:
        for value in graph.graph.inputs:
            name = value.name or ""
            if name in held.files and value.shape is not None:
                found[name] = _fitting(held[name], value)
    return found


def _fitting(array: np.ndarray, value: ir.Value) -> np.ndarray:
    sizes = list(value.shape or ())
    if array.ndim == len(sizes) + 1:
        array = array[0]
    elif sizes and sizes[0] != len(array):
        array = array[:1]
    wanted = np.float32 if value.dtype is None else value.dtype.numpy()
    scaled = array.dtype == np.uint8 and np.dtype(wanted).kind == "f"
    return (array / 255 if scaled else array).astype(wanted)


def _every_group(graph: ir.Model, feeds: Sequence[Feed], seed: int, limit: int = 0) -> Tally:
    found, tally = Dependencies(graph), Tally()
    generator = np.random.default_rng(seed)
    for group in found.groups[: limit or None]:
        _try(graph, group, feeds, generator, tally)
    tally.refused.update(_QUOTED.sub("", one.reason) for one in found.refused)
    return tally


def _try(
    graph: ir.Model,
    group: Group,
    feeds: Sequence[Feed],
    generator: np.random.Generator,
    tally: Tally,
) -> None:
    kept = some_units(group, generator)
    smaller = removed(graph, group.name, kept)
    if isinstance(smaller, str):
        tally.impossible += 1
        return
    tally.tried += 1
    try:
        check(smaller)
        zeroed = unread(graph, group.name, kept)
        off = difference(zeroed, smaller, feeds)
        near = off <= TOLERANCE or apart_where_read(zeroed, smaller, group.name, feeds) <= TOLERANCE
        rounding = noise(zeroed, feeds) if off > TOLERANCE else 0.0
    except ModelError as error:
        tally.wrong.append(f"{group.name}: {error}")
        return
    tally.worst = max(tally.worst, off)
    if near and TOLERANCE < off <= 2 * rounding:
        tally.noisy += 1
    elif not off <= TOLERANCE:
        tally.wrong.append(f"{group.name}: off by {off:.3g}")


def _random(draws: int, seed: int) -> Tally:
    """Groups of random graphs, until so many were tried."""
    total, number = Tally(), seed
    while total.tried < draws:
        if number > seed and (number - seed) % _TOLD == 0:
            print(
                f"    {number - seed} graphs, {total.tried} groups, {len(total.wrong)} wrong",
                flush=True,
            )
        model = network(random.Random(number))
        one = _every_group(opened(model), random_feeds(model, 1, seed=number), number)
        one.wrong = [f"graph {number}, {text}" for text in one.wrong]
        total.add(one)
        number += 1
    return total


def _report(name: str, tally: Tally) -> int:
    begun = time.strftime("%H:%M:%S")
    print(
        f"{begun} {name}: {tally.tried} groups tried, {len(tally.wrong)} wrong, "
        f"{tally.noisy} within rounding only, worst {tally.worst:.1e}; "
        f"{sum(tally.refused.values())} layers in no group, {tally.impossible} cuts impossible",
        flush=True,
    )
    for reason, count in tally.refused.most_common():
        print(f"    {count:5} {reason}")
    for text in tally.wrong:
        print(f"    WRONG {text}")
    return len(tally.wrong)


if __name__ == "__main__":
    main()
