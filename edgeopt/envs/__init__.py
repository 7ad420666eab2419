"""Gymnasium environments over (space, evaluator).

Importing this package registers `EdgeOpt-v0`, so that both of these work:

    edgeopt.envs.make(space, evaluator, max_steps=24)
    gymnasium.make("edgeopt.envs:EdgeOpt-v0", space=space, evaluator=evaluator)
"""

from dataclasses import replace
from typing import Any, cast

import gymnasium

from edgeopt.core.protocols import Evaluator, Space
from edgeopt.envs.edgeopt_v0 import EdgeOptEnv
from edgeopt.envs.static_cost import StaticCostEvaluator

__all__ = ["ID", "EdgeOptEnv", "StaticCostEvaluator", "make", "register"]

ID = "EdgeOpt-v0"


def register() -> None:
    """Make the environment known to Gymnasium; doing it twice changes nothing."""
    if ID not in gymnasium.registry:
        known: Any = gymnasium
        known.register(id=ID, entry_point="edgeopt.envs.edgeopt_v0:EdgeOptEnv")


def make(space: Space, evaluator: Evaluator, **options: Any) -> EdgeOptEnv:
    """The environment without wrappers; its spec says whether costs are deterministic.

    Args:
        space: What can be done to the model.
        evaluator: What a recipe costs.
        options: Those of `EdgeOptEnv`.
    """
    register()

    def build() -> EdgeOptEnv:
        return EdgeOptEnv(space, evaluator, **options)

    # A function, since Gymnasium copies keyword arguments deeply, and with them the whole graph.
    spec = replace(
        gymnasium.spec(ID), entry_point=build, nondeterministic=not evaluator.deterministic
    )
    made: Any = gymnasium.make(spec)  # pyright: ignore[reportUnknownMemberType]
    return cast("EdgeOptEnv", made.unwrapped)


register()
