"""A rising function of every element behind a maximum instead of before it.

    MaxPool(f(x))  =  f(MaxPool(x))

with f = Exp, Sigmoid, Tanh, Elu, Softplus anywhere, and Relu, LeakyRelu, HardSigmoid or Clip where
no runtime computes them inside of what is before them: behind a Concat, a normalization of each
instance, a Resize, a product, a change of layout. What rises keeps the place of the largest, and
padding is -infinity, which no window chooses. f then runs on 1/stride² of the elements.

It must not fire where something else reads f(x), where the pooling has no stride (nothing to
gain), with `ceil_mode` (a window may hold padding alone), where places are asked for, on an Elu or
LeakyRelu or HardSigmoid that falls, or on a Clip whose ends are no constants. A Relu behind a
convolution, a sum or a batch normalization is left where it is: runtimes compute it inside.
ONNX Runtime does nothing of it.
"""

from edgeopt.transforms.rules.conditions import integers_of
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

pool_first = Rule("pool_before_unary", shared="something else reads the function")
_FUNCTIONS = ("Exp", "Sigmoid", "Tanh", "Elu", "Softplus")
_FUSED = ("Relu", "LeakyRelu", "HardSigmoid", "Clip")
_SLOPED = ("Elu", "LeakyRelu", "HardSigmoid")
_MISSING = "no rising function before it"
_APART = ("Concat", "InstanceNormalization", "Resize", "Mul", "Sub", "Div", "Transpose", "Reshape")
"""Operators that no runtime computes an activation inside of."""


@pool_first.pattern
def _(op: Ops, x: Tensor) -> Term:
    made = op.one_of(*_FUNCTIONS, *_FUSED)(x, _as="function", _missing=_MISSING)
    return op.MaxPool(made, _as="pool")


@pool_first.pattern
def _(op: Ops, x: Tensor, low: Const | None = None, high: Const | None = None) -> Term:
    made = op.Clip(x, low, high, _as="function", _missing=_MISSING)
    return op.MaxPool(made, _as="pool")


@pool_first.sound
def _(x: Tensor, function: Node, pool: Node) -> None:
    require(x.dtype == "float32", "it is not in float32")
    require(not pool.attrs.get("ceil_mode", 0), "a window may hold padding alone")
    slope = function.alpha if function.op_type in _SLOPED else 0.0
    require(slope >= 0.0, "the function falls somewhere")


@pool_first.worth
def _(x: Tensor, function: Node) -> None:
    free = function.op_type not in _FUSED or x.maker in _APART
    require(free, "the function is computed inside of what is before it")


@pool_first.worth
def _(pool: Node) -> None:
    steps = integers_of(pool, "strides", None)
    require(any(step > 1 for step in steps), "the pooling has no stride: nothing to gain")


@pool_first.replace_with
def _(
    op: Ops,
    x: Tensor,
    function: Node,
    pool: Node,
    low: Const | None = None,
    high: Const | None = None,
) -> Term:
    pooled = op.like(pool)(x, _name="pooled")
    ends = (low, high) if high is not None else (low,) if low is not None else ()
    return op.like(function)(pooled, *ends, _name="function")


PLUGIN = RuleTransform(pool_first)
