"""An input set to the one value that the user says it always has.

    If(sr == 16000) then A else B  with  value = 16000  becomes  A

The input keeps its place, so that callers need no change, but nothing reads it any more: what is
given there no longer matters. Everything that follows from the value is computed once for all, and
an If that it decides becomes the branch taken.

The model no longer does what other values asked for, so it is offered only for values that the user
gave (`--freeze`); for these it is exact. It must not fire on inputs of several elements, on values
that the input's type cannot hold, or where nothing reads the input.
"""

import math

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.errors import ModelError
from edgeopt.graph.branches import settle_branches
from edgeopt.graph.editor import Editor
from edgeopt.graph.folding import drop_unused, fold_constants
from edgeopt.graph.read import sort
from edgeopt.graph.shapes import infer_shapes
from edgeopt.transforms.base import Evidence, Offer, Rejection

NAME = "freeze_value"


class FreezeValue:
    """Exact for the value that it names; opt-in."""

    version = 1
    needs_data = False
    whole_model = False
    main_graph_only = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action an input whose value the user gave."""
        asked = [(value, offer.values.get(value.name or "")) for value in model.graph.inputs]
        return tuple(
            Action.of(NAME, value.name or "", value=number)
            for value, number in asked
            if number is not None and not isinstance(_constant(value, number), Rejection)
        )

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Let all that read the input read a constant, and fold what follows from it."""
        del evidence
        work = editor.model.clone()
        value = next((v for v in work.graph.inputs if v.name == action.site), None)
        if value is None:
            return Rejection(reason=f"the model has no input {action.site!r}")
        array = _constant(value, action.get("value", ""))
        if isinstance(array, Rejection):
            return array
        constant = Editor(work).initializer(f"{action.site}__frozen", array)
        for user, index in tuple(value.uses()):
            user.replace_input_with(index, constant)
        try:
            _simplify(work)
        except ModelError as error:
            return Rejection(reason=f"the model does not take this value: {error.what}")
        editor.replace_model(work)
        return action


def _constant(value: ir.Value, asked: object) -> npt.NDArray[np.generic] | Rejection:
    """The value as the input's array, or why it is none."""
    shape, dtype = value.shape, value.dtype
    if not value.uses():
        return Rejection(reason=f"nothing reads {value.name!r}")
    if shape is None or any(size != 1 for size in shape):
        return Rejection(reason=f"{value.name!r} is not one element")
    if dtype is None or not isinstance(asked, int | float):
        return Rejection(reason=f"{value.name!r} takes no such value")
    kind = dtype.numpy()
    if kind.kind not in "biuf":
        return Rejection(reason=f"{value.name!r} is no number")
    unheld = Rejection(reason=f"{dtype} does not hold {asked}")
    try:
        with np.errstate(all="ignore"):
            array = np.asarray(asked).astype(kind)
    except OverflowError:
        return unheld
    infinite = bool(np.isinf(array)) and not math.isinf(asked)
    if infinite if kind.kind == "f" else array.item() != asked:
        return unheld
    return np.full([1] * len(shape), array, kind)


def _simplify(model: ir.Model) -> None:
    while fold_constants(model):
        pass
    settle_branches(model)
    drop_unused(model)
    sort(model)
    infer_shapes(model)


PLUGIN = FreezeValue()
