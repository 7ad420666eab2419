"""A smooth activation becomes Relu.

    f(x)  ≈  max(x, 0)        f: hard swish, swish, GELU, Mish, however they are spelled

The runtime computes Relu inside of the convolution, Gemm or integer layer before it; none of these.
In float a hard swish costs a pass over the map, in integers a GELU costs a way to float and back.
What reads the result is solved anew behind it (`least_squares`) or trained (`distil`): alone it
loses nearly everything, since no net has seen a Relu there.

It is one of them where it stays within 0.5 of Relu from -8 to 8, and is not Relu itself. Where
samples show what it reads, and a layer makes that for nothing else, the Relu is moved and scaled
to be near to it (`_matched_relu`): what is below 0 would be lost otherwise.

It must not fire where something else reads what the activation computes on its way, or where it is
an operator that the runtime fuses as well (Clip).
"""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.activations import POINTS, Activation, ending_at, is_elementwise, numbers
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.calibration.moments import Moments, Wanted
from edgeopt.transforms.local_rule import producer_of, refuse
from edgeopt.transforms.prune._matched_relu import matched
from edgeopt.transforms.repair._weighted import Weighted, weighted
from edgeopt.transforms.restated import Restated, layer_of, restate, shift_bias

_FUSED = frozenset({"Relu", "Clip"})
"""A single one of these is fused by the runtime already."""
_APART, _EQUAL = 0.5, 1e-3
_FITTED = ("factor", "shift", "constant")
_KEY = "edgeopt.prune.relu_activation"


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
        node = producer_of(editor.model, action.site)
        if node is None:
            return Rejection(reason=f"no node of the main graph computes {action.site!r}")
        found = _match(editor.model, node.outputs[0])
        if isinstance(found, Rejection):
            return found
        fitted = _fitted(editor.model, found, action, evidence)
        if fitted is not None:
            layer, readers, figures = fitted
            restate(editor, layer, Restated(figures["factor"], figures["shift"]))
            for reader in readers:
                shift_bias(editor, reader, _passed_on(reader, figures["constant"]))
            action = action.with_artifacts(fitted=evidence.keep(figures))
        made = new_node("Relu", [found.source], output=f"{action.site}/relu", like=found.result)
        editor.insert_after([made], after=node)
        editor.replace_value(found.result, made.outputs[0])
        editor.remove_dead([node])
        return action


Figures = dict[str, npt.NDArray[np.float32]]


def _fitted(
    model: ir.Model, found: Activation, action: Action, evidence: Evidence
) -> tuple[Weighted, Sequence[Weighted], Figures] | None:
    """The layer before it, those behind it, and what goes into them; None where a plain Relu is
    all that can be had.
    """
    inside = set(found.nodes)
    layer = layer_of(found.source)
    if layer is None or any(user not in inside for user, _ in found.source.uses()):
        return None
    width = len(layer.bias())
    digest = action.artifact("fitted")
    stored = None if digest is None else evidence.recall(digest)
    readers = _readers(found.result, layer.axis)
    if stored is not None and all(stored[name].shape == (width,) for name in _FITTED):
        return layer, readers, {name: stored[name] for name in _FITTED}
    seen = _moments(model, evidence).get((found.source.name or "", layer.axis))
    made = numbers(model, found)
    if seen is None or made is None or len(seen.total) != width or not seen.count:
        return None
    mean = seen.total / seen.count
    deviation = np.sqrt(np.maximum(seen.square / seen.count - mean**2, 0.0))
    near = matched(made, mean, deviation, constant=bool(readers))
    figures = {name: getattr(near, name).astype(np.float32) for name in _FITTED}
    usable = all(np.isfinite(array).all() for array in figures.values())
    return (layer, readers, figures) if usable else None


def _readers(result: ir.Value, axis: int) -> list[Weighted]:
    """Everything that reads a value, where all of it are layers that can take in a constant."""
    layers = [weighted(user) for user, index in result.uses() if index == 0]
    fit = [
        one
        for one in layers
        if one is not None
        and one.axis == axis
        and one.node.op_type != "ConvTranspose"
        and (one.adds is not None or one.node.op_type != "MatMul")
    ]
    return fit if len(fit) == len(result.uses()) and not result.is_graph_output() else []


def _passed_on(reader: Weighted, constant: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """What a layer makes of a constant [in] at every place [out]; borders are not looked at."""
    matrix = reader.matrix()
    groups, outs = matrix.shape[:2]
    taps = matrix.reshape(groups, outs, len(constant) // groups, -1).sum(axis=-1)
    return (taps * constant.reshape(groups, 1, -1)).sum(axis=-1).reshape(-1)


def _moments(model: ir.Model, evidence: Evidence) -> Mapping[Wanted, Moments]:
    """Of what every activation reads, in the graph before the first of them was replaced."""
    kept = model.graph.meta.get(_KEY)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    if kept is None:
        ends = (node.outputs[0] for node in model.graph if is_elementwise(node))
        found = (_match(model, end) for end in ends)
        sources = [one.source for one in found if isinstance(one, Activation)]
        layers = [(source.name or "", layer_of(source)) for source in sources]
        wanted = [(name, layer.axis) for name, layer in layers if layer is not None]
        kept = evidence.moments(model, wanted, products=False)
        model.graph.meta[_KEY] = kept
    return cast("Mapping[Wanted, Moments]", kept)


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
