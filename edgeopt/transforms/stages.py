"""Which transform stands behind an action, and when it is applied.

Recipes have one canonical order: exact actions (rewrite and fuse, as given), then prune, then
repairs of what was pruned (`on_float`), then quantize, then repairs of that. Whoever applies,
offers or groups actions asks here.
"""

import difflib
from collections.abc import Iterable
from functools import cache

from edgeopt import plugins
from edgeopt.core.action import Action, Recipe
from edgeopt.errors import UsageError
from edgeopt.transforms.base import EXACT, STAGES, ShelfName, Transform

EXACT_STAGE, PRUNE_STAGE, MEND_STAGE, QUANTIZE_STAGE, REPAIR_STAGE = range(5)
_LATER: dict[str, int] = {
    "prune": PRUNE_STAGE,
    "quantize": QUANTIZE_STAGE,
    "repair": REPAIR_STAGE,
}


@cache
def transform_of(name: str) -> tuple[ShelfName, Transform]:
    """The transform of that name and its shelf; names are unique across the shelves.

    Raises:
        UsageError: No shelf has it.
    """
    for stage in STAGES:
        if name in plugins.SHELVES[stage].names():
            return stage, plugins.SHELVES[stage].load(name)
    known = sorted(name for stage in STAGES for name in plugins.SHELVES[stage].names())
    near = difflib.get_close_matches(name, known, n=1)
    raise UsageError(
        f"there is no transform called {name!r}",
        hint=(f"did you mean {near[0]!r}? " if near else "") + f"available: {', '.join(known)}",
    )


def stage_of_shelf(shelf: ShelfName) -> int:
    """When actions of a shelf are applied, those of `repair` at the latest."""
    return EXACT_STAGE if shelf in EXACT else _LATER[shelf]


def stage_of(action: Action) -> int:
    """When an action is applied, as `stage_of_shelf`.

    Raises:
        UsageError: Its transform does not exist.
    """
    shelf, transform = transform_of(action.transform)
    return MEND_STAGE if repairs_float(transform) else stage_of_shelf(shelf)


def repairs_float(transform: Transform) -> bool:
    """Whether a transform repairs what pruning did, before anything is quantized."""
    return bool(getattr(transform, "on_float", False))


def canonical(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Rewrites and fusions as given, then prune and its repairs, then quantize and its repairs;
    stable within each.
    """
    return tuple(sorted(actions, key=stage_of))


def exact_prefix(actions: Iterable[Action]) -> tuple[Action, ...]:
    """The actions that keep outputs equal: they come first in canonical order."""
    return tuple(action for action in actions if stage_of(action) == EXACT_STAGE)


def dropped_outputs(actions: Iterable[Action]) -> frozenset[str]:
    """Names of outputs that actions take out, as the user allowed."""
    return frozenset(
        action.site
        for action in actions
        if getattr(transform_of(action.transform)[1], "drops_output", False)
    )


def reached(recipe: Recipe) -> int:
    """The latest stage that a recipe has an action of."""
    return max((stage_of(action) for action in recipe.actions), default=EXACT_STAGE)


def ends_steps(action: Action) -> bool:
    """Whether a whole tool has quantized the model: nothing can be decided by group after it."""
    return transform_of(action.transform)[1].whole_model and stage_of(action) != EXACT_STAGE
