"""Can the policy's network learn what the oracle knows, at least of one model? Simulated.

    python benchmarks/policy_limits.py --out FOLDER [--model NAME] [--lessons 4000] [--seeds 5]

FOLDER is that of policy_transfer.py (its watched searches and best plans are read or made). For
each model one network imitates on watched searches of *this* model alone: an upper bound for what
imitation by this network can bring, no result about unknown models. Printed are where its greedy
rollouts end, in a search that it was taught and in one that was held out (same model, another
bound); and what two reserved places gain:

    portfolio, oracle     all best plans, as in policy_transfer.py
    portfolio, targets    what a perfect imitator would say: the best plan for each drawn preference
    portfolio, own        the network that was taught this model
    portfolio, varied     taught by all *other* models, varied: choices left out at random, damages
                          exchanged between layers of a kind, on drawn devices (policy/real.py)
"""

import argparse
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import policy_transfer as transfer
import search as searches
from policy_transfer import Codes, Floats, Proposes

from edgeopt.search.policy import source
from edgeopt.search.policy.assignment import Assignment, bank_of, utility
from edgeopt.search.policy.course import Course
from edgeopt.search.policy.generated import Pair
from edgeopt.search.policy.learner import Learner, Settings
from edgeopt.search.policy.network import chances, forward, fresh
from edgeopt.search.policy.real import on_a_device
from edgeopt.search.policy.rollout import chooser, rolled
from edgeopt.search.table import EstimatedTable, Table

MODELS = ("oww-embedding", "oww-embedding-extended", "ppocr-cls")
"""Where the oracle gains most."""
STATES, EVERY, CHECKED = 24, 500, 40
HELD_OUT = 4
"""Number of the watched search that no lesson comes from."""
LONG = 48
VARIED, VARIED_LESSONS = 150, 1500
"""Instances made of the other models, and steps of imitation on them."""


def taught(known: Mapping[str, Any], name: str, lessons: int, path: Path) -> Any:
    """Weights that imitate on all watched searches of a model but one."""
    runs = [run for n, run in enumerate(known[name]["runs"]) if n != HELD_OUT]
    course = transfer.lessons({name: {**known[name], "runs": runs}}, [name])
    if path.exists():
        weights = pickle.loads(path.read_bytes())
    else:
        learner = Learner(fresh(0), Settings(seed=0, batch=STATES, lessons=lessons, rounds=0))
        for _ in range(lessons):
            learner.imitate(course)
        weights = learner.network.arrays()
        path.write_bytes(pickle.dumps(weights))
    print(f"{name}: {learned(weights, course)}", flush=True)
    return weights


def learned(weights: Any, course: Course) -> str:
    """Of states that it was taught on: loss, the least possible, and right first choices."""
    generator = np.random.default_rng(5)
    losses: list[float] = []
    least: list[float] = []
    right: list[float] = []
    for _ in range(CHECKED):
        lesson = course.lesson(STATES, generator)
        chance = chances(np.asarray(forward(weights, lesson.state.observe().arrays())[0]))
        shares = lesson.shares
        losses.append(float(-(shares * np.log(chance + 1e-12)).sum(axis=1).mean()))
        least.append(float(-(shares * np.log(shares + 1e-12)).sum(axis=1).mean()))
        first = chance.argmax(axis=1)
        right.append(float((shares[np.arange(STATES), first] > 0).mean()))
    return (
        f"loss {np.mean(losses):.2f}, at least {np.mean(least):.2f}; "
        f"{np.mean(right):.2f} of the first choices lead to the target"
    )


@dataclass(frozen=True)
class Reached:
    """Where greedy rollouts of a policy end in one watched search, by the simulator's truth.

    Args:
        begun, ended: Choices that differ from the target, in the mean.
        kept: Share of the ends that keep the bound; of the starts all but few do.
        nearer: Share of the ends with a higher utility than their start.
    """

    begun: float
    ended: float
    kept: float
    nearer: float


def reached(known: Mapping[str, Any], weights: Any, number: int, steps: int) -> Reached:
    """Of all views of a watched search, for drawn preferences."""
    run, generator = known["runs"][number], np.random.default_rng(3)
    simulator = searches.Simulator(known["recording"])
    rows: list[tuple[float, float, float, float]] = []
    for instance, begins, told in run["views"]:
        bank = bank_of([instance], [begins[0]])
        wanted = source._wanted(12, generator)
        starts = source._starts(begins, wanted, bank.shown.values(np.array(begins, np.int64)))
        state = Assignment.begin(bank, wanted, starts, steps)
        greedy = np.ones(len(wanted), np.bool_)
        end = rolled(state, chooser(weights, generator, greedy)).end.codes
        plans = [*known["plans"], *told]
        best = _worth(simulator, plans, run["allowed"])
        for n, preference in enumerate(wanted):
            target = np.array(plans[int(utility(best, preference[None]).argmax())])
            pair = [tuple(int(k) for k in row) for row in (starts[n], end[n])]
            worth = _worth(simulator, pair, run["allowed"])
            before, after = utility(worth, preference[None])
            apart = [float((row != target).sum()) for row in (starts[n], end[n])]
            rows.append((*apart, float(worth[1, 1] <= 1), float(after > before)))
    return Reached(*(float(mean) for mean in np.mean(rows, axis=0)))


def _worth(simulator: Any, plans: Sequence[Codes], allowed: float) -> Floats:
    real = transfer.values(simulator, plans)
    return np.stack([real[:, 0] - 1, real[:, 2] / allowed, real[:, 1] - 1], axis=1)


def targets_of(known: Mapping[str, Any]) -> Proposes:
    """The best known plan for each preference that a policy would be asked with."""
    simulator = searches.Simulator(known["recording"])
    plans = list(known["plans"])
    worth = _worth(simulator, plans, simulator.allowed)

    def propose(view: Any, count: int) -> list[Codes]:
        wanted = source._wanted(max(count, source._PLANS), view.generator)
        best = utility(worth[None], wanted[:, None, :]).argmax(axis=1)
        return list(dict.fromkeys(plans[i] for i in best))

    return propose


def varied(recording: Any, generator: np.random.Generator) -> Pair:
    """A model with fewer choices and other layers that hurt, on a drawn device."""
    space = searches.Space(recording, searches.Simulator(recording))
    table = EstimatedTable(space, searches.SimulatedEstimator(recording, space))
    known, sizes, choices = table.now(raw=True), table.sizes(), recording.choices
    kept = np.flatnonzero(generator.random(len(choices)) < generator.uniform(0.5, 1.0))
    kept = kept if len(kept) > 4 else np.arange(len(choices))
    at = {int(i): n for n, i in enumerate(kept)}
    exchanged = {i: i for i in at}
    for kind in {(choices[i].family, len(choices[i])) for i in at}:
        alike = [i for i in at if (choices[i].family, len(choices[i])) == kind]
        exchanged |= dict(zip(alike, map(int, generator.permutation(alike)), strict=True))
    fewer = Table(
        cost=tuple(known.cost[i] for i in at),
        damage=tuple(known.damage[exchanged[i]] for i in at),
        edges={(at[i], at[j]): v for (i, j), v in known.edges.items() if i in at and j in at},
    )
    return on_a_device([choices[i] for i in at], fewer, [sizes[i] for i in at], generator)


def taught_by_others(given: argparse.Namespace, name: str) -> Any:
    """Weights that imitate on varied other models."""
    group = name.removesuffix(transfer.TOGETHER)
    path = given.out / f"varied-without-{group}.weights"
    if path.exists():
        return pickle.loads(path.read_bytes())
    names = [one for one in transfer.MODELS if one.removesuffix(transfer.TOGETHER) != group]
    others = [searches.Recording(given.recordings / f"{one}.json.gz") for one in names]
    generator = np.random.default_rng(11)
    pairs = [varied(others[n % len(others)], generator) for n in range(VARIED)]
    course = Course.of(pairs, generator)
    learner = Learner(fresh(0), Settings(seed=0, batch=STATES, lessons=VARIED_LESSONS, rounds=0))
    losses = [learner.imitate(course) for _ in range(VARIED_LESSONS)]
    print(f"{path.stem}: loss {np.mean(losses[:EVERY]):.2f} -> {np.mean(losses[-EVERY:]):.2f}")
    path.write_bytes(pickle.dumps(learner.network.arrays()))
    return learner.network.arrays()


def main() -> None:
    """Teach, say how far it goes, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recordings", type=Path, default=Path(__file__).parent / "recordings")
    parser.add_argument("--model", action="append")
    parser.add_argument("--lessons", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--most", type=int, default=40)
    given = parser.parse_args()
    names = given.model or MODELS
    known = {name: transfer.known_of(given.out, name, given.recordings) for name in names}
    weights: dict[str, Any] = {}
    for name in names:
        path = given.out / f"own-{name}-{given.lessons}.weights"
        weights[name] = taught(known, name, given.lessons, path)
        for number, what in ((0, "taught"), (HELD_OUT, "held out")):
            for steps in (source._STEPS, LONG):
                print(
                    f"{name}, {what}, {steps} steps:",
                    reached(known[name], weights[name], number, steps),
                )
        blind = reached(known[name], fresh(0), HELD_OUT, source._STEPS)
        print(f"{name}, random weights:", blind, flush=True)
    others = {name: taught_by_others(given, name) for name in names}
    variants: dict[str, Callable[..., Any]] = {
        "portfolio, oracle": transfer.beside(lambda name: lambda view, count: known[name]["plans"]),
        "portfolio, targets": transfer.beside(lambda name: targets_of(known[name])),
        "portfolio, varied": transfer.beside(lambda name: transfer.ends_of(others[name])),
        "portfolio, own": transfer.beside(lambda name: transfer.ends_of(weights[name])),
    }
    searches.VARIANTS = {**searches.VARIANTS, **variants}
    lines = transfer.compared(given, known, ["portfolio", *variants])
    for points in transfer.POINTS:
        key = f"hypervolume_{points}"
        against = searches.table_of(lines, "portfolio", key)
        against = {name: found for name, found in against.items() if name in names}
        print(f"\n{key.replace('_', ' at ')} evaluations, simulated; against portfolio")
        for name in variants:
            row = searches.compared(searches.table_of(lines, name, key), against, "hypervolume")
            if row is not None:
                print(searches.said(name, row))


if __name__ == "__main__":
    main()
