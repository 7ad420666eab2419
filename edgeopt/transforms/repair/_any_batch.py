"""`any_batch`: a graph that was made for one sample takes any number of them.

Exporters and `freeze_shapes` write the one into the graph: into the shape of a Reshape, the sizes
of a Resize. A training on single samples takes twice the time of one on batches, so its copies of
the graphs say "as many as there are" instead.
"""

import numpy as np
import onnx_ir as ir

from edgeopt.graph.clone import cloned
from edgeopt.graph.editor import Editor, array_of
from edgeopt.transforms.local_rule import integer

_SIZES, _SCALES = 3, 2
"""Inputs of Resize."""
_OTHER_SIZES = frozenset({"axes", "keep_aspect_ratio_policy"})
"""Attributes of Resize with which sizes are something else."""


def any_batch(model: ir.Model) -> ir.Model:
    """A copy in which no shape names one as the size of a first axis that is one so far.

        Reshape (x [1, ...], [1, a, b])   becomes  Reshape (x, [0, a, b])
        Resize (x [1, ...], sizes s)      becomes  Resize (x, scales s / sizes of x)

    Left as it is where the sizes of x are not recorded, its first axis is another one, or the
    runtime would round other sizes from the scales. One sample gives what it gave. Whether
    the copy treats samples alike is for the caller to see: an axis of one need not be the samples'.

    Args:
        model: Sorted, without subgraphs; unchanged.
    """
    copy = cloned(model)
    editor = Editor(copy)
    for index, node in enumerate(list(copy.graph)):
        if node.op_type in ("Reshape", "Resize") and not node.domain and _is_one(node.inputs[0]):
            change = _reshape if node.op_type == "Reshape" else _resize
            change(editor, node, f"{node.outputs[0].name}~samples{index}")
    return copy


def _reshape(editor: Editor, node: ir.Node, name: str) -> None:
    target = array_of(node.inputs[1])
    if target is None or not len(target) or target[0] != 1 or integer(node, "allowzero", 0):
        return
    freed = np.array([0, *target[1:]], dtype=np.int64)
    node.replace_input_with(1, editor.initializer(name, freed))


def _resize(editor: Editor, node: ir.Node, name: str) -> None:
    sizes = array_of(node.inputs[_SIZES]) if len(node.inputs) > _SIZES else None
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if sizes is None or shape is None or sizes[0] != 1 or _OTHER_SIZES & set(node.attributes):
        return
    given = np.array([size for size in shape if isinstance(size, int)], dtype=np.float32)
    if len(given) != len(shape) or len(given) != len(sizes):
        return
    scales = sizes.astype(np.float32) / given
    if (np.floor(given * scales) != sizes).any():
        return
    node.replace_input_with(_SIZES, None)
    node.replace_input_with(_SCALES, editor.initializer(name, scales))


def _is_one(value: ir.Value | None) -> bool:
    shape = None if value is None else value.shape
    return shape is not None and len(shape) > 0 and shape[0] == 1
