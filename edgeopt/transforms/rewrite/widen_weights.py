"""Weights that are stored in half precision become the float32 that the layer reads.

    MatMul(x, Cast(w16, to = float32))  =  MatMul(x, w32),  w32 = float32(w16)

Widening is exact. The runtime does it when it loads the model, so nothing becomes faster, and the
file grows by the weight's size: it pays where the weight is then coded in 8 bits, which rules that
ask for a plain constant refuse behind a Cast. It must not fire on a Cast to another type or of
something computed, where no layer reads the result as its weight, or where it is an output.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, input_of, integer, refuse, site_of

_STORED = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
_LAYERS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN"})


@dataclass(frozen=True, slots=True)
class _Stored:
    node: ir.Node
    source: ir.Value


def _match(node: ir.Node) -> _Stored | Rejection:
    source, made = input_of(node, 0), node.outputs[0]
    if integer(node, "to", 0) != ir.DataType.FLOAT.value:
        return refuse("it is no Cast to float32", node)
    if source is None or not source.is_initializer() or source.is_graph_input():
        return refuse("it casts something that is no constant", node)
    if source.dtype not in _STORED:
        return refuse("its constant is not in half precision", node)
    if made.is_graph_output():
        return refuse("it makes an output of the graph", node)
    if not _weighs(made):
        return refuse("no layer reads it as its weight", node)
    return _Stored(node, source)


def _weighs(value: ir.Value) -> bool:
    """Whether a layer reads a value, or its transposed, behind its activation."""
    return any(
        (user.op_type in _LAYERS and index > 0)
        or (user.op_type == "Transpose" and _weighs(user.outputs[0]))
        for user, index in value.uses()
    )


def _rewrite(editor: Editor, found: _Stored) -> None:
    array = array_of(found.source)
    assert array is not None, "the match found a constant"
    wide = editor.initializer(f"{site_of(found.node)}__wide", array.astype(np.float32))
    editor.replace_uses(found.node.outputs[0], wide)
    editor.remove_dead([found.node])


PLUGIN = LocalRule(name="widen_weights", roots=frozenset({"Cast"}), match=_match, rewrite=_rewrite)
