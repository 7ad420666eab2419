"""Where a training comes in a recipe: behind pruning first, behind rounding then."""

from collections.abc import Sequence

import onnx_ir as ir
import pytest

from edgeopt.core.action import Action, Recipe
from edgeopt.testing import graphs
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.replay import Built
from edgeopt.transforms.stages import canonical
from edgeopt.transforms.training import trained

CUT, SOLVE = Action.of("channels_greedy", "a", keep=1), Action.of("least_squares", "*", samples=4)
CODES, FIX = Action.of("static_qdq", "c", version=2), Action.of("bias_correction", "*", samples=4)
FLOAT = Action.of("distil", "*", version=2, samples=4, seconds=10.0)
ROUNDED = Action.of("distil_integers", "*", samples=4, seconds=10.0)
OTHERS = Action.of("static_qdq", "d", version=2)


def _made(
    actions: Sequence[Action],
    *,
    offered: Sequence[Action] = (FLOAT, ROUNDED, FIX),
    refused: str = "",
) -> dict[str, tuple[Action, ...]]:
    """What a recipe of some actions becomes, by name."""
    graph = opened(graphs.conv_chain())

    def build(wanted: Sequence[Action]) -> Built:
        done = [action for action in canonical(wanted) if action.transform != refused]
        return Built(graph=graph, recipe=Recipe(baseline="sha256:0", actions=tuple(done)))

    def repairs(model: ir.Model) -> Sequence[Action]:
        return offered

    def integers(model: ir.Model) -> Sequence[Action]:
        return [OTHERS]

    recipe = Recipe(baseline="sha256:0", actions=tuple(actions))
    found = trained(recipe, build=build, offered=repairs, integers=integers)
    return {name: recipe.actions for name, recipe in found}


def test_a_pruned_recipe_is_trained_in_float_and_then_in_integers() -> None:
    """Its own integers where it has some, everything in integers where it has none."""
    assert _made([CUT, SOLVE]) == {
        "distil": (CUT, SOLVE, FLOAT),
        "distil+quantize": (CUT, SOLVE, FLOAT, OTHERS),
    }
    assert _made([CUT, SOLVE, CODES, FIX]) == {
        "distil": (CUT, SOLVE, FLOAT),
        "distil+quantize": (CUT, SOLVE, FLOAT, CODES, FIX),
    }


@pytest.mark.parametrize("before", [[CODES, FIX], [CUT, SOLVE, FLOAT, CODES]])
def test_what_is_float_no_more_is_trained_behind_its_rounding(before: list[Action]) -> None:
    """Of a net that was never pruned, and of one that was trained in float already."""
    assert _made(before) == {"distil_integers": (*before, ROUNDED)}


@pytest.mark.parametrize("before", [[CUT, SOLVE], [CODES]])
def test_nothing_comes_of_a_training_that_is_refused_or_not_offered(before: list[Action]) -> None:
    """No candidate then."""
    assert _made(before, offered=[FIX]) == {}
    assert _made([CUT, SOLVE], refused="distil") == {}
    assert _made([CODES], refused="distil_integers") == {}
