"""An output that the user does not need, and everything that only it needed.

    y, aux = f(x), g(x)   with  aux dropped  becomes  y = f(x)

Auxiliary heads of training, attention maps, features that nobody reads. What is left is computed
as before. The model no longer has that output, so it is offered only for outputs that the user
named (`--drop-output`), and a study refuses one that the accuracy metric or the state reads. It
must not fire on the only output that is left.
Rules that an output kept apart (a value that something else reads) fit behind it.
"""

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.graph.folding import drop_unused
from edgeopt.transforms.base import Evidence, Offer, Rejection

NAME = "drop_output"


class DropOutput:
    """Exact for the outputs that stay; opt-in."""

    version = 1
    needs_data = False
    whole_model = False
    main_graph_only = True
    drops_output = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action an output that the user does not need, while another one is left."""
        names = dict.fromkeys(value.name or "" for value in model.graph.outputs)
        asked = [name for name in names if name in offer.drop_outputs]
        return tuple(Action.of(NAME, name) for name in asked) if len(names) > 1 else ()

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Take the output out, and what nothing else reads."""
        del evidence
        names = {value.name for value in editor.graph.outputs}
        if action.site not in names:
            return Rejection(reason=f"the model has no output {action.site!r}")
        if len(names) == 1:
            return Rejection(reason=f"{action.site!r} is the only output")
        work = editor.model.clone()
        outputs = work.graph.outputs
        for index in reversed(range(len(outputs))):
            if outputs[index].name == action.site:
                del outputs[index]
        drop_unused(work)
        editor.replace_model(work)
        return action


PLUGIN = DropOutput()
