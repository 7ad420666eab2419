"""Large weights stored in half precision behind a Cast; the arithmetic stays float32.

Size only: the runtime undoes the Cast once, when it loads the model, so nothing becomes faster or
slower. Half the bytes for a relative error of 2^-11 a weight, where int8 would cost too much
accuracy. Weights that half precision cannot hold are left: beyond 65504, not finite, or nowhere
above its smallest normal number. Scales of integer codes are left too: each must be exact for
itself, and small ones would lose their digits.
"""

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.emulate.half import LARGEST, SMALLEST_NORMAL
from edgeopt.transforms.groups import QUANTIZERS
from edgeopt.transforms.quantize._codes import float_weight

NAME = "weight_float16"
LEAST_ELEMENTS = 1024
_CODE_BITS = 8
LEAST_BYTES = 1_000_000
"""Of all such weights together: a smaller model gains nothing worth a trial."""


class WeightFloat16:
    """Half precision in the file, single precision in the arithmetic."""

    version = 1
    needs_data = False
    whole_model = True
    scheme = "size_float16"

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """The whole model, where it has many float32 weights."""
        del offer
        size = sum(array.nbytes for _, array in _large(model.graph))
        return (Action.of(NAME, "*"),) if size >= LEAST_BYTES else ()

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Put every large weight behind a Cast."""
        del evidence
        found = _large(editor.graph)
        if not found:
            return Rejection(reason="it has no large float32 weights that float16 can hold")
        first = next(iter(editor.graph))
        for value, array in found:
            stored = editor.initializer(f"{value.name}__float16", array.astype(np.float16))
            made = new_node(
                "Cast",
                [stored],
                output=f"{value.name}__float32",
                attributes={"to": ir.DataType.FLOAT.value},
                like=value,
            )
            editor.insert([made], before=first)
            editor.replace_uses(value, made.outputs[0])
            editor.drop_initializer(value)
        return action


PLUGIN = WeightFloat16()


def _large(graph: ir.Graph) -> list[tuple[ir.Value, npt.NDArray[np.float32]]]:
    """Constants that are worth it and fit, in the order of the graph."""
    found: list[tuple[ir.Value, npt.NDArray[np.float32]]] = []
    for value in graph.initializers.values():
        array = float_weight(value)
        if array is None or array.size < LEAST_ELEMENTS or value.is_graph_output():
            continue
        if any(_reads_codes(user) for user, _ in value.uses()):
            continue
        largest = float(np.abs(array).max())
        if value.uses() and SMALLEST_NORMAL <= largest <= LARGEST:
            found.append((value, array))
    return found


def _reads_codes(node: ir.Node) -> bool:
    """Whether what it reads in float32 may be a scale."""
    dtypes = (value.dtype for value in node.inputs if value is not None)
    return node.op_type in QUANTIZERS or any(
        dtype is not None and dtype.is_integer() and dtype.bitwidth <= _CODE_BITS
        for dtype in dtypes
    )
