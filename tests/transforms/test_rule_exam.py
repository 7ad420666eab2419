"""Every rule on the shelves is proved on random shapes, and a wrong one is caught."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.testing.rule_exam import Proof, prove, prove_rule
from edgeopt.testing.rule_sketch import FromHypothesis, FromSeed
from edgeopt.testing.transform_exam import ExamFailed
from edgeopt.transforms.rules.catalogue import rules_on_shelves
from edgeopt.transforms.rules.conditions import require_pointwise
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term

RULES = rules_on_shelves()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_rule_holds_on_random_shapes(rule: Rule, data: st.DataObject) -> None:
    """Wherever the rule fires in a random model of its pattern, the outputs stay."""
    prove(rule, FromHypothesis(data.draw))


def test_draws_reach_the_rules() -> None:
    """Random models are such that rules fire in them."""
    by_name = {rule.name: rule for rule in RULES}
    for name in ("fold_batchnorm", "fold_mul", "fold_add"):
        proof = prove_rule(by_name[name], draws=12)
        assert proof.models > 5
        assert proof.sites > 3
        assert not proof.refused


def test_the_same_seed_means_the_same_draw() -> None:
    """A seed in a message leads back to the model."""
    rule = next(rule for rule in RULES if rule.name == "fold_mul")
    one, other = (prove(rule, FromSeed(5)) for _ in range(2))
    assert one == other != Proof()


def swapped(*, asked: bool) -> Rule:
    """Pooling before a convolution, with its condition or without."""
    rule = Rule("swapped")

    @rule.pattern
    def _(op: Ops, x: Tensor, w: Const, b: Const | None = None) -> Term:
        return op.GlobalAveragePool(op.Conv(x, w, b, _as="conv"))

    @rule.sound
    def _(conv: Node, w: Const) -> None:
        if asked:
            require_pointwise(conv, w)

    @rule.replace_with
    def _(op: Ops, x: Tensor, w: Const, b: Const | None, conv: Node) -> Term:
        return op.like(conv)(op.GlobalAveragePool(x), w, b)

    return rule


def test_a_missing_condition_is_found() -> None:
    """Without its condition a rule fails within few draws; with it, it passes the same ones."""
    prove_rule(swapped(asked=True), draws=40)
    with pytest.raises(ExamFailed, match="seed"):
        prove_rule(swapped(asked=False), draws=40)


def test_a_wrong_weight_is_found() -> None:
    """A bias that is scaled twice shows in the outputs."""
    rule = Rule("scaled")

    @rule.pattern
    def _(op: Ops, x: Tensor, w: Const, b: Const, c: Const) -> Term:
        return op.Conv(x, w, b, _as="conv") * c

    @rule.sound
    def _(c: Const) -> None:
        assert c.rank >= 0

    @rule.replace_with
    def _(op: Ops, x: Tensor, w: Const, b: Const, conv: Node) -> Term:
        return op.like(conv)(x, w * 2.0, b * 4.0)

    with pytest.raises(ExamFailed, match="off by"):
        prove_rule(rule, draws=20)
