"""NSGA-II against biased random search, at equal evaluations, on toy spaces.

    python benchmarks/search_toy.py [--seeds 12] [--json FILE]

A toy, and no more than that: it shows that the search learns from what it is told, and how much
of its lead is the seeds; it says nothing about real kernels, models or devices. Each seed is
another instance. The hypervolume is that of the true values (without noise) of the front found
from noisy measurements; reference: 1.1 of the baseline's latency and size, 10 points of accuracy.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgeopt.core.front import front_of
from edgeopt.core.indicators import hypervolume
from edgeopt.core.protocols import Strategy
from edgeopt.core.trial import Trial
from edgeopt.plugins import STRATEGIES
from edgeopt.testing.toy_space import OBJECTIVES, ToyDevice, ToySpace

BUDGETS = (40, 100, 300)
SITES = (8, 20, 60)
BATCH = 8
REFERENCE = np.array([1.1, 1.1, 0.10])
Floats = npt.NDArray[np.float64]


def true_hypervolume(space: ToySpace, trials: Sequence[Trial]) -> float:
    """Of the members of the measured front, by their values without noise."""
    start = space.true_values(space.empty())
    members = front_of(trials, OBJECTIVES, "toy").members
    found = [space.true_values(member.candidate.recipe) for member in members]
    rows = [
        [
            true["latency"] / start["latency"],
            true["size"] / start["size"],
            start["accuracy"] - true["accuracy"],
        ]
        for true in found
    ]
    return hypervolume(np.array(rows).reshape(-1, 3), REFERENCE) / float(REFERENCE.prod())


def curve(name: str, sites: int, seed: int) -> list[float]:
    """Hypervolume as a share of the reference box, at each budget."""
    space = ToySpace(sites=sites, rewrites=6, seed=seed)
    device = ToyDevice(space, seed=seed)
    strategy: Strategy = STRATEGIES.load(name)(space, seed=seed, objectives=OBJECTIVES)
    trials = list(device.measure([space.standard()[0][1]]))
    strategy.tell(trials)
    found: list[float] = []
    for budget in BUDGETS:
        while len(trials) < budget:
            asked = strategy.ask(min(BATCH, budget - len(trials)))
            if not asked:
                break
            told = device.measure(asked, start=len(trials), strategy=name)
            strategy.tell(told)
            trials += told
        found.append(true_hypervolume(space, trials))
    return found


def interval(differences: Floats) -> tuple[float, float]:
    """95 % of the mean of paired differences: bootstrap over instances."""
    generator = np.random.default_rng(0)
    means = [generator.choice(differences, size=len(differences)).mean() for _ in range(4000)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def main() -> None:
    """Run every cell and print one row each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, float]] = []
    print("sites  evaluations  random  nsga2   nsga2 - random [95 %]      nsga2 ahead")
    for sites in SITES:
        both = {
            name: np.array([curve(name, sites, seed) for seed in range(given.seeds)])
            for name in ("random", "nsga2")
        }
        for column, budget in enumerate(BUDGETS):
            random, nsga2 = both["random"][:, column], both["nsga2"][:, column]
            low, high = interval(nsga2 - random)
            ahead = int((nsga2 > random).sum())
            rows.append(
                {
                    "sites": sites,
                    "evaluations": budget,
                    "random": float(random.mean()),
                    "nsga2": float(nsga2.mean()),
                    "difference_low": low,
                    "difference_high": high,
                    "ahead": ahead,
                    "seeds": given.seeds,
                }
            )
            print(
                f"{sites:>5}  {budget:>11}  {random.mean():.4f}  {nsga2.mean():.4f}  "
                f"{(nsga2 - random).mean():+.4f} [{low:+.4f}, {high:+.4f}]  "
                f"{ahead} of {given.seeds}",
                flush=True,
            )
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
