"""Codes that several float nodes read, dequantized once for all of them.

The runtime gives every reader of a DequantizeLinear one of its own before it fuses anything
(EnsureUniqueDQForNodeUnit). What reads one value twice then reads two values: a GELU spelled by
Erf, of which a text recogniser has thirteen, stays five operators of floats, and its integer
kernels gain nothing (onnxruntime 1.32, one x86 core: 1.8 times the float model instead of 1.5).
A Sum of one operand is one reader for all, and stays (an Identity is taken away, and so is the gain
of a Reshape, above which the conversion to floats is moved). It costs what the second
DequantizeLinear does, 9 us for 50 thousand elements.
"""

from collections.abc import Collection

import onnx_ir as ir

from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.groups import name_of


def read_once(
    editor: Editor, made: ir.Value, dequantized: ir.Value, members: Collection[str]
) -> None:
    """Let nodes that stay float whatever is quantized read the floats of codes through one node.

    Args:
        editor: Of the graph.
        made: What the codes are of.
        dequantized: The same in float again.
        members: Names of all nodes in groups. They may become integer, so they read the pair.
    """
    readers = [
        (user, index)
        for user, index in dequantized.uses()
        if name_of(user.outputs[0]) not in members
    ]
    source = dequantized.producer()
    if len(readers) <= 1 or source is None or dequantized.is_graph_output():
        return
    once = new_node("Sum", [dequantized], output=f"{name_of(made)}__once", like=dequantized)
    editor.insert_after([once], after=source)
    for user, index in readers:
        editor.set_input(user, index, once.outputs[0])
