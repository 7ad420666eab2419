"""Codes of a model that came quantized, in the types that the device computes fast.

    scale * (code - zero), code in int8  =  scale * (code' - zero'), code' = code + 128 in uint8

Activations become what the device's profile says (uint8 on processors), weights as well (int8);
exact to the last code, so the accuracy is that of the model that was given. What the runtime's
tool writes by default has int8 activations, which x86 has no kernels for: they are fused only where
nobody else reads them, so residuals and gates stay in float, and operators on codes are slower
than float ones; weights in uint8 are slow beside uint8 activations. Weights that it stores in float
behind a QuantizeLinear of their own become codes, a quarter of the bytes. It must not fire where
16-bit sums saturate (full int8 weights would begin to), where zero points must be 0
(`transcode_int8`), on codes that are inputs or outputs of the model, or where a zero point is
computed. A MobileNetV3 from the tool (onnxruntime 1.32, x86 with VNNI, one thread, processor time):
1.33 times as fast in pairs, 1.68 in operators on codes; a BERT with dynamic uint8 weights 1.65.
"""

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.codes import (
    TYPES,
    Carrier,
    carriers,
    fold_constants,
    quantizes_constant,
    shifted,
)

NAME = "fast_codes"


class FastCodes:
    """A quantized model in the device's types, bit for bit."""

    version = 1
    needs_data = False
    whole_model = False
    main_graph_only = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """The whole model, where it holds codes in other types."""
        types = offer.profile.quantization
        if types is None or types.symmetric or types.reduce_range:
            return ()
        action = Action.of(NAME, "*", activation=types.activation, weight=types.weight)
        return (action,) if _changes(model, action) else ()

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Shift every code that has another type."""
        del evidence
        if not _changes(editor.model, action):
            return Rejection(reason="it has no codes in other types that could be shifted")
        made = shifted(editor.model, lambda one: _is_other(one, action))
        fold_constants(made)
        editor.replace_model(made)
        return action


PLUGIN = FastCodes()


def _changes(model: ir.Model, action: Action) -> bool:
    others = any(_is_other(one, action) for one in carriers(model))
    return others or any(quantizes_constant(node) for node in model.graph)


def _is_other(carrier: Carrier, action: Action) -> bool:
    wanted = action.get(carrier.kind, carrier.dtype)
    return wanted in TYPES and carrier.dtype != wanted
