"""uint8 codes around 128 become int8 codes around 0, bit for bit, in a model that came quantized.

    scale * (code - 128), code in uint8   =   scale * (code' - 0), code' = code - 128 in int8

Both types saturate at the same real values and round in the same way, so nothing changes but the
type, and TensorRT, which takes zero points of 0 only, can have the model. Zero points other than
128 have no such twin and are left: a model that has them needs its float original.

How codes are followed is said in `transforms.codes`; all zero points of codes that belong together
are 128, or none of them is changed.
"""

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.codes import SHIFT, Carrier, carriers, shifted, zero_points

NAME = "transcode_int8"


class TranscodeInt8:
    """A quantized model in symmetric types."""

    version = 1
    needs_data = False
    whole_model = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """The whole model, where the device wants zero points of 0 and codes lie around 128."""
        types = offer.profile.quantization
        if types is None or not types.symmetric or not any(map(_has_twin, carriers(model))):
            return ()
        return (Action.of(NAME, "*"),)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Put the model with int8 codes in the place of the editor's."""
        del evidence
        if not any(map(_has_twin, carriers(editor.model))):
            return Rejection(reason="it has no uint8 codes with zero point 128")
        editor.replace_model(symmetric_form(editor.model))
        return action


PLUGIN = TranscodeInt8()


def symmetric_form(model: ir.Model) -> ir.Model:
    """A clone in which uint8 codes around 128 are int8 codes around 0; outputs are the same."""
    return shifted(model, _has_twin)


def _has_twin(carrier: Carrier) -> bool:
    return carrier.dtype == "uint8" and all((z == SHIFT).all() for z in zero_points(carrier))
