"""Float layers between integers, so that they stay float.

A layer that nobody quantized, between a DequantizeLinear and a QuantizeLinear, gets integer weights
from the runtime itself (WeightBiasQuantization, at level `basic`; a Relu or Clip in between is
taken away first), and what was left in float for its accuracy runs in integers after all. A Min
between its result and the quantizer, which cuts where the codes end anyway, ends that and changes
no code. It costs one pass over the result (5 us for 50 thousand elements), so it stands only where
a layer is enclosed.
"""

from collections.abc import Iterable, Iterator

import onnx_ir as ir

from edgeopt.graph.editor import Editor
from edgeopt.transforms.groups import (
    FUSED,
    activations,
    float_users,
    is_bias,
    is_bound,
    is_quantized,
    is_weighted,
    name_of,
    through,
)
from edgeopt.transforms.quantize._plan import Plan
from edgeopt.transforms.quantize._pools import write_bound


def take_borders(editor: Editor, plan: Plan, names: Iterable[str]) -> None:
    """Take the borders behind nodes of a group away, which is about to be quantized."""
    for node in (plan.nodes[name] for name in names):
        for value in node.outputs:
            for user, _ in tuple(value.uses()):
                if is_bound(user):
                    _remove(editor, value, user)


def keep_borders(editor: Editor, plan: Plan, names: Iterable[str], dtype: str) -> None:
    """Put borders behind float layers that a group encloses, and take those of others away.

    Args:
        editor: Of the graph, after the group was quantized.
        plan: Of that graph.
        names: First outputs of the group's members in the float graph.
        dtype: Of activations.
    """
    for node in dict.fromkeys(_around(plan, names)):
        end = _end(node)
        bound = next((user for user, _ in end.uses() if is_bound(user)), None)
        wanted = _is_enclosed(node, end)
        if wanted and bound is None:
            _insert(editor, plan, end, dtype)
        elif bound is not None and not wanted:
            _remove(editor, end, bound)


def _around(plan: Plan, names: Iterable[str]) -> Iterator[ir.Node]:
    """Weighted nodes of a group, and those before and behind it."""
    for node in (plan.nodes[name] for name in names):
        if node.graph is None:
            continue
        if is_weighted(node):
            yield node
        for _, value in activations(node):
            before = _layer(through(value).producer())
            if before is not None:
                yield before
        for output in node.outputs:
            for user in float_users(output):
                # Behind a GELU in integers too, which belongs to the layer before it.
                behind = (one for made in user.outputs for one in float_users(made))
                yield from (one for one in (user, *behind) if is_weighted(one))


def _layer(node: ir.Node | None) -> ir.Node | None:
    """The weighted node whose result, behind what is folded into it, a node makes."""
    while node is not None and (node.op_type in FUSED or is_bias(node)):
        source = next((value for _, value in activations(node)), None)
        node = None if source is None else source.producer()
    return node if node is not None and is_weighted(node) else None


def _end(node: ir.Node) -> ir.Value:
    """The result of a layer, behind what is folded into it."""
    value = node.outputs[0]
    while not value.is_graph_output():
        users = [user for user, _ in value.uses()]
        if len(users) != 1 or not (users[0].op_type in FUSED or is_bias(users[0])):
            break
        value = users[0].outputs[0]
    return value


def _is_enclosed(node: ir.Node, end: ir.Value) -> bool:
    """Whether a layer stands in float between integers on both sides."""
    source = node.inputs[0]
    before = None if source is None else source.producer()
    if before is None or before.op_type != "DequantizeLinear" or is_quantized(node):
        return False
    if node.op_type == "MatMul" and end is node.outputs[0]:
        return False
    users = [user for user, _ in end.uses()]
    coded = all(user.op_type == "QuantizeLinear" or is_bound(user) for user in users)
    return bool(users) and coded and not end.is_graph_output()


def _insert(editor: Editor, plan: Plan, end: ir.Value, dtype: str) -> None:
    coded, made = plan.scale(name_of(end), dtype), end.producer()
    if coded is None or made is None:
        return
    bound = write_bound(editor, end, coded)
    readers = list(end.uses())
    editor.insert_after([bound], after=made)
    for user, index in readers:
        if user is not bound:
            editor.set_input(user, index, bound.outputs[0])


def _remove(editor: Editor, end: ir.Value, bound: ir.Node) -> None:
    editor.replace_uses(bound.outputs[0], end)
    editor.remove_dead([bound])
