"""Train a quantized net for some minutes to say what it said in float: quantization-aware.

The quantized graph is run by torch with its own scales, in its own places: every weight and
activation is rounded as the device will round it, and gradients pass as if it were not. Weights
and biases learn to be right behind the rounding and go back into their integer initializers, so
that ranges, structure and speed stay. The teacher is the float graph before quantization, a
pruned and trained one too: prune, `distil`, quantize, and this where integers still lose.

Samples, price and refusals are those of `distil`. It must not be used behind dynamic
quantization, whose scales only the runtime knows: torch has no form for its operators here.
"""

import onnx_ir as ir

from edgeopt.transforms.repair._distilled import SAMPLES, Distil, distilled


def _able(graph: ir.Graph) -> bool:
    """Whether a constant of codes is there."""
    decoded = (node for node in graph if node.op_type == "DequantizeLinear" and not node.domain)
    codes = (node.inputs[0] for node in decoded)
    return any(value is not None and value.is_initializer() for value in codes)


PLUGIN = Distil(name="distil_integers", able=_able, fit=distilled, costly=True, samples=SAMPLES)
