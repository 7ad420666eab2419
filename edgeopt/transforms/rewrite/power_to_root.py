"""A power of one half as a square root, of minus one half as one over it.

    Pow(x, 1/2)  =  Sqrt(x)          x >= 0          Pow(x, -1/2)  =  1 / Sqrt(x)          x > 0

It must not fire where x may be negative (Pow(-inf, 1/2) is inf and Sqrt is NaN; a variance plus
epsilon, what follows a Relu and squares are not), or zero at an exponent of -1/2 (of a zero with a
sign Pow is inf, and one over its root -inf; a value and a positive constant have none), on another
exponent, on one of a higher rank than x, or where the exponent is computed.
Imperative, since the sign follows from nodes of any number. ONNX Runtime does nothing of it;
measured 8.5 on the operator.
"""

import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.fuse._gates import TYPES, scalar
from edgeopt.transforms.local_rule import LocalRule, input_of, refuse
from edgeopt.transforms.rewrite._around import Steps
from edgeopt.transforms.rewrite._sign import is_above_zero, is_nonnegative

_HALF = 0.5


def _match(root: ir.Node) -> ir.Node | Rejection:
    source, exponent = input_of(root, 0), input_of(root, 1)
    if source is None or source.dtype not in TYPES:
        return refuse("it is not in floating point", root)
    if array_of(exponent) is None:
        return refuse("the exponent is computed", root)
    number = scalar(exponent, source)
    if number is None or abs(number) != _HALF:
        return refuse("the exponent is not 0.5 or -0.5", root)
    if not is_nonnegative(source):
        return refuse("it may be negative", root)
    if number < 0 and not is_above_zero(source):
        return refuse("it may be zero", root)
    return root


def _rewrite(editor: Editor, root: ir.Node) -> None:
    steps = Steps(editor, "power_to_root", root)
    shape = root.outputs[0].shape
    made = steps.add("root", "Sqrt", [root.inputs[0]], shape)
    if (scalar(root.inputs[1], root.inputs[0]) or 0.0) < 0:
        steps.add("inverse", "Reciprocal", [made], shape)
    steps.finish()


PLUGIN = LocalRule(
    name="power_to_root", roots=frozenset({"Pow"}), match=_match, rewrite=_rewrite, opset=7
)
