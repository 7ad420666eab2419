"""A square as a product.

    Pow(x, 2)  =  x · x

It must not fire on another exponent, on one of a higher rank than x (it would change the shape),
on integers (some runtimes have no product of their type), where the exponent is computed, or
where a mean is taken of it: that is a variance, and runtimes know normalizations by this Pow.
Quantizers and fusions know Mul, not Pow.
"""

import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, new_node
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.fuse._gates import scalar
from edgeopt.transforms.local_rule import LocalRule, input_of, refuse, site_of

_TYPES = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE})
_SQUARE = 2.0


def _match(root: ir.Node) -> ir.Node | Rejection:
    source, exponent = input_of(root, 0), input_of(root, 1)
    if source is None or source.dtype not in _TYPES:
        return refuse("it is not in floating point", root)
    if array_of(exponent) is None:
        return refuse("the exponent is computed", root)
    if scalar(exponent, source) != _SQUARE:
        return refuse("the exponent is not 2.0", root)
    if any(user.op_type == "ReduceMean" for user, _ in root.outputs[0].uses()):
        return refuse("its mean is a variance", root)
    return root


def _rewrite(editor: Editor, root: ir.Node) -> None:
    source, old = root.inputs[0], root.outputs[0]
    name = f"{site_of(root)}/pow2_to_mul"
    made = new_node("Mul", [source, source], output=name, like=old)
    editor.insert([made], before=root)
    editor.replace_value(old, made.outputs[0])
    editor.remove_dead([root])


PLUGIN = LocalRule(
    name="pow2_to_mul", roots=frozenset({"Pow"}), match=_match, rewrite=_rewrite, opset=7
)
