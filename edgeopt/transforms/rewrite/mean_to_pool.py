"""The mean over all positions as a pooling operator.

    ReduceMean(x, all axes behind the channels, keepdims)  =  GlobalAveragePool(x)
    AveragePool(x, kernel as large as x)                   =  GlobalAveragePool(x)

Runtimes keep the pooling operator in the blocked layout of convolutions and in integers; a
ReduceMean of codes is computed in float, after a conversion and a transposition of the whole map
(five of them are 5 % of a quantized text recogniser, onnxruntime 1.32).

It must not fire where the pooling's kernel is another or it pads, where the axes are not exactly
the spatial ones or not known, where dimensions are dropped, on types that have no pooling, or
below four axes: the mean over the last of three is that of a layer normalization, which runtimes
know by its ReduceMean.
"""

import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, new_node
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import (
    LocalRule,
    input_of,
    integer,
    integers,
    refuse,
    site_of,
    word,
)

_PLANES = 4
_NO_PADS = ("NOTSET", "VALID")
_TYPES = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16})


def _match(node: ir.Node) -> ir.Node | Rejection:
    source = input_of(node, 0)
    if source is None or source.shape is None or len(source.shape) < _PLANES:
        return refuse("what it reads does not hold planes", node)
    if node.op_type == "AveragePool":
        return node if _is_whole(node) else refuse("it does not pool all positions at once", node)
    if not integer(node, "keepdims", 1):
        return refuse("it drops the dimensions", node)
    axes = _axes(node)
    if axes is None:
        return refuse("its axes are no constants", node)
    rank = len(source.shape)
    if sorted(axis % rank for axis in axes) != list(range(2, rank)):
        return refuse("its axes are not the spatial ones", node)
    if source.dtype not in _TYPES:
        return refuse(f"there is no pooling of {source.dtype}", node)
    return node


def _is_whole(pool: ir.Node) -> bool:
    source, made = pool.inputs[0], pool.outputs[0].shape
    if source is None or source.shape is None or made is None or source.dtype not in _TYPES:
        return False
    plain = not any(integers(pool, "pads")) and word(pool, "auto_pad", "NOTSET") in _NO_PADS
    plain = plain and all(step == 1 for step in integers(pool, "dilations"))
    whole = tuple(source.shape[2:]) == integers(pool, "kernel_shape")
    return plain and whole and all(size == 1 for size in made[2:])


def _axes(node: ir.Node) -> tuple[int, ...] | None:
    """Axes from the attribute (below opset 18) or the second input; None where computed."""
    if input_of(node, 1) is None:
        return integers(node, "axes")
    found = array_of(input_of(node, 1))
    return None if found is None else tuple(int(axis) for axis in found.reshape(-1))


def _rewrite(editor: Editor, node: ir.Node) -> None:
    old, source = node.outputs[0], node.inputs[0]
    made = new_node("GlobalAveragePool", [source], output=f"{site_of(node)}/mean_to_pool", like=old)
    editor.insert([made], before=node)
    editor.replace_value(old, made.outputs[0])
    editor.remove_dead([node])


PLUGIN = LocalRule(
    name="mean_to_pool",
    roots=frozenset({"ReduceMean", "AveragePool"}),
    match=_match,
    rewrite=_rewrite,
)
