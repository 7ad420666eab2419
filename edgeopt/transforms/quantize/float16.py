"""The whole model in half precision, but for what half precision cannot hold.

Weights and activations are float16, with Cast at the borders: inputs and outputs of the model stay
float32. The types stand in the graph, for providers that take no precision flags any more
(TensorRT with strong typing). An operator stays in float32 where calibration shows that it reads
or makes what float16 cannot hold, four times as much as was seen included; where it adds up to too
much on its way; where an epsilon would become zero; where it computes a length, a position or an
index that must be exact (`transforms.counts`); and where the action names it (`keep`, names of
values separated by commas).

Behind integer actions it makes the rest half: from opset 19 on scales are float16 too, and nothing
stands between a DequantizeLinear and its layer; below, casts do. Scales that half precision has too
few digits for stay.

Offered only where the profile says that half precision is faster. On x86 it is not: the runtime
has no kernels and casts everything back (0.95 to 0.98 times the speed of float32).
"""

import numpy as np
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import RuntimeFailure
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.emulate.half import out_of_half
from edgeopt.transforms.quantize._half import could_be_half, half_form, has_half, kept_single

NAME = "float16"
_ROOM = 4.0
"""Values in use may be so many times larger than calibration showed."""


class Float16:
    """Half precision typed into the graph."""

    version = 1
    needs_data = True
    whole_model = True
    scheme = "float16"

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """The whole model, where half precision is fast and there is data to guard it."""
        if not offer.profile.float16 or not offer.data:
            return ()
        if has_half(model) or not could_be_half(model):
            return ()
        return (Action.of(NAME, "*"),)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Put the model in half precision in the place of the editor's."""
        model = editor.model
        if has_half(model):
            return Rejection(reason="it is in half precision already")
        found = _kept(model, action, evidence)
        if isinstance(found, Rejection):
            return found
        digest, kept = found
        named = [name for name in str(action.get("keep", "")).split(",") if name]
        made = half_form(model, {*kept, *named})
        if not has_half(made):
            return Rejection(reason="nothing of it can be in half precision")
        editor.replace_model(made)
        return action.with_artifacts(single=digest)


PLUGIN = Float16()


def _kept(model: ir.Model, action: Action, evidence: Evidence) -> tuple[str, list[str]] | Rejection:
    """What stays in float32, and the artifact that says so."""
    digest = action.artifact("single")
    held = None if digest is None else evidence.recall(digest)
    if digest is not None and held is not None:
        return digest, [str(name) for name in held["names"]]
    if not evidence.feeds(1):
        return Rejection(reason="there is no calibration data to find its ranges with")
    try:
        kept = kept_single(model, out_of_half(model, evidence, room=_ROOM))
    except RuntimeFailure as error:
        return Rejection(reason=f"its ranges are not known: {error.what}")
    return evidence.keep({"names": np.array(kept, dtype=np.str_)}), kept
