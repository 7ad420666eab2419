"""A residual branch left out: what reads the sum reads the stream.

    x + f(x)  →  x

What `hold_branch` keeps of f, its mean, costs a pass over the map for a sum; here nothing is left,
and the biases of what reads the stream are solved anew or trained to make up for the mean.

It must not fire where `hold_branch` must not, and where the sum is an output: nothing behind it
could make up for anything.
"""

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.local_rule import producer_of, refuse
from edgeopt.transforms.prune.hold_branch import branch_of, branches


class DropBranch:
    """Approximate: a branch becomes nothing."""

    version = 1
    needs_data = False
    whole_model = False
    holds = True
    """Before channels go: without the branch those of the stream may be narrowed."""

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action a branch, by the value that it adds."""
        del offer
        found = ((value, branch_of(value)) for value in branches(model))
        return tuple(
            Action.of("drop_branch", value.name)
            for value, branch in found
            if value.name
            and not isinstance(branch, Rejection)
            and not branch.add.outputs[0].is_graph_output()
        )

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Let the readers of the sum read the stream."""
        del evidence
        node = producer_of(editor.model, action.site)
        if node is None:
            return Rejection(reason=f"no node of the main graph computes {action.site!r}")
        value = next(output for output in node.outputs if output.name == action.site)
        found = branch_of(value)
        if isinstance(found, Rejection):
            return found
        result, stream = found.add.outputs[0], found.add.inputs[1 - found.index]
        if result.is_graph_output() or stream is None:
            return refuse("the sum is an output", found.add)
        editor.replace_uses(result, stream)
        editor.remove_dead([found.add])
        return action


PLUGIN = DropBranch()
