"""`portfolio`: the default. Several sources propose, one surrogate predicts, the best is measured.

Plans, rungs of the ladder, neighbours of the front, children of NSGA-II and random codes; a
learned policy is one more source. How many of a batch may come from each follows what its
candidates really gained, with a least share for all: what a source is worth changes during a
search, and on some models the plans are wrong.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgeopt.core.estimates import Estimator
from edgeopt.core.indicators import hypervolume
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space, StrategyFactory
from edgeopt.search.modelled import Modelled
from edgeopt.search.policy.source import opened
from edgeopt.search.proposers import Proposer, children, drawn, ladder, near_the_front, planned

Floats = npt.NDArray[np.float64]
_LEAST = 0.08
_MOST = 0.6
_FORGET = 0.9
_PRIOR = {"planner": 1.5, "local": 1.5, "random": 0.3}
"""What each source is believed to gain a trial, over what a trial usually gains; else 1."""
_TRUST = 3.0
"""Trials that this counts as."""
_REFERENCE = 0.1


class Portfolio(Modelled):
    """Adaptive shares over the sources."""

    def __init__(
        self,
        space: Space,
        seed: int,
        objectives: tuple[Objective, ...],
        estimator: Estimator | None,
        sources: Mapping[str, Proposer],
    ) -> None:
        super().__init__(space, seed, objectives, estimator, sources)
        self._gained: dict[str, float] = {}
        self._spent: dict[str, float] = {}
        self._points: list[Floats] = []
        self._volume, self._credited = 0.0, 0

    def _quotas(self, wanted: int) -> Mapping[str, int]:
        """By realised gain a trial; every source gets a turn now and then."""
        worth = {name: self._worth(name) for name in self._sources}
        whole = sum(worth.values()) or 1.0
        turn = np.random.default_rng([self._seed, 2, len(self._archive.known)]).random()
        return {
            name: int(wanted * min(max(each / whole, _LEAST), _MOST) + turn)
            for name, each in worth.items()
        }

    def _credit(self, source: str, costs: Floats) -> None:
        """What a measured row added to the hypervolume, to its source."""
        limits = np.minimum(self._limits(), _REFERENCE)
        if self._points and len(self._points[0]) != len(costs):
            self._points.clear()  # an objective that nothing had before
            self._volume, self._credited = 0.0, 0
        self._points.append(np.maximum(costs, self._floor()))
        volume = hypervolume(np.array(self._points), limits + 1e-9)
        gain, self._volume = max(volume - self._volume, 0.0), volume
        self._credited += 1
        for name in self._sources:
            self._gained[name] = _FORGET * self._gained.get(name, 0.0) + gain * (name == source)
            self._spent[name] = _FORGET * self._spent.get(name, 0.0) + float(name == source)

    def _worth(self, name: str) -> float:
        """Gain a trial over what a trial usually gains, with the prior as so many trials."""
        usual = self._volume / self._credited if self._volume and self._credited else 1.0
        believed = _TRUST * _PRIOR.get(name, 1.0)
        gained = self._gained.get(name, 0.0) / usual
        return (believed + gained) / (_TRUST + self._spent.get(name, 0.0))

    def _limits(self) -> Floats:
        assert self._surrogate is not None
        return self._surrogate.limits()

    def _floor(self) -> Floats:
        assert self._surrogate is not None
        known = self._surrogate.objectives
        return np.array([0.0 if each.direction == "max" else -np.inf for each in known])


def make(
    space: Space,
    *,
    seed: int,
    objectives: tuple[Objective, ...],
    estimator: Estimator | None = None,
    policies: Mapping[str, Proposer] | None = None,
    policy: Path | None = None,
) -> Portfolio:
    """All sources over the space's choices.

    Args:
        space, seed, objectives, estimator: As every strategy.
        policies: More sources, by name.
        policy: Weights of `edgeopt train`, as one more source; none is on by itself.
    """
    sources: dict[str, Proposer] = {
        "planner": planned,
        "ladder": ladder,
        "local": near_the_front,
        "nsga2": children,
        "random": drawn,
        **(policies or {}),
    }
    if policy is not None:
        sources["policy"] = opened("rl_group", policy)
    return Portfolio(space, seed, objectives, estimator, sources)


PLUGIN: StrategyFactory = make
