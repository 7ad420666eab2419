"""Can the policy's network learn what the oracle knows, at least of one model? Simulated.

    python benchmarks/policy_limits.py --out FOLDER [--model NAME] [--lessons 4000] [--seeds 5]

FOLDER is that of policy_transfer.py (its watched searches and best plans are read or made). For
each model one network imitates on watched searches of *this* model alone: an upper bound for what
imitation by this network can bring, no result about unknown models. Printed are how much of the
way from a start to the target (in true utility) its greedy rollouts go, on views that it was
taught and on views of one search that was held out; and what two reserved places gain:

    portfolio, oracle     all best plans, as in policy_transfer.py
    portfolio, targets    what a perfect imitator would say: the best plan for each drawn preference
    portfolio, own        the network that was taught this model
"""

import argparse
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import policy_transfer as transfer
import search as searches
from policy_transfer import Codes, Floats, Proposes

from edgeopt.search.policy import source
from edgeopt.search.policy.assignment import Assignment, bank_of, utility
from edgeopt.search.policy.learner import Learner, Settings
from edgeopt.search.policy.network import fresh
from edgeopt.search.policy.rollout import chooser, rolled

MODELS = ("oww-embedding", "oww-embedding-extended", "ppocr-cls")
"""Where the oracle gains most."""
STATES, EVERY = 24, 500
HELD_OUT = 4
"""Number of the watched search that no lesson comes from."""
LONG = 48


def taught(known: Mapping[str, Any], name: str, lessons: int, path: Path) -> Any:
    """Weights that imitate on all watched searches of a model but one."""
    if path.exists():
        return pickle.loads(path.read_bytes())
    runs = [run for n, run in enumerate(known[name]["runs"]) if n != HELD_OUT]
    course = transfer.lessons({name: {**known[name], "runs": runs}}, [name])
    learner = Learner(fresh(0), Settings(seed=0, batch=STATES, lessons=lessons, rounds=0))
    start = time.process_time()
    for first in range(0, lessons, EVERY):
        losses = [learner.imitate(course) for _ in range(EVERY)]
        spent = time.process_time() - start
        print(f"{name}: {first + EVERY} lessons, loss {np.mean(losses):.2f}, {spent:.0f} s")
    path.write_bytes(pickle.dumps(learner.network.arrays()))
    return learner.network.arrays()


def regained(known: Mapping[str, Any], weights: Any, number: int, steps: int) -> float:
    """Share of the way to the targets that greedy rollouts go in one watched search, in the middle.

    By the simulator's truth: utility of the end less that of the start, over that of the target.
    """
    run, generator = known["runs"][number], np.random.default_rng(3)
    simulator = searches.Simulator(known["recording"])
    shares: list[float] = []
    for instance, begins, told in run["views"]:
        bank = bank_of([instance], [begins[0]])
        wanted = source._wanted(12, generator)
        starts = source._starts(begins, wanted, bank.shown.values(np.array(begins, np.int64)))
        state = Assignment.begin(bank, wanted, starts, steps)
        greedy = np.ones(len(wanted), np.bool_)
        end = rolled(state, chooser(weights, generator, greedy)).end
        plans = [*known["plans"], *told]
        best = _worth(simulator, plans, run["allowed"])
        for n, preference in enumerate(wanted):
            at = [tuple(int(k) for k in row) for row in (starts[n], end.codes[n])]
            here, there = utility(_worth(simulator, at, run["allowed"]), preference[None])
            whole = float(utility(best, preference[None]).max() - here)
            if whole > 1e-3:
                shares.append(float(there - here) / whole)
    return float(np.median(shares))


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
        for steps in (source._STEPS, LONG):
            parts = [regained(known[name], weights[name], n, steps) for n in (0, HELD_OUT)]
            print(f"{name}: {steps} steps go {parts[0]:.2f} of the way, held out {parts[1]:.2f}")
        blind = regained(known[name], fresh(0), HELD_OUT, source._STEPS)
        print(f"{name}: random weights go {blind:.2f} of the way", flush=True)
    variants: dict[str, Callable[..., Any]] = {
        "portfolio, oracle": transfer.beside(lambda name: lambda view, count: known[name]["plans"]),
        "portfolio, targets": transfer.beside(lambda name: targets_of(known[name])),
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
