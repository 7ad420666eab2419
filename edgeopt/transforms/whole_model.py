"""`WholeModel`: a tool that takes a model file and gives one back, as a transform.

Such actions are what a competent user would try without a search. They are no steps of one:
their only site is `*`, and whatever was done before goes through the tool.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from edgeopt.core.action import Action, Parameter
from edgeopt.errors import ModelError
from edgeopt.graph.editor import Editor
from edgeopt.graph.write import to_proto
from edgeopt.transforms.base import Evidence, Offer, Rejection

Parameters = Mapping[str, Parameter]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeModel:
    """A tool as a `Transform`.

    Args:
        name: Of the plug-in: its file's name.
        variants: The parameters to offer, one action each.
        run: The tool: from a self-contained model and the action to another model; raises
            `ModelError` where it fails.
        contrib: Which actions write operators of `com.microsoft`.
        version: Raised when the same action starts to mean something else.
    """

    name: str
    variants: tuple[Parameters, ...]
    run: Callable[[onnx.ModelProto, Action], onnx.ModelProto]
    contrib: Callable[[Action], bool] = lambda action: False
    version: int = 1
    needs_data: bool = False
    whole_model: bool = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action a variant."""
        del model
        made = [
            Action.of(self.name, "*", version=self.version, **parameters)
            for parameters in self.variants
        ]
        return tuple(action for action in made if offer.contrib or not self.contrib(action))

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Run the tool on the model as it is now."""
        del evidence
        if action.site != "*":
            return Rejection(reason=f"{self.name} works on the whole model: its site is '*'")
        before = to_proto(editor.model)
        try:
            after = self.run(before, action)
        except ModelError as error:
            return Rejection(reason=f"the tool failed: {error.what}")
        editor.replace_model(ir.from_proto(after))
        return action
