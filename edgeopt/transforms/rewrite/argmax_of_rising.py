"""The largest of what rises with x stands where the largest x stands.

    ArgMax(f(x))  =  ArgMax(x)          _, i = TopK(f(x), k)  =  _, i = TopK(x, k)

with f = Sigmoid, Tanh, Exp, Softplus, LeakyRelu, Elu, a positive factor or divisor, or a number
that is added: scores of detectors, logits under a temperature. ArgMin too.

Large values that f rounds to one were a tie, resolved by their places; now they are ordered: a
choice, not always done. It must not fire where somebody reads f(x), or the values of TopK, on a
factor that is not above 0, a slope that falls, operands that differ from element to element, or in
half precision, where ties are common. For Softmax see `argmax_of_logits` and `topk_of_logits`.
ONNX Runtime does nothing of it.
"""

from math import isfinite

from edgeopt.transforms.rules.conditions import require_not_wider
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

rising = Rule(
    "argmax_of_rising", opset=11, shared="something else reads the function, or the values"
)
_FUNCTIONS = ("Sigmoid", "Tanh", "Exp", "Softplus", "LeakyRelu", "Elu")


def _function(op: Ops, x: Tensor, c: Const) -> Term:
    missing = "no function that rises is before it"
    one = op.one_of(*_FUNCTIONS)(x, _as="function", _missing=missing)
    return op.either(
        one, op.one_of("Mul", "Div", "Add", "Sub")(x, c, _as="function", _missing=missing)
    )


@rising.pattern
def _(op: Ops, x: Tensor, c: Const) -> Term:
    return op.one_of("ArgMax", "ArgMin")(_function(op, x, c), _as="reader")


@rising.pattern
def _(op: Ops, x: Tensor, c: Const, k: Tensor) -> Term:
    _, places = op.TopK(_function(op, x, c), k, _as="reader").outs(2)
    return places


@rising.sound
def _(x: Tensor, function: Node, c: Const | None = None) -> None:
    require(x.dtype in ("float32", "float64"), "it is in half precision, or no float")
    if function.op_type in ("LeakyRelu", "Elu"):
        require(function.alpha > 0, "the slope falls")
    if c is not None:
        require_not_wider(c, x, "the operand widens it")
        number = c.scalar()
        factor = function.op_type in ("Mul", "Div")
        require(isfinite(number), "the operand makes all elements alike")
        require(not factor or number > 0, "the factor is not above 0")


@rising.replace_with
def _(op: Ops, x: Tensor, reader: Node, k: Tensor | None = None) -> Term:
    if k is None:
        return op.like(reader)(x)
    _, places = op.like(reader)(x, k).outs(2)
    return places


PLUGIN = RuleTransform(rising)
