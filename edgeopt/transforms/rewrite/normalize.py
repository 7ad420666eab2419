"""Nothing but what normalisation did before any action.

    normalize(model)  =  model

Every recipe starts from the normalised model (constants folded, opset raised, dead nodes gone).
This action shows what that alone is worth. It always applies, at the site `*`.
"""

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Evidence, Offer, Rejection


class Normalize:
    """The action that does nothing more."""

    version = 1
    needs_data = False
    whole_model = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """The one action."""
        del model, offer
        return (Action.of("normalize", "*"),)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Leave the graph as it is."""
        del editor, evidence
        return action


PLUGIN = Normalize()
