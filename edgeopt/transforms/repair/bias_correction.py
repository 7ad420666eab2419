"""Take the mean error that quantization left out of the biases, layer after layer.

"Data-Free Quantization Through Weight Equalization and Bias Correction" (Nagel et al., ICCV
2019), section 4.2, in its empirical form: for each integer Conv, Gemm and MatMul the mean of its
result a channel, float minus integer, is added to the bias. Layers that depend on each other are
corrected in order, with everything before them corrected already: done for all at once it
destroys the model. The corrected bias stays int32 at the scale that it has, so the structure and
the kernels are unchanged. Rejected where the outputs do not come nearer to the float ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.core.data import Feed
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.runtime import observe
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.groups import is_bias, is_quantized, is_weighted, name_of
from edgeopt.transforms.repair._stages import Stages

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
        if not offer.data or not _layers(model.graph):
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
            for layer in (layer for level in levels for layer in level):
                _put(editor, layer, stored[layer.name])
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
        made = _correct(editor, levels, reference, feeds[:samples])
        after = output_error(reference, editor.model, fresh)
        if not after <= before:
            reason = f"the outputs went from {before:.3g} to {after:.3g} off the float ones"
            return Rejection(reason=reason)
        return action.with_artifacts(biases=evidence.keep(made))


PLUGIN = BiasCorrection()


def output_error(reference: ir.Model, model: ir.Model, feeds: Sequence[Feed]) -> float:
    """Mean absolute difference of all outputs over feeds, each float output in its own size.

    Of an integer output (a class, a mask) it is the share of elements that differ.
    """
    names = [value.name for value in model.graph.outputs if value.name]
    errors: list[float] = []
    pairs = zip(observe(reference, names, feeds), observe(model, names, feeds), strict=True)
    for wanted, found in pairs:
        for name in names:
            if wanted[name].dtype.kind == "f":
                spread = float(np.abs(wanted[name]).mean()) or 1.0
                errors.append(float(np.abs(wanted[name] - found[name]).mean()) / spread)
            else:
                errors.append(float((wanted[name] != found[name]).mean()))
    return float(np.mean(errors)) if errors else 0.0


@dataclass(frozen=True, slots=True)
class _Layer:
    """An integer layer: the value that it makes, and the DequantizeLinear of its bias."""

    result: ir.Value
    bias: ir.Node
    axis: int

    @property
    def name(self) -> str:
        return name_of(self.result)


def _layers(graph: ir.Graph) -> list[list[_Layer]]:
    """Integer layers with an integer bias, by depth: none depends on another of its level."""
    depth: dict[ir.Value, int] = {}
    levels: dict[int, list[_Layer]] = {}
    for node in graph:
        deepest = max((depth.get(v, 0) for v in node.inputs if v is not None), default=0)
        layer = _layer(node)
        if layer is not None:
            levels.setdefault(deepest, []).append(layer)
            deepest += 1
        depth |= dict.fromkeys(node.outputs, deepest)
    return [levels[level] for level in sorted(levels)]


def _layer(node: ir.Node) -> _Layer | None:
    axis = 1 if node.op_type == "Conv" else -1
    if node.op_type != "MatMul" and is_weighted(node) and is_quantized(node):
        bias = _dequantized(node.inputs[2]) if len(node.inputs) > 2 else None
    elif is_bias(node):
        bias = next((made for v in node.inputs if (made := _dequantized(v)) is not None), None)
    else:
        return None
    return None if bias is None else _Layer(node.outputs[0], bias, axis)


def _dequantized(value: ir.Value | None) -> ir.Node | None:
    """The DequantizeLinear of an int32 constant."""
    made = None if value is None else value.producer()
    if made is None or made.op_type != "DequantizeLinear":
        return None
    codes = array_of(made.inputs[0])
    return made if codes is not None and codes.dtype == np.int32 else None


def _correct(
    editor: Editor, levels: Sequence[Sequence[_Layer]], reference: ir.Model, feeds: Sequence[Feed]
) -> dict[str, Array]:
    """Correct level after level; returns the int32 codes of every bias."""
    goal = _float_means(reference, levels, feeds)
    stages = Stages(editor.model, feeds)
    made: dict[str, Array] = {}
    for level in levels:
        stages.advance([layer.result.name or "" for layer in level])
        for layer in level:
            here = layer.result.name or ""
            found = np.mean([_mean(v[here], layer.axis) for v in stages.values], axis=0)
            codes, change = _shifted(layer, goal[layer.name] - found)
            made[layer.name] = codes
            _put(editor, layer, codes)
            for values in stages.values:
                values[here] = _plus(values[here], change, layer.axis)
    return made


def _float_means(
    reference: ir.Model, levels: Sequence[Sequence[_Layer]], feeds: Sequence[Feed]
) -> dict[str, Array]:
    axis_of = {layer.name: layer.axis for level in levels for layer in level}
    sums: dict[str, Array] = {}
    for found in observe(reference, list(axis_of), feeds):
        for name, array in found.items():
            sums[name] = sums.get(name, np.zeros(())) + _mean(array, axis_of[name])
    return {name: total / len(feeds) for name, total in sums.items()}


def _mean(array: Array, axis: int) -> npt.NDArray[np.float64]:
    """Mean a channel of one sample."""
    others = tuple(index for index in range(array.ndim) if index != axis % array.ndim)
    return array.mean(axis=others, dtype=np.float64)


def _plus(array: Array, change: Array, axis: int) -> Array:
    shape = [-1 if index == axis % array.ndim else 1 for index in range(array.ndim)]
    return (array + change.reshape(shape)).astype(array.dtype)


def _shifted(layer: _Layer, change: npt.NDArray[np.float64]) -> tuple[Array, Array]:
    """The int32 codes of a bias with a change [channels] added, and the change that they make."""
    codes, scale = array_of(layer.bias.inputs[0]), array_of(layer.bias.inputs[1])
    assert codes is not None, "_dequantized finds constants only"
    assert scale is not None, "static_qdq writes constants"
    wide = scale.astype(np.float64)
    shifted = np.clip(codes + np.rint(change / wide), -_LIMIT, _LIMIT).astype(np.int32)
    return shifted, (shifted.astype(np.float64) - codes) * wide


def _put(editor: Editor, layer: _Layer, codes: Array) -> None:
    old = layer.bias.inputs[0]
    name = f"{layer.name}__bias_corrected"
    editor.set_input(layer.bias, 0, editor.initializer(name, codes))
    if old is not None and old.is_initializer() and not old.uses():
        editor.drop_initializer(old)


def _fits(stored: Mapping[str, Array], levels: Sequence[Sequence[_Layer]]) -> bool:
    for layer in (layer for level in levels for layer in level):
        codes, held = array_of(layer.bias.inputs[0]), stored.get(layer.name)
        if codes is None or held is None or held.shape != codes.shape:
            return False
    return True
