"""Move outlier channels of a normalised value into the weights that read it.

"SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language Models" (Xiao
et al., ICML 2023), with its exponent at 0.5. Where integer layers alone read what a
LayerNormalization or a Mul with a constant vector (and the Add of another behind it) makes, its
constants are divided by s, and the layers' weights multiplied. Exact in float. See `_balance`.
"""

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import array_of, sole_user
from edgeopt.transforms.repair._balance import Seam, factors, move, seam
from edgeopt.transforms.repair._layers import layers
from edgeopt.transforms.repair._pairs import pairs
from edgeopt.transforms.repair._repair import Fitting, Repair


def _behind_norms(graph: ir.Graph) -> list[tuple[tuple[ir.Value, ...], Seam]]:
    seams = [found for pair in pairs(graph, layers(graph)) if (found := seam(pair)) is not None]
    made = [(tuple(_constants(found.source.producer())), found) for found in seams]
    return [(constants, found) for constants, found in made if constants]


def _constants(node: ir.Node | None) -> Iterator[ir.Value]:
    """The vectors that scale what a node makes; none where it does not fit."""
    if node is None:
        return
    if node.op_type == "LayerNormalization":
        found = [value for value in node.inputs[1:3] if value is not None]
        if all(_is_vector(value, node) for value in found):
            yield from found
    elif node.op_type in ("Mul", "Add"):
        vectors = [value for value in node.inputs if _is_vector(value, node)]
        other = next((value for value in node.inputs if value not in vectors), None)
        if len(vectors) != 1 or other is None or vectors[0] is None:
            return
        if node.op_type == "Mul":
            yield vectors[0]
            return
        before = list(_constants(other.producer())) if sole_user(other) is node else []
        if before:
            yield from (*before, vectors[0])


def _is_vector(value: ir.Value | None, node: ir.Node) -> bool:
    """Whether a value is a constant [channels] that nothing else reads."""
    array = array_of(value)
    if value is None or array is None or not value.is_initializer():
        return False
    return array.ndim == 1 and array.dtype == np.float32 and sole_user(value) is node


def _able(graph: ir.Graph) -> bool:
    return bool(_behind_norms(graph))


def _smooth(fitting: Fitting) -> None:
    for constants, found in _behind_norms(fitting.model.graph):
        chosen = factors(found, fitting)
        arrays = [array_of(value) for value in constants]
        if chosen is None or any(a is None or a.shape != chosen[0].shape for a in arrays):
            continue
        for value, array in zip(constants, arrays, strict=True):
            assert array is not None, "it was looked at above"
            fitting.constants.put(value, (array / chosen[0]).astype(array.dtype))
        move(found, chosen, fitting)


PLUGIN = Repair(name="smooth_outliers", able=_able, fit=_smooth)
