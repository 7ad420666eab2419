"""Weights as signed integers with a DequantizeLinear, for operators without an integer kernel.

Size only: the arithmetic stays float, so nothing becomes faster. Convolution transposed, GRU, RNN,
and LSTM where operators of `com.microsoft` are not allowed. One scale an output channel. Must not
fire on weights that are not float32 constants, on small ones, or below opset 13.
"""

import numpy as np
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.base import Evidence, Offer, Rejection, Transform
from edgeopt.transforms.groups import hold_groups
from edgeopt.transforms.local_rule import input_of, opset_of, refuse
from edgeopt.transforms.quantize._codes import Kind, coded_weight, float_weight
from edgeopt.transforms.quantize.dynamic_lstm import recurrent_node, recurrent_site
from edgeopt.transforms.stages import transform_of

NAME = "weight_only_int8"
OPSET_NEEDED = 13
LEAST_ELEMENTS = 256
_RECURRENT = frozenset({"GRU", "RNN", "LSTM"})
_KIND = Kind(dtype="int8", per_channel=True, reduce_range=False)


class WeightOnlyInt8:
    """Integer weights in the file, float weights in the arithmetic."""

    version = 1
    needs_data = False
    whole_model = False
    scheme = "size_int8"

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action a node that has no integer kernel."""
        if offer.profile.quantization is None or opset_of(model) < OPSET_NEEDED:
            return ()
        nodes = [node for node in model.graph if _refused(node) is None]
        dynamic: Transform = transform_of("dynamic_lstm")[1]
        faster = {action.site for action in dynamic.sites(model, offer)}
        names = dict.fromkeys(recurrent_site(node) for node in nodes)
        return tuple(Action.of(NAME, name) for name in names if name not in faster)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Put the weights of a node behind DequantizeLinear."""
        del evidence
        node = recurrent_node(editor.model, action.site)
        if node is None:
            return Rejection(reason=f"no node computes {action.site!r}")
        if opset_of(editor.model) < OPSET_NEEDED:
            return Rejection(reason=f"a scale a channel needs opset {OPSET_NEEDED}")
        refused = _refused(node)
        if refused is not None:
            return refused
        hold_groups(editor.model)
        for index in _weights(node):
            if not _dequantized(editor, node, index):
                return refuse("its weight is not finite", node)
        return action


PLUGIN = WeightOnlyInt8()


def _weights(node: ir.Node) -> tuple[int, ...]:
    return (1, 2) if node.op_type in _RECURRENT else (1,)


def _refused(node: ir.Node) -> Rejection | None:
    plain = node.domain in ("", "ai.onnx")
    if not plain or node.op_type not in _RECURRENT | {"ConvTranspose"}:
        return refuse("it has an integer kernel or no weight", node)
    arrays = [float_weight(input_of(node, index)) for index in _weights(node)]
    if any(array is None or array.ndim < 3 for array in arrays):
        return refuse("its weights are not plain float32 constants", node)
    if sum(array.size for array in arrays if array is not None) < LEAST_ELEMENTS:
        return refuse("its weights are too small to matter", node)
    return None


def _dequantized(editor: Editor, node: ir.Node, index: int) -> bool:
    """Axis 1 runs over output channels in both kinds; directions of an RNN share a scale."""
    weight = node.inputs[index]
    assert weight is not None
    coded = coded_weight(weight, _KIND, (1,))
    if coded is None:
        return False
    role = f"{weight.name}__{_KIND.tag}_only"
    codes = editor.initializer(role, coded.codes)
    scale = editor.initializer(f"{role}_scale", np.asarray(coded.scale, np.float32))
    name = f"{recurrent_site(node)}__weight{index}"
    made = new_node(
        "DequantizeLinear", [codes, scale], output=name, attributes={"axis": 1}, like=weight
    )
    editor.insert([made], before=node)
    editor.set_input(node, index, made.outputs[0])
    if not weight.uses() and weight.is_initializer() and not weight.is_graph_output():
        editor.drop_initializer(weight)
    return True
