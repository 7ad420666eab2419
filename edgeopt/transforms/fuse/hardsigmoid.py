"""A hard sigmoid spelled in up to four nodes, as the one operator.

    Clip(a · x + b, 0, c) / c  =  HardSigmoid(x, alpha = a/c, beta = b/c)        a > 0

With c = 6, a = 1, b = 3 this is the gate of squeeze-and-excite blocks. ONNX Runtime fuses
HardSigmoid into the convolution before it and leaves the spelled form as separate nodes, which
also break its blocked layout: 1.6 times faster for eight pointwise convolutions of 64 channels
at 28x28 that each end in one, 1.06 times where it gates 1x1 maps (ONNX Runtime 1.32, x86, one
thread).

It must not fire for a falling line (a <= 0), where the clipped value is used elsewhere too, for
a plain Clip(x, 0, 1) (which runtimes fuse as it is), where the product with x makes it a hard swish
(`hardswish` takes both at once), or on double precision.
It is imperative: the numbers may stand anywhere in a product of any length, which no pattern of a
fixed shape says.
"""

import onnx_ir as ir

from edgeopt.graph.editor import sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.fuse._gates import (
    Gate,
    Spelled,
    close,
    gates_of,
    is_sixth,
    spelled,
    step_of,
    write_operator,
)
from edgeopt.transforms.local_rule import LocalRule, refuse


def _match(root: ir.Node) -> Spelled | Rejection:
    clipped, number = root.outputs[0], 1.0
    if root.op_type != "Clip":
        step = step_of(clipped)
        if step is None or step.offset or sole_user(step.source) is None:
            return refuse("it does not scale a value of its own by a number", root)
        clipped, number = step.source, step.factor
    producer = clipped.producer()
    gates = gates_of(clipped) if producer is not None and producer.op_type == "Clip" else ()
    if not gates:
        return refuse("it is no clip from 0 of a rising line", root)
    gate = gates[0]
    if not close(number * gate.factor, 1, gate.source):
        return refuse("it does not end at 1", root)
    if gate.alpha == 1 and gate.beta == 0:
        return refuse("a plain clip is fused as it is", root)
    if any(_is_hard_swish(root, gate) for gate in gates):
        return refuse("its product with x is a hard swish", root)
    return spelled(root, "HardSigmoid", gate.source, alpha=gate.alpha, beta=gate.beta)


def _is_hard_swish(root: ir.Node, gate: Gate) -> bool:
    user = sole_user(root.outputs[0])
    product = user is not None and user.op_type == "Mul" and gate.source in user.inputs
    return product and is_sixth(gate)


PLUGIN = LocalRule(
    name="hardsigmoid",
    roots=frozenset({"Clip", "Mul", "Div"}),
    match=_match,
    rewrite=write_operator,
    opset=6,
)
