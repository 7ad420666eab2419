"""Which transform stands behind an action, and when it is applied.

Recipes have one canonical order: exact actions (rewrite and fuse, as given), then prune, then
quantize, then repair. Whoever applies, offers or groups actions asks here.
"""

import difflib
from collections.abc import Iterable
from functools import cache

from edgeopt import plugins
from edgeopt.core.action import Action
from edgeopt.errors import UsageError
from edgeopt.transforms.base import EXACT, STAGES, ShelfName, Transform

_LATER = tuple(stage for stage in STAGES if stage not in EXACT)
EXACT_STAGE = 0
PRUNE_STAGE = _LATER.index("prune") + 1


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
    """When actions of a shelf are applied: 0 exact ones, 1 prune, 2 quantize, 3 repair."""
    return EXACT_STAGE if shelf in EXACT else _LATER.index(shelf) + 1


def stage_of(action: Action) -> int:
    """When an action is applied, as `stage_of_shelf`.

    Raises:
        UsageError: Its transform does not exist.
    """
    return stage_of_shelf(transform_of(action.transform)[0])


def canonical(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Rewrites and fusions as given, then prune, quantize, repair; stable within each."""
    return tuple(sorted(actions, key=stage_of))


def exact_prefix(actions: Iterable[Action]) -> tuple[Action, ...]:
    """The actions that keep outputs equal: they come first in canonical order."""
    return tuple(action for action in actions if stage_of(action) == EXACT_STAGE)
