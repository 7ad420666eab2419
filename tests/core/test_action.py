"""Actions and recipes as text."""

import pytest
from core_values import NASTY, actions, recipes
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.action import Action, Choice, Recipe
from edgeopt.errors import UsageError


@given(actions())
def test_an_action_reads_back_from_its_line(action: Action):
    """Whatever names a model has, text and action are the same."""
    assert Action.parse(action.text) == action


@given(actions())
def test_an_action_is_one_line(action: Action):
    """No site breaks the line: recipes are read line by line, by people and by tools."""
    assert len(action.text.splitlines()) == 1


@settings(max_examples=40, deadline=None)
@given(recipes())
def test_a_recipe_reads_back_from_its_file(recipe: Recipe):
    """Header and actions, in order; its identity too."""
    again = Recipe.parse(recipe.text)
    assert again == recipe
    assert again.digest == recipe.digest


@settings(max_examples=40, deadline=None)
@given(recipes())
def test_a_recipe_reads_back_with_windows_line_ends_and_comments(recipe: Recipe):
    """An editor may change line ends and a person may write comments."""
    text = recipe.text.replace("\n", "\r\n") + "# a remark\r\n\r\n"
    assert Recipe.parse(text) == recipe


@settings(max_examples=40, deadline=None)
@given(recipes(), actions())
def test_artifacts_do_not_change_the_identity(recipe: Recipe, action: Action):
    """The same decisions on retrained weights have other artifacts and the same digest."""
    bare, full = recipe.then(action.bare()), recipe.then(action.with_artifacts(ranges="sha256:9"))
    assert bare.digest == full.digest
    assert bare != full


@settings(max_examples=40, deadline=None)
@given(recipes(), actions())
def test_every_decision_changes_the_identity(recipe: Recipe, action: Action):
    """One action more is another recipe, and order matters."""
    assert recipe.then(action).digest != recipe.digest
    other = Action.of("another", "site")
    if action.bare() != other:
        assert recipe.then(action, other).digest != recipe.then(other, action).digest


@pytest.mark.parametrize("site", NASTY)
def test_sites_that_look_like_syntax(site: str):
    """Quotes, arrows and line separators inside of a site or a parameter stay inside."""
    action = Action.of("rule", site, note=site).with_artifacts(role=site)
    assert Action.parse(action.text) == action


def test_types_of_parameters_survive():
    """1, 1.0, True and "1" are four things."""
    action = Action.of("rule", "x", a=1, b=1.0, c=True, d="1")
    again = dict(Action.parse(action.text).parameters)
    assert [type(again[key]) for key in "abcd"] == [int, float, bool, str]


def test_parameters_by_name():
    """A missing parameter without a default is an error; False is a value."""
    action = Action.of("rule", "x", flag=False)
    assert action.get("flag") is False
    assert action.get("other", 3) == 3
    with pytest.raises(KeyError):
        action.get("other")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "fold",
        'fold "site"',
        "fold@1 site",
        'fold@1 "site',
        'fold@1 "site" x',
        'fold@1 "site" x=',
        'fold@1 "site" x=1 <- ranges',
        'fold@1 "site" x=1 rest',
        'Fold@1 "site"',
        "fold@1 5",
        'fold@1 "site" x=[1]',
        'fold@1 "site" x=null',
    ],
)
def test_a_line_that_is_no_action_is_refused(line: str):
    """With the line and how it must look."""
    with pytest.raises(UsageError, match="is not an action"):
        Action.parse(line)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a recipe"),
        ("baseline sha256:1", "not a recipe"),
        ("# edgeopt recipe 2\nbaseline sha256:1", "format 2"),
        ("# edgeopt recipe 1\n", "baseline"),
        ("# edgeopt recipe 1\nbaseline sha256:1\nopset many\n", "opset"),
        ("# edgeopt recipe 1\nbaseline sha256:1\nnonsense\n", "not an action"),
    ],
)
def test_a_text_that_is_no_recipe_is_refused(text: str, why: str):
    """Each with what is wrong."""
    with pytest.raises(UsageError, match=why):
        Recipe.parse(text)


@given(st.integers(1, 5))
def test_a_choice_is_as_long_as_its_alternatives(size: int):
    """Codes run below its length."""
    choice = Choice(name="n", family="prune", labels=("off",) * size, alternatives=((),) * size)
    assert len(choice) == size
