"""A Sum of several values as a chain of Adds.

    Sum(a, b, c)  =  (a + b) + c

It must not fire on a Sum of one value.
Runtimes fuse the residual Add into a convolution and have integer kernels for it, for Sum neither;
Caffe2's exporter writes every residual connection as a Sum.
"""

import onnx_ir as ir

from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, refuse, site_of


def _match(root: ir.Node) -> ir.Node | Rejection:
    if len(root.inputs) < 2 or any(value is None for value in root.inputs):
        return refuse("it has one operand only", root)
    return root


def _rewrite(editor: Editor, root: ir.Node) -> None:
    old, name = root.outputs[0], f"{site_of(root)}/sum_to_add"
    total, steps = root.inputs[0], list[ir.Node]()
    for index, value in enumerate(root.inputs[1:], start=1):
        last = index == len(root.inputs) - 1
        steps.append(new_node("Add", [total, value], output=name if last else f"{name}/{index}"))
        total = steps[-1].outputs[0]
        total.type = old.type
    steps[-1].outputs[0].shape = old.shape
    editor.insert(steps, before=root)
    editor.replace_value(old, steps[-1].outputs[0])
    editor.remove_dead([root])


PLUGIN = LocalRule(
    name="sum_to_add", roots=frozenset({"Sum"}), match=_match, rewrite=_rewrite, opset=8
)
