"""A recipe with a training in its place: behind what was pruned, else behind what was quantized.

Trainings are no choices, since each takes minutes: whoever searches asks for one of a recipe that
it has measured (`search/trained`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import onnx_ir as ir

from edgeopt.core.action import Action, Recipe
from edgeopt.transforms.replay import Built
from edgeopt.transforms.stages import MEND_STAGE, PRUNE_STAGE, stage_of, transform_of

Build = Callable[[Sequence[Action]], Built]


def trains(action: Action) -> bool:
    """Whether an action is a training: its transform has an attribute `trains`."""
    transform: Any = transform_of(action.transform)[1]
    return bool(getattr(transform, "trains", False))


def price_s(offered: Sequence[Action]) -> float:
    """What one training of those that are offered takes, in seconds of one core; 0 without one."""
    return max((float(each.get("seconds")) for each in offered if trains(each)), default=0.0)


def trained(
    recipe: Recipe,
    *,
    build: Build,
    offered: Callable[[ir.Model], Sequence[Action]],
    integers: Callable[[ir.Model], Sequence[Action]],
) -> Iterator[tuple[str, Recipe]]:
    """The recipe trained, by name: of a pruned one in float, and then in integers as it was.

    The first takes minutes and the second has its weights. Nothing where no training is offered
    for what the recipe still lacks, or where nothing came of it.

    Args:
        recipe: With its artifacts.
        build: Leaves out what does not apply.
        offered: Repairs of a graph.
        integers: What quantizes a float graph.
    """
    early = [action for action in recipe.actions if stage_of(action) <= MEND_STAGE]
    late = [action.bare() for action in recipe.actions if stage_of(action) > MEND_STAGE]
    pruned = any(stage_of(action) == PRUNE_STAGE for action in early)
    on_float = pruned and not any(trains(action) for action in early)
    start = build(early if on_float else recipe.actions)
    for action in _trainings(offered(start.graph), on_float)[:1]:
        built = build([*start.recipe.actions, action])
        if action not in [done.bare() for done in built.recipe.actions]:
            return
        yield action.transform, built.recipe
        more = (late or integers(built.graph)) if on_float else ()
        if more:
            yield f"{action.transform}+quantize", build([*built.recipe.actions, *more]).recipe


def _trainings(actions: Sequence[Action], on_float: bool) -> list[Action]:
    return [a for a in actions if trains(a) and (stage_of(a) == MEND_STAGE) == on_float]
