"""A layer left out: what reads its result reads what the layer read.

    f(x)  →  x        f: a convolution or Gemm with its activation, from a shape to the same shape

Where half the width is no faster, since blocks of the device hold both or the time is that of
starting operators, a layer less is. It loses far more than a branch that is left out, so what
comes behind is solved anew and then trained; of a net with several such layers one or two can go.

Where only one side of it was padded to whole blocks, the padding goes: no layer reads it.

It must not fire where something else reads x too (a residual: `hold_branch` is for those), where
shapes differ otherwise, behind an input, at an output, or where no activation follows.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of, sole_user
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.channels.groups import Dependencies
from edgeopt.transforms.channels.padding import padded
from edgeopt.transforms.channels.removal import remove
from edgeopt.transforms.local_rule import producer_of, refuse

_WEIGHTED = frozenset({"Conv", "Gemm"})
_ACTIVATIONS = frozenset(
    {
        *(
            "Relu",
            "Clip",
            "LeakyRelu",
            "PRelu",
            "Elu",
            "Selu",
            "Sigmoid",
            "HardSigmoid",
            "HardSwish",
        ),
        *("Tanh", "Gelu", "Mish", "Softplus", "Swish"),
    }
)
_ENDS = _ACTIVATIONS | {"Mul"}
_BETWEEN = frozenset({"BatchNormalization"})


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer from the value that it reads to the one that its activation makes.

    Args:
        wider: Which of them has more channels than the other; None where both have as many.
        width: Channels of the other one.
    """

    source: ir.Value
    result: ir.Value
    wider: ir.Value | None = None
    width: int = 0


class DropLayer:
    """Approximate: a layer becomes nothing."""

    version = 1
    needs_data = False
    whole_model = False
    holds = True
    """Before channels go: what is behind is then narrowed as the shallower net needs it."""

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action a layer, by the value that its activation makes."""
        del offer
        dependencies = cache(lambda: Dependencies(model))

        def fits(layer: _Layer | Rejection) -> bool:
            if isinstance(layer, Rejection) or layer.wider is None:
                return isinstance(layer, _Layer)
            return padded(dependencies(), layer.wider, layer.width) is not None

        results = [node.outputs[0] for node in model.graph if node.op_type in _ENDS]
        return tuple(
            Action.of("drop_layer", value.name)
            for value in results
            if value.name and fits(_match(value))
        )

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Let its readers read what it read."""
        del evidence
        node = producer_of(editor.model, action.site)
        if node is None:
            return Rejection(reason=f"no node of the main graph computes {action.site!r}")
        found = _match(node.outputs[0])
        if isinstance(found, Rejection):
            return found
        if found.wider is not None:
            dependencies = Dependencies(editor.model)
            group = padded(dependencies, found.wider, found.width)
            if group is None:
                return refuse("it makes another shape than it reads", node)
            reason = remove(editor, dependencies, group, np.arange(found.width))
            if reason is not None:
                return refuse(reason, node)
        editor.replace_uses(found.result, found.source)
        editor.remove_dead([node])
        return action


def _match(result: ir.Value) -> _Layer | Rejection:
    end = result.producer()
    if end is None or end.domain or end.op_type not in _ENDS:
        return Rejection(reason="no activation makes it")
    node = _weighted_before(end)
    if node is None:
        return refuse("no convolution or Gemm that nothing else reads is before it", end)
    source = node.inputs[0]
    if source is None or source.producer() is None or array_of(source) is not None:
        return refuse("it is the first layer", node)
    if sole_user(source) is None:
        return refuse("something else reads what it reads", node)
    if result.is_graph_output():
        return refuse("it makes an output", node)
    return _beside(source, result) or refuse("it makes another shape than it reads", node)


def _weighted_before(end: ir.Node) -> ir.Node | None:
    """The layer whose only end is an activation; x · Sigmoid(x) is one too."""
    before = _gated(end) if end.op_type == "Mul" else end.inputs[0]
    users = 2 if end.op_type == "Mul" else 1
    while before is not None and len(before.uses()) == users and not before.is_graph_output():
        node = before.producer()
        if node is None or node.domain:
            return None
        if node.op_type in _WEIGHTED:
            return node
        if node.op_type not in _BETWEEN:
            return None
        before, users = node.inputs[0], 1
    return None


def _gated(product: ir.Node) -> ir.Value | None:
    """x of x · Sigmoid(x)."""
    for value, gate in (tuple(product.inputs), tuple(reversed(product.inputs))):
        node = None if gate is None else gate.producer()
        if node is not None and node.op_type == "Sigmoid" and node.inputs[0] is value:
            return value if gate is not None and sole_user(gate) is not None else None
    return None


def _beside(source: ir.Value, result: ir.Value) -> _Layer | None:
    """The layer, where shapes are the same but perhaps for the number of channels."""
    if source.shape is None or result.shape is None or source.dtype != result.dtype:
        return None
    read, made = list(source.shape), list(result.shape)
    if read == made:
        return _Layer(source, result)
    if len(read) < 2 or read[:1] + read[2:] != made[:1] + made[2:]:
        return None
    one, other = read[1], made[1]
    if not isinstance(one, int) or not isinstance(other, int):
        return None
    return _Layer(source, result, source if one > other else result, min(one, other))


PLUGIN = DropLayer()
