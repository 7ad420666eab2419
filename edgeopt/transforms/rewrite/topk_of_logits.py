"""The places of the largest probabilities are those of the largest logits.

    _, i = TopK(Softmax(x), k)  =  _, i = TopK(x, k)          over the same axis; LogSoftmax too

It must not fire where somebody reads the values, where the two run over different axes, below
opset 13 (there Softmax flattens), or where something else reads the probabilities. Logits so far
apart that probabilities round to 0 were a tie, resolved by their places; now they are ordered:
a choice, not always done.
ONNX Runtime does nothing of it.
"""

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

logits = Rule(
    "topk_of_logits", opset=13, shared="something else reads the probabilities, or the values"
)


@logits.pattern
def _(op: Ops, x: Tensor, k: Tensor) -> Term:
    odds = op.one_of("Softmax", "LogSoftmax")(x, _as="softmax", _missing="no Softmax before it")
    _, places = op.TopK(odds, k, _as="topk").outs(2)
    return places


@logits.sound
def _(x: Tensor, softmax: Node, topk: Node) -> None:
    same = softmax.axis % x.rank == topk.axis % x.rank
    require(same, "they run over different axes")


@logits.replace_with
def _(op: Ops, x: Tensor, k: Tensor, topk: Node) -> Term:
    _, places = op.like(topk)(x, k).outs(2)
    return places


PLUGIN = RuleTransform(logits)
