"""Why a search is offered nothing to prune."""

import pytest

from edgeopt.api.prunable import nothing_to_prune
from edgeopt.core.action import Action, Choice
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import opened

EVERY = ("rewrite", "prune")


def _reason(model: object, *, families: tuple[str, ...] = EVERY, data: bool = True) -> str:
    return nothing_to_prune(opened(model), (), families=families, data=data)  # type: ignore[arg-type]


def test_nothing_is_missing_where_a_cut_is_offered() -> None:
    """One choice of the family is enough."""
    action = Action.of("channels_greedy", "conv1", keep=4)
    choice = Choice(
        name="prune:conv1", family="prune", labels=("off", "4"), alternatives=((), (action,))
    )
    model = opened(graphs.conv_chain())
    assert nothing_to_prune(model, [choice], families=EVERY, data=True) == ""


@pytest.mark.parametrize(
    ("families", "data", "said"),
    [
        (("rewrite",), True, "the family prune was not among those that were searched"),
        (EVERY, False, "without samples nothing says"),
        (EVERY, True, "groups of channels none is offered"),
    ],
)
def test_the_question_may_be_the_reason(families: tuple[str, ...], data: bool, said: str) -> None:
    """What was asked for, the data, or widths."""
    assert said in _reason(graphs.conv_chain(), families=families, data=data)


def test_layers_say_why_they_stay() -> None:
    """Counted by reason, without names."""
    b = Builder()
    b.conv("x", "y", (3, 4))
    model = b.model([("x", "float32", (1, 3, 8, 8))], [("y", "float32", (1, 4, 8, 8))])
    assert _reason(model) == "no layer's channels can go: 1 layers: they are those of the output"
