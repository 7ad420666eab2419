"""An estimator for `ToySpace` that is as wrong as real ones are: additive, off by a factor a site.

For tests of strategies only: what it predicts is made from the toy's own costs.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from edgeopt.core.action import Choice, Recipe
from edgeopt.core.estimates import DAMAGE, LATENCY, Change, Estimates
from edgeopt.core.trial import Trial
from edgeopt.testing.toy_space import ToySpace


class ToyEstimator:
    """Implements `core.estimates.Estimator`.

    Args:
        space: A space of its own, equal to the one that is searched.
        error: Standard deviation of the logarithm of each site's factor on the damage.
    """

    def __init__(self, space: ToySpace, *, error: float = 0.5) -> None:
        self._space = space
        generator = np.random.default_rng(space.sites)
        self._factor = generator.lognormal(0.0, error, space.sites)
        self.learned = 0

    def predict(self, recipe: Recipe) -> Estimates:
        """Latency with its borders; damage summed over sites, each alone."""
        start = self._space.true_values(self._space.empty())
        latency_s = self._space.true_values(recipe)["latency"]
        ratio = latency_s / start["latency"] if start["latency"] else 1.0
        damage = sum(
            self._factor[site] * self._alone(recipe, site) for site in range(self._space.sites)
        )
        return Estimates(
            changes={
                LATENCY: Change(mean=ratio - 1.0, spread=0.1),
                DAMAGE: Change(mean=float(damage), spread=float(damage)),
            }
        )

    def learn(self, trials: Sequence[Trial]) -> None:
        """Only counts: the toy does not learn."""
        self.learned += len(trials)

    def coupled(self, choices: Sequence[Choice]) -> frozenset[tuple[int, int]]:
        """Neighbours in the chain."""
        places = [i for i, choice in enumerate(choices) if choice.family == "quantize"]
        return frozenset(pairwise(places))

    def _alone(self, recipe: Recipe, site: int) -> float:
        here = Recipe(
            baseline=recipe.baseline,
            actions=tuple(a for a in recipe.actions if a.site == f"s{site}"),
        )
        start = self._space.true_values(self._space.empty())["accuracy"]
        return -float(np.log(self._space.true_values(here)["accuracy"] / start))
