"""The portfolio with a learned policy as one more source, for benchmarks/search.py.

What policies were trained on: benchmarks/policy.py. Gains count on held-out models only.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ablations import SOURCES

from edgeopt.core.protocols import Strategy
from edgeopt.search.modelled import Modelled
from edgeopt.search.policy.network import fresh
from edgeopt.search.policy.source import Policy, shipped
from edgeopt.search.strategies.portfolio import Portfolio


def untrained() -> Policy:
    """Random weights: what is left of a policy without any training."""
    return Policy(fresh(0))


def beside(policy: Callable[[], Policy]) -> Callable[..., Strategy]:
    """The portfolio with a policy."""

    def make(space: Any, *, seed: int, objectives: Any, estimator: Any = None) -> Strategy:
        return Portfolio(space, seed, objectives, estimator, {**SOURCES, "policy": policy()})

    return make


def alone(policy: Callable[[], Policy]) -> Callable[..., Strategy]:
    """A policy as the only source."""

    def make(space: Any, *, seed: int, objectives: Any, estimator: Any = None) -> Strategy:
        return Modelled(space, seed, objectives, estimator, {"policy": policy()})

    return make


POLICIES: Mapping[str, Callable[..., Strategy]] = {
    "portfolio with policy": beside(lambda: shipped("rl_group")),
    "portfolio with ppo policy": beside(lambda: shipped("rl")),
    "portfolio, policy untrained": beside(untrained),
    "rl_group untrained": alone(untrained),
}
