"""A smooth activation becomes Relu.

    f(x)  ≈  max(x, 0)        f: hard swish, swish, GELU, Mish, however they are spelled

The runtime computes Relu inside of the convolution, Gemm or integer layer before it; none of these.
In float a hard swish costs a pass over the map, in integers a GELU costs a way to float and back.
What reads the result is solved anew behind it (`least_squares`) or trained (`distil`): alone it
loses nearly everything, since no net has seen a Relu there.

It is one of them where it stays within 0.5 of Relu from -8 to 8, and is not Relu itself.

It must not fire where something else reads what the activation computes on its way, or where it is
an operator that the runtime fuses as well (Clip).
"""

import numpy as np
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.activations import POINTS, Activation, ending_at, is_elementwise, numbers
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.local_rule import producer_of, refuse

_FUSED = frozenset({"Relu", "Clip"})
"""A single one of these is fused by the runtime already."""
_APART, _EQUAL = 0.5, 1e-3


class ReluActivation:
    """Approximate: an activation becomes one that costs nothing."""

    version = 1
    needs_data = False
    whole_model = False
    holds = True
    """Before channels go: which ones are worth keeping is decided as the net then computes."""
    parts = 4
    """So many choices of a search, each for a run of neighbours: one alone gains a percent."""

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action an activation, by what it makes."""
        del offer
        found = (_match(model, node.outputs[0]) for node in model.graph if is_elementwise(node))
        return tuple(
            Action.of("relu_activation", one.result.name)
            for one in found
            if isinstance(one, Activation) and one.result.name
        )

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Compute Relu there."""
        del evidence
        node = producer_of(editor.model, action.site)
        if node is None:
            return Rejection(reason=f"no node of the main graph computes {action.site!r}")
        found = _match(editor.model, node.outputs[0])
        if isinstance(found, Rejection):
            return found
        made = new_node("Relu", [found.source], output=f"{action.site}/relu", like=found.result)
        editor.insert_after([made], after=node)
        editor.replace_value(found.result, made.outputs[0])
        editor.remove_dead([node])
        return action


def _match(model: ir.Model, result: ir.Value) -> Activation | Rejection:
    """The shortest activation that ends there and is near to Relu."""
    node = result.producer()
    for found in ending_at(result):
        if _is_smooth(model, found):
            return (
                refuse("something else reads its parts", *found.nodes)
                if found.is_watched
                else found
            )
    return refuse("what it makes of one value is not near to Relu", *([node] if node else []))


def _is_smooth(model: ir.Model, found: Activation) -> bool:
    """Whether its numbers are near to those of Relu, and not the same."""
    if len(found.nodes) == 1 and found.kinds <= _FUSED:
        return False
    made = numbers(model, found)
    return made is not None and _EQUAL < float(np.abs(made - np.maximum(POINTS, 0)).max()) <= _APART


PLUGIN = ReluActivation()
