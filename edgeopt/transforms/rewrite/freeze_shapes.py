"""Free dimensions of an input set to the sizes that the user says it always has.

    x [N, 3, H, W]  with  shape = "1x3x48x192"  becomes  x [1, 3, 48, 192];  "?" stays free

The same name on other inputs takes the same size. Then what only asked for sizes is computed once
for all: Shape of a value whose sizes are known, and what Gather or Slice takes of known sizes. An
If that they decide becomes the branch taken.

The model no longer takes other sizes, so it is offered only for the shapes that the user gave
(`--freeze`); for these it is exact. It must not fire where the sizes contradict those of the file
or each other, or where nothing was free.
Rules that need fixed sizes fit behind it: on a MobileNetV3 with gates, the blocked layout is kept
throughout only where height and width are known.
"""

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.errors import ModelError
from edgeopt.graph.check import check
from edgeopt.graph.editor import Editor
from edgeopt.graph.known_sizes import fold_known_sizes
from edgeopt.graph.shapes import infer_shapes
from edgeopt.transforms.base import Evidence, Offer, Rejection

_FREE = "?"
Sizes = tuple[int | None, ...]


class FreezeShapes:
    """Exact for the shapes that it names; opt-in."""

    version = 1
    needs_data = False
    whole_model = False
    main_graph_only = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action an input whose shape the user gave, where that fixes something."""
        found: list[Action] = []
        for value in model.graph.inputs:
            asked = offer.freeze.get(value.name or "")
            if asked is not None and not isinstance(_sizes(value, asked), Rejection):
                found.append(Action.of("freeze_shapes", value.name or "", shape=_text(asked)))
        return tuple(found)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Fix the sizes, record what follows from them, and fold what asked for them."""
        del evidence
        asked = _parsed(str(action.get("shape", "")))
        inputs = {value.name: value for value in editor.graph.inputs}
        if asked is None:
            return Rejection(reason="a shape reads 1x3x48x192, with ? for what stays free")
        if action.site not in inputs:
            return Rejection(reason=f"the model has no input {action.site!r}")
        named = _sizes(inputs[action.site], asked)
        if isinstance(named, Rejection):
            return named
        work = editor.model.clone()
        _fix(work.graph, action.site, asked, named)
        try:
            fold_known_sizes(work)
            infer_shapes(work)
            check(work)
        except ModelError as error:
            return Rejection(reason=f"the model does not take this shape: {error.what}")
        editor.replace_model(work)
        return action


def _text(sizes: Sizes) -> str:
    return "x".join(_FREE if size is None else str(size) for size in sizes)


def _parsed(text: str) -> Sizes | None:
    words = text.split("x")
    if not all(word == _FREE or (word.isdecimal() and int(word) > 0) for word in words):
        return None
    return tuple(None if word == _FREE else int(word) for word in words)


def _sizes(value: ir.Value, asked: Sizes) -> dict[str, int] | Rejection:
    """Sizes of the named free dimensions that become fixed; maybe none has a name."""
    if value.shape is None or len(value.shape) != len(asked):
        return Rejection(reason=f"{value.name!r} has another number of axes, or none is known")
    named: dict[str, int] = {}
    fixed = 0
    for held, size in zip(value.shape, asked, strict=True):
        if size is None:
            continue
        if isinstance(held, int):
            if held != size:
                return Rejection(reason=f"{value.name!r} has size {held} where {size} is given")
            continue
        fixed += 1
        if held.value is not None and named.setdefault(held.value, size) != size:
            return Rejection(reason=f"{held.value} is {named[held.value]} and {size} at once")
    return named if fixed else Rejection(reason=f"nothing of {value.name!r} would become fixed")


def _fix(graph: ir.Graph, site: str, asked: Sizes, named: dict[str, int]) -> None:
    for value in (*graph.inputs, *graph.outputs):
        if value.shape is None:
            continue
        given = (
            asked if value.name == site and value in graph.inputs else (None,) * len(value.shape)
        )
        value.shape = ir.Shape(
            [
                held if isinstance(held, int) else size or named.get(held.value or "", held)
                for held, size in zip(value.shape, given, strict=True)
            ]
        )


PLUGIN = FreezeShapes()
