"""Even out the channels between two integer layers: Conv-Conv, also with Relu between, depthwise.

"Data-Free Quantization Through Weight Equalization and Bias Correction" (Nagel et al., ICCV
2019), section 4.1. The first layer's weight has a scale for each channel, so that dividing its
channels costs nothing; what is evened out against the second layer's weights is therefore the
range of the value between them, from calibration. Exact in float where only homogeneous
functions stand between the layers. See `_balance`.
"""

import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.repair._balance import Seam, factors, move, seam
from edgeopt.transforms.repair._layers import Layer, layers
from edgeopt.transforms.repair._pairs import pairs
from edgeopt.transforms.repair._repair import Fitting, Repair


def _between_layers(graph: ir.Graph) -> list[tuple[Layer, Seam]]:
    levels = layers(graph)
    makers = {layer.result: layer for level in levels for layer in level if _scales(layer)}
    seams = [found for pair in pairs(graph, levels) if (found := seam(pair)) is not None]
    return [(makers[found.source], found) for found in seams if found.source in makers]


def _scales(layer: Layer) -> bool:
    """Whether the layer has a scale for each channel, of its weight and its bias."""
    found = array_of(layer.weight.inputs[1])
    plain = len(layer.node.inputs) < 3 or layer.bias is not None
    return plain and found is not None and found.ndim == 1


def _able(graph: ir.Graph) -> bool:
    return bool(_between_layers(graph))


def _equalize(fitting: Fitting) -> None:
    for maker, found in _between_layers(fitting.model.graph):
        chosen = factors(found, fitting)
        if chosen is None or len(chosen[0]) != len(maker.scale()):
            continue
        values = maker.bias_values()
        maker.put_weight_scale(fitting.constants, maker.scale() / chosen[0])
        source = maker.source.producer()
        scale = None if source is None else array_of(source.inputs[1])
        if values is not None and scale is not None:
            maker.rescale_bias(fitting.constants, float(scale), values / chosen[0])
        move(found, chosen, fitting)


PLUGIN = Repair(name="cross_layer_equalization", able=_able, fit=_equalize)
