"""LSTM, GRU and RNN: hidden units, the same ones in both directions; attention of the runtime."""

import numpy as np
import onnx_ir as ir

from edgeopt.transforms.channels.edits import Count
from edgeopt.transforms.channels.labels import Axis, Labels
from edgeopt.transforms.channels.rules.sizes import entries, fix
from edgeopt.transforms.channels.walk import CONTRIB, Walk, constant_shape, is_constant, rule

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_STATES = (5, 6)
_PEEPHOLES = 7


@rule("LSTM", "GRU", "RNN", opens=True)
def recurrent(walk: Walk, node: ir.Node) -> str | None:
    """W [directions, gates * hidden, in], R [..., hidden], B [directions, 2 * gates * hidden]."""
    source, shape = node.inputs[0], constant_shape(node.inputs[2])
    if source is None or shape is None or constant_shape(node.inputs[1]) is None:
        return "its weights are computed"
    if node.attributes.get_int("layout", 0):
        return "its batch comes first"
    axes, gates = walk.of(source), _GATES[node.op_type]
    walk.freeze(axes[:2], "a recurrent layer has them as time or batch")
    if axes and not walk.cut(node, 1, 2, axes[2], reads=(source, 2)):
        return "its weights are computed"
    made, hidden = node.outputs[0], shape[2]
    owner = next((value for value in node.outputs if value.name), made)
    atoms = walk.open(owner, hidden, shape[0])
    walk.cut(node, 1, 1, (np.tile(atoms, gates),))
    walk.cut(node, 2, 1, (np.tile(atoms, gates),))
    if made.name:
        walk.cut(node, 2, 2, (atoms,), reads=(made, 3))
    else:
        walk.cut(node, 2, 2, (atoms,), reading=True)
    for index, times in ((3, 2 * gates), (_PEEPHOLES, 3)):
        if not walk.cut_if_there(node, index, (np.tile(atoms, times),)):
            return "its weights are computed"
    walk.edits.append(Count(node, "hidden_size", (atoms,)))
    for index in _STATES:
        _state(walk, node, index, atoms)
    for value, rank in zip(node.outputs, (4, 3, 3), strict=False):
        walk.put(value, (*((),) * (rank - 1), (atoms,)))
    return None


def _state(walk: Walk, node: ir.Node, index: int, atoms: Labels) -> None:
    """The state that a recurrent layer begins with [directions, batch, hidden]."""
    value = node.inputs[index] if len(node.inputs) > index else None
    if value is None:
        return
    axis: Axis = (atoms,)
    reason = f"the state that {node.outputs[0].name!r} begins with has them"
    maker = value.producer()
    if is_constant(value):
        if not walk.cut_if_there(node, index, axis):
            walk.freeze((axis,), reason)
    elif maker is not None and maker.op_type in ("ConstantOfShape", "Expand"):
        operand = 0 if maker.op_type == "ConstantOfShape" else 1
        found = entries(walk, maker, operand)
        single = maker.op_type == "ConstantOfShape" or constant_shape(maker.inputs[0]) in ((), (1,))
        alone = len(value.uses()) == 1 or all(user is node for user, _ in value.uses())
        fits = found is not None and len(found) == 3 and single and alone
        if not fits or fix(walk, maker, operand, ((), (), axis)) is not None:
            walk.freeze((axis,), reason)
    else:
        held = walk.of(value)
        if len(held) == 3 and held[2]:
            walk.tie(axis, held[2], reason)
        else:
            walk.freeze((axis,), reason)


@rule("Attention", domain=CONTRIB, opens=True)
def attention(walk: Walk, node: ir.Node) -> str | None:
    """Weight [in, 3 * heads * size]: query, key and value side by side; heads go whole."""
    source, shape = node.inputs[0], constant_shape(node.inputs[1])
    heads = node.attributes.get_int("num_heads", 0)
    if source is None or shape is None or not heads or not is_constant(node.inputs[2]):
        return "its weights are computed"
    more = [value for value in node.inputs[4:] if value is not None]
    if more or len([v for v in node.outputs if v.name]) > 1:
        return "it has a past, or a bias of its own"
    if "qkv_hidden_sizes" in node.attributes or "past_present_share_buffer" in node.attributes:
        return "its parts are of different sizes"
    axes = walk.of(source)
    if axes and not walk.cut(node, 1, 0, axes[-1], reads=(source, len(axes) - 1)):
        return "its weights are computed"
    size = shape[1] // (3 * heads)
    atoms = walk.open(node.outputs[0], heads, size)
    whole = np.repeat(atoms, size)
    walk.cut(node, 1, 1, (np.tile(whole, 3),))
    walk.cut(node, 2, 0, (np.tile(whole, 3),))
    walk.edits.append(Count(node, "num_heads", (atoms,)))
    walk.put(node.outputs[0], ((), (), (whole,)))
    return None


@rule("MultiHeadAttention", domain=CONTRIB)
def multi_head(walk: Walk, node: ir.Node) -> str | None:
    """Query, key and value [batch, time, heads * size] as three operands; heads go whole."""
    heads = node.attributes.get_int("num_heads", 0)
    three = [walk.of(value) for value in node.inputs[:3]]
    more = [value for value in node.inputs[5:] if value is not None]
    if len(three) < 3 or any(len(axes) != 3 for axes in three) or more or not heads:
        return "its operands are packed, or it has a past"
    if len([v for v in node.outputs if v.name]) > 1:
        return "it has a past"
    lasts = [axes[2] for axes in three]
    if any(len(axis) != 1 or len(axis[0]) % heads for axis in lasts):
        return "one of its operands stays"
    rows = [walk.tie_rows(axis[0].reshape(heads, -1)) for axis in lasts]
    tied: Axis = (rows[0],)
    for row in rows[1:]:
        tied = walk.tie(tied, (row,), "a head keeps its query, key or value")
    sizes = [len(axis[0]) // heads for axis in lasts]
    spread = [np.repeat(tied[0], size) for size in sizes]
    if not walk.cut_if_there(node, 3, (np.concatenate(spread),)):
        return "its bias is computed"
    walk.edits.append(Count(node, "num_heads", tied))
    walk.put(node.outputs[0], (three[0][0], three[0][1], (spread[2],)))
    return None
