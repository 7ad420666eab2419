"""An embedding table as signed integers, dequantized behind the Gather: a quarter of its size.

Gather(table, indices) becomes DequantizeLinear(Gather(codes, indices)), exact in the indices. With
granularity `column` there is one scale a column of the table, with `tensor` one for all. For size:
a three-layer BERT went from 69 to 33 MB at 0.95 to 1.02 of its speed. Must not fire on axes other
than the first, on tables that anything but a Gather reads (the float table would stay), on small
ones, or below opset 13 (no scale a column).
"""

import numpy as np
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.groups import hold_groups, name_of
from edgeopt.transforms.local_rule import integer, opset_of, producer_of, refuse
from edgeopt.transforms.quantize._codes import Kind, coded_weight, float_weight

NAME = "embedding_int8"
OPSET_NEEDED = 13
LEAST_ELEMENTS = 4096


class EmbeddingInt8:
    """Integer tables; one action a table, for all the Gathers that read it."""

    version = 1
    needs_data = False
    whole_model = False
    scheme = "size_int8"

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action a table, named after the first Gather that reads it."""
        types = offer.profile.quantization
        if types is None or opset_of(model) < OPSET_NEEDED:
            return ()
        granularity = "column" if types.per_channel else "tensor"
        firsts = [n for n in model.graph if _refused(n) is None and _gathers(n)[0] is n]
        names = [name_of(node.outputs[0]) for node in firsts]
        return tuple(Action.of(NAME, name, granularity=granularity) for name in names)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Replace the table in all the Gathers that read it."""
        del evidence
        node = producer_of(editor.model, action.site)
        if node is None:
            return Rejection(reason=f"no node of the main graph computes {action.site!r}")
        if opset_of(editor.model) < OPSET_NEEDED:
            return Rejection(reason=f"a scale a column needs opset {OPSET_NEEDED}")
        refused = _refused(node)
        if refused is not None:
            return refused
        hold_groups(editor.model)
        return _quantize(editor, node, action)


PLUGIN = EmbeddingInt8()


def _refused(node: ir.Node) -> Rejection | None:
    if node.op_type != "Gather" or node.domain not in ("", "ai.onnx"):
        return refuse("it is no Gather", node)
    table = node.inputs[0]
    array = float_weight(table)
    if table is None or array is None:
        return refuse("it does not read a plain float32 constant", node)
    if array.ndim != 2 or array.size < LEAST_ELEMENTS:
        return refuse("it reads no large table", node)
    if any(integer(user, "axis", 0) or user.op_type != "Gather" for user, _ in table.uses()):
        return refuse("its table is also read otherwise than by rows", node)
    if any(user.graph is not node.graph for user, _ in table.uses()) or table.is_graph_output():
        return refuse("its table is also read outside of this graph", node)
    return None


def _gathers(node: ir.Node) -> list[ir.Node]:
    """All nodes that read the same table, in graph order."""
    table = node.inputs[0]
    assert table is not None
    users = {user for user, _ in table.uses()}
    graph = node.graph
    return [node] if graph is None else [one for one in graph if one in users]


def _quantize(editor: Editor, node: ir.Node, action: Action) -> Action | Rejection:
    table = node.inputs[0]
    assert table is not None
    by_column = action.get("granularity") == "column"
    kind = Kind(dtype="int8", per_channel=by_column, reduce_range=False)
    coded = coded_weight(table, kind, (1,))
    if coded is None:
        return refuse("its table is not finite", node)
    role = f"{table.name}__{kind.tag}"
    codes = editor.initializer(role, coded.codes)
    scale = editor.initializer(f"{role}_scale", np.asarray(coded.scale, np.float32))
    axis = {"axis": -1} if by_column else None
    found = _gathers(node)
    for gather in found:
        made = gather.outputs[0]
        name = name_of(made)
        rows = new_node("Gather", [codes, gather.inputs[1]], output=f"{name}__codes")
        rows.outputs[0].type, rows.outputs[0].shape = codes.type, made.shape
        values = [rows.outputs[0], scale]
        real = new_node(
            "DequantizeLinear", values, output=f"{name}__real", attributes=axis, like=made
        )
        editor.insert([rows, real], before=gather)
        editor.replace_value(made, real.outputs[0])
    editor.remove_dead(found)
    return action
