"""Gymnasium environments over (space, evaluator).

Importing this package registers `EdgeOpt-v0` and `EdgeOptFlat-v0`, so that all of these work:

    edgeopt.envs.make(space, evaluator, max_steps=24)
    edgeopt.envs.make_flat(space, evaluator)
    gymnasium.make("edgeopt.envs:EdgeOpt-v0", space=space, evaluator=evaluator)
    gymnasium.make("edgeopt.envs:EdgeOptFlat-v0", space=space, evaluator=evaluator)
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import gymnasium

from edgeopt.core.protocols import Evaluator, Space
from edgeopt.envs.edgeopt_v0 import EdgeOptEnv
from edgeopt.envs.flat_v0 import EdgeOptFlatEnv, FlatReward
from edgeopt.envs.static_cost import StaticCostEvaluator

__all__ = [
    "FLAT_ID",
    "ID",
    "EdgeOptEnv",
    "EdgeOptFlatEnv",
    "FlatReward",
    "StaticCostEvaluator",
    "make",
    "make_flat",
    "register",
]

ID = "EdgeOpt-v0"
FLAT_ID = "EdgeOptFlat-v0"
_ENTRIES = {
    ID: "edgeopt.envs.edgeopt_v0:EdgeOptEnv",
    FLAT_ID: "edgeopt.envs.flat_v0:EdgeOptFlatEnv",
}


def register() -> None:
    """Make the environments known to Gymnasium; doing it twice changes nothing."""
    known: Any = gymnasium
    for name, entry in _ENTRIES.items():
        if name not in gymnasium.registry:
            known.register(id=name, entry_point=entry)


def make(space: Space, evaluator: Evaluator, **options: Any) -> EdgeOptEnv:
    """The environment without wrappers; its spec says whether costs are deterministic.

    Args:
        space: What can be done to the model.
        evaluator: What a recipe costs.
        options: Those of `EdgeOptEnv`.
    """
    made = _made(ID, lambda: EdgeOptEnv(space, evaluator, **options), evaluator)
    return cast("EdgeOptEnv", made)


def make_flat(space: Space, evaluator: Evaluator, **options: Any) -> EdgeOptFlatEnv:
    """The RL compiler's formulation, likewise; `options` are those of `EdgeOptFlatEnv`."""
    made = _made(FLAT_ID, lambda: EdgeOptFlatEnv(space, evaluator, **options), evaluator)
    return cast("EdgeOptFlatEnv", made)


def _made(name: str, build: Callable[[], Any], evaluator: Evaluator) -> Any:
    register()
    # A function, since Gymnasium copies keyword arguments deeply, and with them the whole graph.
    spec = replace(
        gymnasium.spec(name), entry_point=build, nondeterministic=not evaluator.deterministic
    )
    made: Any = gymnasium.make(spec)  # pyright: ignore[reportUnknownMemberType]
    return made.unwrapped


register()
