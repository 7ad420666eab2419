"""An If whose condition is constant becomes the branch that it takes.

    If(true) then A else B  =  A        If(false) then A else B  =  B

Normalisation does so for whatever the file itself decides, a loop's copies and frozen values for
what follows from them; this is for conditions that other rules made constant. The weights of the
other branch are gone.

It must not fire where the condition is an input, even one with a default, or is computed from
anything but constants. Imperative, since a pattern has no bodies.
"""

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.errors import ModelError
from edgeopt.graph.branches import settled, take
from edgeopt.graph.editor import Editor
from edgeopt.graph.folding import drop_unused
from edgeopt.graph.read import sort
from edgeopt.graph.shapes import infer_shapes
from edgeopt.transforms.base import Evidence, Offer, Rejection

NAME = "inline_branch"


class InlineBranch:
    """Exact; finds Ifs at every depth."""

    version = 1
    needs_data = False
    whole_model = False
    main_graph_only = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action an If whose condition is constant."""
        del offer
        return tuple(Action.of(NAME, _site(node)) for node, _, _ in settled(model))

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Put the nodes of the branch in the place of the If."""
        del evidence
        work = editor.model.clone()
        found = next((each for each in settled(work) if _site(each[0]) == action.site), None)
        if found is None:
            return Rejection(reason=f"no If with a constant condition computes {action.site!r}")
        take(*found)
        drop_unused(work)
        sort(work)
        try:
            infer_shapes(work)
        except ModelError as error:
            return Rejection(reason=f"the branch does not fit its readers: {error.what}")
        editor.replace_model(work)
        return action


def _site(node: ir.Node) -> str:
    return next((value.name for value in node.outputs if value.name), "")


PLUGIN = InlineBranch()
