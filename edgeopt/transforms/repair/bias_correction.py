"""Take the mean error that quantization left out of the biases, layer after layer.

"Data-Free Quantization Through Weight Equalization and Bias Correction" (Nagel et al., ICCV
2019), section 4.2, in its empirical form: for each integer Conv, Gemm and MatMul the mean of its
result a channel, float minus integer, is added to the bias. Layers that depend on each other are
corrected in order, with everything before them corrected already: done for all at once it
destroys the model. The corrected bias stays int32 at the scale that it has, so the structure and
the kernels are unchanged. Rejected where the outputs do not come nearer to the float ones.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.core.data import Feed
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.runtime import observe
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.groups import is_quantized, is_weighted, name_of

Array = npt.NDArray[Any]
SAMPLES = 32
_LIMIT = 2**31 - 1


class BiasCorrection:
    """Sequential bias correction from calibration data."""

    version = 1
    needs_data = True
    whole_model = False

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action, where the graph holds an integer layer with an integer bias."""
        if not offer.data or not any(_layers(model.graph)):
            return ()
        return (Action.of("bias_correction", "*", samples=SAMPLES),)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Load the corrected biases that the action names, or compute them."""
        levels = _layers(editor.graph)
        if not levels:
            return Rejection(reason="no integer layer with a bias is there to correct")
        digest = action.artifact("biases")
        stored = None if digest is None else evidence.recall(digest)
        if stored is not None and _fits(stored, levels):
            for node in (node for level in levels for node in level):
                _put(editor, node, stored[name_of(node.outputs[0])])
            return action
        reference = evidence.reference
        if reference is None:
            return Rejection(reason="the float model before quantization is not known")
        samples = int(action.get("samples"))
        feeds = evidence.feeds(2 * samples)
        if not feeds:
            return Rejection(reason="there is no calibration data")
        # Where there is enough, the correction is judged on samples that it has not seen.
        fresh = feeds[samples:] or feeds
        before = output_error(reference, editor.model, fresh)
        made = _correct(editor, levels, reference, evidence, samples)
        after = output_error(reference, editor.model, fresh)
        if not after <= before:
            reason = f"the outputs went from {before:.3g} to {after:.3g} off the float ones"
            return Rejection(reason=reason)
        return action.with_artifacts(biases=evidence.keep(made))


PLUGIN = BiasCorrection()


def output_error(reference: ir.Model, model: ir.Model, feeds: Sequence[Feed]) -> float:
    """Mean absolute difference of all float outputs over feeds, each output in its own spread."""
    names = [value.name for value in model.graph.outputs if value.name]
    errors: list[float] = []
    pairs = zip(observe(reference, names, feeds), observe(model, names, feeds), strict=True)
    for wanted, found in pairs:
        for name in names:
            if wanted[name].dtype.kind == "f":
                spread = float(np.abs(wanted[name]).mean()) or 1.0
                errors.append(float(np.abs(wanted[name] - found[name]).mean()) / spread)
    return float(np.mean(errors)) if errors else 0.0


def _layers(graph: ir.Graph) -> list[list[ir.Node]]:
    """Integer layers with an integer bias, by depth: none depends on another of its level."""
    depth: dict[ir.Value, int] = {}
    levels: dict[int, list[ir.Node]] = {}
    for node in graph:
        deepest = max(
            (depth.get(value, 0) for value in node.inputs if value is not None), default=0
        )
        if is_weighted(node) and is_quantized(node) and _bias(node) is not None:
            levels.setdefault(deepest, []).append(node)
            deepest += 1
        depth |= dict.fromkeys(node.outputs, deepest)
    return [levels[level] for level in sorted(levels)]


def _bias(node: ir.Node) -> ir.Node | None:
    """The DequantizeLinear of a layer's bias."""
    value = node.inputs[2] if len(node.inputs) > 2 else None
    made = None if value is None else value.producer()
    return made if made is not None and made.op_type == "DequantizeLinear" else None


def _correct(
    editor: Editor,
    levels: Sequence[Sequence[ir.Node]],
    reference: ir.Model,
    evidence: Evidence,
    samples: int,
) -> dict[str, Array]:
    made: dict[str, Array] = {}
    for level in levels:
        for axis in (1, -1):
            nodes = [node for node in level if (1 if node.op_type == "Conv" else -1) == axis]
            wanted = [name_of(node.outputs[0]) for node in nodes]
            held = [node.outputs[0].name or "" for node in nodes]
            if not nodes:
                continue
            goal = evidence.means(reference, wanted, axis=axis, limit=samples)
            found = evidence.means(editor.model, held, axis=axis, limit=samples)
            for node, name, here in zip(nodes, wanted, held, strict=True):
                if name in goal and here in found:
                    made[name] = _shifted(node, goal[name] - found[here])
                    _put(editor, node, made[name])
    return made


def _shifted(node: ir.Node, change: npt.NDArray[np.float64]) -> Array:
    """The int32 codes of the bias with a real change [channels] added."""
    bias = _bias(node)
    assert bias is not None, "only layers with a bias are corrected"
    codes, scale = array_of(bias.inputs[0]), array_of(bias.inputs[1])
    assert codes is not None, "_bias finds constants only"
    assert scale is not None, "static_qdq writes constants"
    shifted = codes + np.rint(change / scale.astype(np.float64))
    return np.clip(shifted, -_LIMIT, _LIMIT).astype(np.int32)


def _put(editor: Editor, node: ir.Node, codes: Array) -> None:
    bias = _bias(node)
    assert bias is not None, "only layers with a bias are corrected"
    old = bias.inputs[0]
    name = f"{name_of(node.outputs[0])}__bias_corrected"
    editor.set_input(bias, 0, editor.initializer(name, codes))
    if old is not None and old.is_initializer() and not old.uses():
        editor.drop_initializer(old)


def _fits(stored: Mapping[str, Array], levels: Sequence[Sequence[ir.Node]]) -> bool:
    for node in (node for level in levels for node in level):
        bias = _bias(node)
        codes = None if bias is None else array_of(bias.inputs[0])
        held = stored.get(name_of(node.outputs[0]))
        if codes is None or held is None or held.shape != codes.shape:
            return False
    return True
