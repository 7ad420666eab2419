"""The logarithm of a softmax as the one operator.

    Log(Softmax(x))  =  LogSoftmax(x)

Where a probability is rounded to 0, its logarithm is finite instead of -infinity: no rule that is
always done, but a choice.
It must not fire where something else reads the probabilities, or below opset 13 (there an axis
flattens differently).
ONNX Runtime does nothing of it; measured 3.1 on the two operators.
"""

from edgeopt.transforms.rules.conditions import require_kernel_for
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.terms import Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

logarithm = Rule("logsoftmax", opset=13, shared="something else reads the probabilities")


@logarithm.pattern
def _(op: Ops, x: Tensor) -> Term:
    return op.Log(op.Softmax(x, _as="softmax", _missing="it is no logarithm of a Softmax"))


@logarithm.sound
def _(x: Tensor) -> None:
    require_kernel_for(x)


@logarithm.replace_with
def _(op: Ops, x: Tensor, softmax: Node) -> Term:
    return op.LogSoftmax(x, axis=softmax.axis)


PLUGIN = RuleTransform(logarithm)
