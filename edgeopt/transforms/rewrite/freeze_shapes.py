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

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.errors import ModelError
from edgeopt.graph.branches import settle_branches
from edgeopt.graph.check import check
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.folding import drop_unused, fold_constants, replace_by_constant
from edgeopt.graph.read import sort
from edgeopt.graph.shapes import infer_shapes, inferred
from edgeopt.transforms.base import Evidence, Offer, Rejection

_FREE = "?"
_ROUNDS = 20
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
            _simplify(work)
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


def _simplify(model: ir.Model) -> None:
    """Infer and fold in turn: a folded target makes the next shape known."""
    for _ in range(_ROUNDS):
        folded = _fold_sizes(model)
        while some := fold_constants(model):
            folded += some
        folded += settle_branches(model)
        if not folded:
            break
    drop_unused(model)
    sort(model)
    infer_shapes(model)


def _fold_sizes(model: ir.Model) -> int:
    """Turn nodes that only ask for known sizes into constants; returns how many."""
    # Not what is recorded: only what follows from the inputs is certain.
    known = inferred(model)
    folded = 0
    for node in list(model.graph.all_nodes()):
        array = None if node.domain or node.outputs[0].is_graph_output() else _asked(node, known)
        if array is not None:
            replace_by_constant(node, node.outputs[0], ir.tensor(array))
            folded += 1
    return folded


def _asked(node: ir.Node, known: dict[str, onnx.ValueInfoProto]) -> npt.NDArray[np.int64] | None:
    """What a Shape, or a Gather or Slice of one, gives; None where it is not known or no such."""
    if node.op_type == "Shape":
        sizes = _shape_of(node, known)
        return None if sizes is None or None in sizes else np.array(sizes, np.int64)
    source = node.inputs[0] if node.op_type in ("Gather", "Slice") else None
    before = None if source is None else source.producer()
    if before is None or before.op_type != "Shape" or before.domain:
        return None
    sizes = _shape_of(before, known)
    places = None if sizes is None else _places(node, len(sizes))
    if sizes is None or places is None:
        return None
    taken = [sizes[place] for place in places.reshape(-1)]
    return None if None in taken else np.array(taken, np.int64).reshape(places.shape)


def _shape_of(node: ir.Node, known: dict[str, onnx.ValueInfoProto]) -> Sizes | None:
    """Sizes that a Shape node gives, None for free ones; None where the rank is not known."""
    source = node.inputs[0]
    info = None if source is None else known.get(source.name or "")
    if info is None or not info.type.tensor_type.HasField("shape"):
        return None
    dims = info.type.tensor_type.shape.dim
    sizes = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in dims)
    start = node.attributes.get_int("start", 0)
    return sizes[start : node.attributes.get_int("end")]


def _places(node: ir.Node, rank: int) -> npt.NDArray[np.int64] | None:
    """Which of the sizes a Gather or Slice with constant operands takes."""
    operands = [array_of(value) for value in node.inputs[1:]]
    every = np.arange(rank)
    if not operands or any(array is None for array in operands):
        return None
    held = [np.asarray(array) for array in operands]
    if node.op_type == "Gather":
        inside = ((held[0] >= -rank) & (held[0] < rank)).all()
        return every[held[0]] if inside else None
    starts, ends, *more = (array.reshape(-1).tolist() for array in held)
    step = more[1][0] if len(more) > 1 else 1
    return every[starts[0] : ends[0] : step]


PLUGIN = FreezeShapes()
