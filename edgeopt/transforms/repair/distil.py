"""Train a pruned net for some minutes to say what the given model says, on samples without labels.

The graph itself is run by torch (extra `rl`) and differentiated; the given model beside it is the
teacher. Samples are the calibration part, broadened by built-in changes anew at every step, since
breadth decides: on narrow samples a net learns to be right on those alone. The weights go back
into the initializers that they came from, as an artifact of the recipe. It is the second step:
least squares first, and gates held at their mean lose nothing any more that a minute of it does
not bring back. What is quantized behind it is trained by `distil_integers`.

A site says its price: `seconds` of one core; a recipe may also end it after some `steps`. It must
not be used where an operator has no torch form here; the refusal names it.
"""

import onnx_ir as ir

from edgeopt.transforms.repair._distilled import SAMPLES, Distil, distilled
from edgeopt.transforms.repair._weighted import weighted


def _able(graph: ir.Graph) -> bool:
    return any(weighted(node) is not None for node in graph)


PLUGIN = Distil(
    name="distil",
    able=_able,
    fit=distilled,
    on_float=True,
    costly=True,
    samples=SAMPLES,
    version=2,
)
