"""Hard swish, however an exporter spelled it, as the one operator that runtimes know.

    x · Clip(x + 3, 0, 6) / 6  =  HardSwish(x)

In every commuted and associated spelling: the division (or the product with 1/6) before, between
or after, the clip from 0 to 1 of x/6 + 1/2, and HardSigmoid(x, alpha=1/6, beta=1/2) · x.
ONNX Runtime fuses HardSwish into the convolution before it and leaves the spelled form as four
passes over memory: 1.45 times the speed of a whole MobileNetV3.

It must not fire below opset 14 (no HardSwish), where the gate's x is another value than the
factor, where an intermediate product is used elsewhere (it would be computed twice), with other
constants (that is another function), or on double precision, which the runtime has no kernel for.
It is imperative: the numbers may stand anywhere in a product of any length, which no pattern of a
fixed shape says.
"""

import onnx_ir as ir

from edgeopt.graph.editor import sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.fuse._gates import (
    Spelled,
    close,
    factors_of,
    gates_of,
    is_sixth,
    spelled,
    write_operator,
)
from edgeopt.transforms.local_rule import LocalRule, refuse


def _match(root: ir.Node) -> Spelled | Rejection:
    factors, number = factors_of(root.outputs[0])
    if len(factors) != 2:
        return refuse("it is no product of two values", root)
    for source, other in (tuple(factors), tuple(reversed(factors))):
        gate = next((gate for gate in gates_of(other) if gate.source is source), None)
        if gate is None:
            continue
        if not is_sixth(gate) or not close(number * gate.factor, 1, source):
            return refuse("it has other constants than hard swish", root)
        if sole_user(other) is None:
            return refuse("the gate is used elsewhere too", root)
        return spelled(root, "HardSwish", source)
    return refuse("neither factor is a hard sigmoid of the other", root)


PLUGIN = LocalRule(
    name="hardswish",
    roots=frozenset({"Mul", "Div"}),
    match=_match,
    rewrite=write_operator,
    opset=14,
)
