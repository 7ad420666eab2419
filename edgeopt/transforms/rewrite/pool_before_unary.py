"""A rising function of every element behind a maximum instead of before it.

    MaxPool(f(x))  =  f(MaxPool(x))          f = Exp, Sigmoid, Tanh, Elu, Softplus

What rises keeps the place of the largest, and padding is -infinity, which no window chooses. f
then runs on 1/stride² of the elements.

It must not fire where something else reads f(x), where the pooling has no stride (nothing to
gain), with `ceil_mode` (a window may hold padding alone), where places are asked for, or on an Elu
that falls. Relu is left where it is: runtimes compute it inside the convolution before it.
ONNX Runtime does nothing of it.
"""

from edgeopt.transforms.rules.conditions import integers_of
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

pool_first = Rule("pool_before_unary", shared="something else reads the function")
_FUNCTIONS = ("Exp", "Sigmoid", "Tanh", "Elu", "Softplus")


@pool_first.pattern
def _(op: Ops, x: Tensor) -> Term:
    made = op.one_of(*_FUNCTIONS)(x, _as="function", _missing="no rising function before it")
    return op.MaxPool(made, _as="pool")


@pool_first.sound
def _(x: Tensor, function: Node, pool: Node) -> None:
    require(x.dtype == "float32", "it is not in float32")
    require(not pool.attrs.get("ceil_mode", 0), "a window may hold padding alone")
    rising = function.op_type != "Elu" or function.alpha >= 0.0
    require(rising, "the function falls somewhere")


@pool_first.worth
def _(pool: Node) -> None:
    steps = integers_of(pool, "strides", None)
    require(any(step > 1 for step in steps), "the pooling has no stride: nothing to gain")


@pool_first.replace_with
def _(op: Ops, x: Tensor, function: Node, pool: Node) -> Term:
    return op.like(function)(op.like(pool)(x, _name="pooled"), _name="function")


PLUGIN = RuleTransform(pool_first)
