"""The largest probability is that of the largest logit.

    ArgMax(Softmax(x))  =  ArgMax(x)          over the same axis; LogSoftmax too

It must not fire where something else reads the probabilities, where the two run over different
axes, below opset 13 (there Softmax flattens), or on a Sigmoid (large logits all become 1: what
was a tie is none any more). Where two logits differ by less than what Softmax can tell apart, the
larger one wins instead of the first.
ONNX Runtime does nothing of it; measured 1.5 on the two operators.
"""

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

logits = Rule("argmax_of_logits", opset=13, shared="something else reads the probabilities")


@logits.pattern
def _(op: Ops, x: Tensor) -> Term:
    odds = op.one_of("Softmax", "LogSoftmax")(x, _as="softmax", _missing="no Softmax before it")
    return op.ArgMax(odds, _as="argmax")


@logits.sound
def _(x: Tensor, softmax: Node, argmax: Node) -> None:
    same = softmax.axis % x.rank == argmax.axis % x.rank
    require(same, "they run over different axes")


@logits.replace_with
def _(op: Ops, x: Tensor, argmax: Node) -> Term:
    return op.like(argmax)(x)


PLUGIN = RuleTransform(logits)
