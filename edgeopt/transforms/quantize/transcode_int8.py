"""uint8 codes around 128 become int8 codes around 0, bit for bit, in a model that came quantized.

    scale * (code - 128), code in uint8   =   scale * (code' - 0), code' = code - 128 in int8

Both types saturate at the same real values and round in the same way, so nothing changes but the
type, and TensorRT, which takes zero points of 0 only, can have the model. Zero points other than
128 have no such twin and are left: a model that has them needs its float original.

Codes are followed from their QuantizeLinear or constant through operators that only move them to
every DequantizeLinear that reads them; all of these have 128, or none of them is changed. Codes
that are inputs or outputs of the model stay: they are its contract.
"""

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of
from edgeopt.transforms.base import Evidence, Offer, Rejection

NAME = "transcode_int8"
_MOVING = frozenset(
    {
        *("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Split"),
        *("Identity", "MaxPool", "Gather", "DepthToSpace", "SpaceToDepth"),
    }
)
"""They copy codes, or order them; MaxPool pads with the lowest code of either type."""
_MIDDLE = 128


class TranscodeInt8:
    """A quantized model in symmetric types."""

    version = 1
    needs_data = False
    whole_model = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """The whole model, where the device wants zero points of 0 and codes lie around 128."""
        types = offer.profile.quantization
        if types is None or not types.symmetric or not any(_carriers(model)):
            return ()
        return (Action.of(NAME, "*"),)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Put the model with int8 codes in the place of the editor's."""
        del evidence
        if not any(_carriers(editor.model)):
            return Rejection(reason="it has no uint8 codes with zero point 128")
        editor.replace_model(symmetric_form(editor.model))
        return action


PLUGIN = TranscodeInt8()


def symmetric_form(model: ir.Model) -> ir.Model:
    """A clone in which uint8 codes around 128 are int8 codes around 0; outputs are the same."""
    made = model.clone()
    for values in _carriers(made):
        for value in values:
            _shift(made.graph, value)
    return made


def _carriers(model: ir.Model) -> Iterator[list[ir.Value]]:
    """Sets of values that hold the same kind of uint8 codes, all of them around 128."""
    seen: set[ir.Value] = set()
    for node in model.graph:
        if node.op_type != "DequantizeLinear" or node.inputs[0] is None:
            continue
        if node.inputs[0] in seen:
            continue
        together = _together(node.inputs[0])
        seen |= set(together)
        if all(map(_may_shift, together)):
            yield together


def _together(start: ir.Value) -> list[ir.Value]:
    """All values that the codes of one of them pass through."""
    found: dict[ir.Value, None] = {}
    waiting = [start]
    while waiting:
        value = waiting.pop()
        if value in found:
            continue
        found[value] = None
        made = value.producer()
        if made is not None and made.op_type in _MOVING:
            waiting += [given for given in made.inputs[:1] if given is not None]
        for user, index in value.uses():
            if user.op_type in _MOVING and index == 0:
                waiting += user.outputs[:1] if user.op_type == "MaxPool" else user.outputs
    return list(found)


def _may_shift(value: ir.Value) -> bool:
    """Whether everything that makes and reads these codes says 128."""
    if value.is_graph_input() or value.is_graph_output():
        return False
    made = value.producer()
    if made is None:
        held = array_of(value)
        if held is None or held.dtype != np.uint8:
            return False
    elif made.op_type == "QuantizeLinear":
        if not _around_middle(made):
            return False
    elif made.op_type not in _MOVING:
        return False
    return all(
        (user.op_type == "DequantizeLinear" and index == 0 and _around_middle(user))
        or (user.op_type in _MOVING and index == 0)
        for user, index in value.uses()
    )


def _around_middle(node: ir.Node) -> bool:
    zero = array_of(node.inputs[2]) if len(node.inputs) > 2 else None
    return zero is not None and zero.dtype == np.uint8 and bool((zero == _MIDDLE).all())


def _shift(graph: ir.Graph, value: ir.Value) -> None:
    """Write int8 in the place of uint8 at a value, and at the zero points of who reads it."""
    made = value.producer()
    if made is not None and made.op_type == "QuantizeLinear":
        _set_zero(graph, made)
        # From opset 21 on it may say uint8 as well; the zero point says the type alone.
        made.attributes.pop("output_dtype", None)
    for user, _ in value.uses():
        if user.op_type == "DequantizeLinear":
            _set_zero(graph, user)
    held = array_of(value) if made is None else None
    if held is not None:
        codes = (held.astype(np.int16) - _MIDDLE).astype(np.int8)
        value.const_value = ir.Tensor(codes, name=value.name)
    value.type = ir.TensorType(ir.DataType.INT8)


def _set_zero(graph: ir.Graph, node: ir.Node) -> None:
    old = node.inputs[2]
    assert old is not None, "it was 128"
    zero = array_of(old)
    if zero is None or zero.dtype == np.int8:
        return
    name = f"{old.name}__int8"
    held = graph.initializers.get(name)
    if held is None:
        held = ir.Value(name=name, type=ir.TensorType(ir.DataType.INT8), shape=old.shape)
        held.const_value = ir.Tensor(np.zeros(zero.shape, np.int8), name=name)
        graph.register_initializer(held)
    node.replace_input_with(2, held)
    if old.is_initializer() and not old.uses() and not old.is_graph_output():
        graph.initializers.pop(old.name or "")
