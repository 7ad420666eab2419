"""The exam of a transform: what every plug-in on a shelf must prove, also a third party's.

    examine(name, model)            any shelf: what holds whatever the outputs do
    examine_exact(name, model)      rewrite and fuse: and the outputs stay equal
    examine_golden(name, folder)    the rule on a model in text form, against what it must become

Each takes the name under which the plug-in is found on its shelf. `examine` returns what it
applied, so that the exams of other shelves go on from there.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx import parser, printer

from edgeopt.core.action import Action, Recipe
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.core.profile import DeviceProfile, QuantizationTypes
from edgeopt.graph.check import check
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import Session
from edgeopt.graph.shapes import infer_shapes
from edgeopt.graph.stand_ins import DOMAIN
from edgeopt.graph.write import to_bytes
from edgeopt.testing.graphs import random_feeds
from edgeopt.transforms.base import EXACT, Evidence, Offer, Range, Rejection, Transform
from edgeopt.transforms.calibration.moments import Moments
from edgeopt.transforms.calibration.observation import Channels
from edgeopt.transforms.stages import transform_of

T = TypeVar("T")
RELATIVE = 2e-5
"""Allowed error beside the largest output: float32 sums in another order, some layers deep."""
_SITES_GROW_AT_MOST = 2
_PLAIN = RuntimeSettings(optimization="off")
_NOTE = re.compile(r"^#\s*(\w+):\s*(.*?)\s*$", re.MULTILINE)


class ExamFailed(AssertionError):  # noqa: N818 (pytest shows it as the assertion that it is)
    """A transform does not keep what its shelf promises."""


class NoEvidence:
    """Evidence of a study without data: nothing is known and nothing is kept."""

    def __init__(self) -> None:
        self._reference: ir.Model | None = None

    @property
    def reference(self) -> ir.Model | None:
        """The graph that the last build started quantizing from."""
        return self._reference

    def ranges(
        self,
        model: ir.Model,
        names: Sequence[str],
        digest: str | None,
        *,
        method: str = "minmax",
    ) -> tuple[Mapping[str, Range], str]:
        """No range of any value."""
        del model, names, digest, method
        return {}, ""

    def channels(
        self, model: ir.Model, names: Sequence[str], *, axis: int = 1
    ) -> Mapping[str, Channels]:
        """No channel of any value."""
        del model, names, axis
        return {}

    def means(
        self,
        model: ir.Model,
        names: Sequence[str],
        *,
        axis: int = 1,
        limit: int | None = None,
    ) -> Mapping[str, npt.NDArray[np.float64]]:
        """No mean of any value."""
        del model, names, axis, limit
        return {}

    def moments(
        self, model: ir.Model, wanted: Sequence[tuple[str, int]], *, products: bool
    ) -> Mapping[tuple[str, int], Moments]:
        """No channel of any value."""
        del model, wanted, products
        return {}

    def remember_float(self, model: ir.Model) -> None:
        """Keep the graph that a build starts quantizing from."""
        self._reference = model

    def once(self, model: ir.Model, what: str, make: Callable[[], T]) -> T:
        """Found out each time."""
        del model, what
        return make()

    def feeds(self, count: int) -> Sequence[Feed]:
        """No feeds."""
        del count
        return ()

    def broad(self, count: int) -> Sequence[Feed]:
        """No feeds."""
        del count
        return ()

    @property
    def unfinished(self) -> Path | None:
        """No folder."""
        return None

    @property
    def kind(self) -> str:
        """No samples."""
        return ""

    @property
    def patience_s(self) -> float:
        """Nobody waits."""
        return math.inf

    def tell(self, text: str) -> None:
        """Nobody listens."""
        del text

    def keep(self, arrays: Mapping[str, npt.NDArray[Any]]) -> str:
        """Refuse: there is no data that an artifact could come from.

        Raises:
            ValueError: Always.
        """
        raise ValueError(f"no data, and yet {sorted(arrays)} were computed from it")

    def recall(self, digest: str) -> Mapping[str, npt.NDArray[Any]] | None:
        """No artifact."""
        del digest


def offer(
    *,
    data: bool = True,
    contrib: bool = True,
    freeze: Mapping[str, tuple[int | None, ...]] | None = None,
    values: Mapping[str, int | float | bool] | None = None,
    drop_outputs: Collection[str] = (),
) -> Offer:
    """What an ordinary processor with 8-bit kernels is offered."""
    profile = DeviceProfile(
        name="exam", title="exam", architecture="x86_64", quantization=QuantizationTypes()
    )
    return Offer(
        profile=profile,
        data=data,
        contrib=contrib,
        freeze=freeze or {},
        values=values or {},
        drop_outputs=frozenset(drop_outputs),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """An action that was done to a model.

    Args:
        action: With its artifacts.
        graph: The model after it, and after nothing else.
    """

    action: Action
    graph: ir.Model


def opened(model: onnx.ModelProto) -> ir.Model:
    """A model as transforms meet it: shapes inferred, sorted, a new graph every time."""
    graph = ir.from_proto(onnx.shape_inference.infer_shapes(model))
    graph.graph.sort()
    if any(node.domain == DOMAIN for node in graph.graph):
        infer_shapes(graph)
    return graph


def examine(
    name: str,
    model: onnx.ModelProto,
    *,
    evidence: Evidence | None = None,
    offered: Offer | None = None,
) -> tuple[Applied, ...]:
    """Apply a transform at each site that it lists, each time on a fresh clone.

    At every site: the action reads back from its text; the listed graph is left alone; the graph
    changes and is valid; inputs and outputs keep names, types and shapes (with shapes to freeze,
    free sizes may become fixed; an output to drop may go where it is the site); the same again
    gives the same bytes; undo restores the bytes; sites do not multiply.

    Raises:
        ExamFailed: One of these does not hold; says at which site.
    """
    _, transform = transform_of(name)
    known = evidence or NoEvidence()
    graph = opened(model)
    sites = transform.sites(graph, offered or offer())
    _require(len(set(sites)) == len(sites), f"{name} lists a site twice")
    before = to_bytes(graph)
    found: list[Applied] = []
    for action in sites:
        applied = _applied(transform, graph, action, known)
        again = _applied(transform, graph, action, known)
        where = f"{name} at {action.site!r}"
        _require(to_bytes(graph) == before, f"{where} changed the graph that it was cloned from")
        _require(to_bytes(applied.graph) == to_bytes(again.graph), f"{where} differs when repeated")
        _check_text(applied.action)
        if not transform.whole_model:
            _require(to_bytes(applied.graph) != before, f"{where} changed nothing")
            _check_count(transform, applied, len(sites), offered or offer())
        check(applied.graph)
        frozen = bool(offered is not None and offered.freeze)
        unneeded = frozenset[str]() if offered is None else offered.drop_outputs
        dropped = unneeded & {action.site}
        _check_contract(graph, applied.graph, where, frozen=frozen, dropped=dropped)
        found.append(applied)
    return tuple(found)


def examine_exact(
    name: str,
    model: onnx.ModelProto,
    feeds: Sequence[Feed] | None = None,
    *,
    offered: Offer | None = None,
    relative: float = RELATIVE,
) -> tuple[Applied, ...]:
    """The exam of rewrite and fuse: `examine`, and equal outputs on every feed.

    Raises:
        ExamFailed: As `examine`, or outputs differ, or the transform is on another shelf.
    """
    shelf, _ = transform_of(name)
    _require(shelf in EXACT, f"{name} is on the shelf {shelf}, whose outputs may differ")
    given = feeds if feeds is not None else random_feeds(model, 2)
    expected = _outputs(model.SerializeToString(), given)
    applied = examine(name, model, offered=offered)
    for one in applied:
        found = _outputs(to_bytes(one.graph), given)
        kept = [
            {n: made[n] for n in made if n in f} for made, f in zip(expected, found, strict=True)
        ]
        _require_equal(kept, found, relative, f"{name} at {one.action.site!r}")
    return applied


def examine_golden(name: str, folder: Path) -> Mapping[str, str]:
    """What a golden folder shows: file name to the text that the rule makes of `before*.txt`.

    A `before.txt` has its `after.txt`: the graph with the rule done at every site. A
    `must_not_fire_*.txt` has notes `# site: ...` and `# reason: ...`: the rule lists no site in
    it, and refuses that one with that reason. Both may say what the user froze (`# freeze: x=1x3`
    or `# values: k=2`) or drops (`# drop: aux`), a refusal also the action's parameters as its text
    has them (`# parameters: shape="1x3"`).

    Raises:
        ExamFailed: The rule does not fire where it must, or fires where it must not.
    """
    found: dict[str, str] = {}
    for path in sorted(folder.glob("before*.txt")):
        text = path.read_text(encoding="utf-8")
        model, offered = parser.parse_model(text), _offered(text)
        feeds = _frozen_feeds(model, offered) if offered.freeze or offered.values else None
        applied = examine_exact(name, model, feeds, offered=offered)
        _require(bool(applied), f"{name} lists no site in {path.name}")
        made = _at_every_site(name, model, offered)
        found[path.name.replace("before", "after")] = graph_text(made)
    for path in sorted(folder.glob("must_not_fire_*.txt")):
        _check_refused(name, path)
    return found


def graph_text(graph: ir.Model) -> str:
    """The main graph as ONNX text, without the recorded shapes of intermediate values."""
    proto = ir.to_proto(graph).graph
    proto.ClearField("value_info")
    lines = printer.to_text(proto).splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _offered(text: str) -> Offer:
    """What a model in text form is offered: the usual, and what its notes say is frozen."""
    notes = dict(_NOTE.findall(text))
    noted, valued = notes.get("freeze", ""), notes.get("values", "")
    freeze: dict[str, tuple[int | None, ...]] = {}
    for one in noted.split():
        name, _, sizes = one.partition("=")
        freeze[name] = tuple(None if s == "?" else int(s) for s in sizes.split("x"))
    values = {name: json.loads(n) for name, _, n in (v.partition("=") for v in valued.split())}
    return offer(freeze=freeze, values=values, drop_outputs=notes.get("drop", "").split())


def _frozen_feeds(model: onnx.ModelProto, offered: Offer) -> Sequence[Feed]:
    """Feeds of the only shapes that the models need to take."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for info in fixed.graph.input:
        sizes = offered.freeze.get(info.name, ())
        for dim, size in zip(info.type.tensor_type.shape.dim, sizes, strict=False):
            if size is not None:
                dim.dim_value = size
    feeds = random_feeds(fixed, 2)
    return [
        {**feed, **{n: np.full_like(feed[n], value) for n, value in offered.values.items()}}
        for feed in feeds
    ]


def _at_every_site(name: str, model: onnx.ModelProto, offered: Offer) -> ir.Model:
    _, transform = transform_of(name)
    editor = Editor(opened(model))
    for action in transform.sites(editor.model, offered):
        mark = editor.mark()
        if isinstance(transform.apply(editor, action, NoEvidence()), Rejection):
            editor.undo(mark)
        elif transform.whole_model:
            break
    return editor.model


def _check_refused(name: str, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notes: dict[str, str] = dict(_NOTE.findall(text))
    graph = opened(parser.parse_model(text))
    _, transform = transform_of(name)
    listed = transform.sites(graph, _offered(text))
    _require(not listed, f"{name} lists {[a.site for a in listed]} in {path.name}")
    head = Action.of(name, notes["site"], version=transform.version).text
    action = Action.parse(f"{head} {notes.get('parameters', '')}")
    made = transform.apply(Editor(graph), action, NoEvidence())
    if not isinstance(made, Rejection):
        raise ExamFailed(f"{name} applies at {action.site!r} in {path.name}")
    expected = notes["reason"]
    _require(expected in made.reason, f"{path.name}: {made.reason!r} instead of {expected!r}")


def _applied(transform: Transform, graph: ir.Model, action: Action, evidence: Evidence) -> Applied:
    """The action on a clone, after it was done, undone and done again."""
    editor = Editor(graph.clone())
    start = to_bytes(editor.model)
    _done(transform, editor, action, evidence)
    editor.undo()
    _require(to_bytes(editor.model) == start, f"undoing {action.text} leaves other bytes")
    made = _done(transform, editor, action, evidence)
    return Applied(action=made, graph=editor.model)


def _done(transform: Transform, editor: Editor, action: Action, evidence: Evidence) -> Action:
    made = transform.apply(editor, action, evidence)
    if isinstance(made, Rejection):
        raise ExamFailed(f"{action.text} is listed, and yet refused: {made.reason}")
    return made


def _check_text(action: Action) -> None:
    _require(Action.parse(action.text) == action, f"{action.text} does not read back")
    recipe = Recipe(baseline="sha256:0", actions=(action,))
    _require(Recipe.parse(recipe.text) == recipe, f"a recipe with {action.text} does not read back")


def _check_count(transform: Transform, applied: Applied, before: int, offered: Offer) -> None:
    left = transform.sites(applied.graph, offered)
    text = f"{applied.action.text} leaves {len(left)} sites of {before}"
    _require(len(left) < before + _SITES_GROW_AT_MOST, text)


def _check_contract(
    before: ir.Model, after: ir.Model, where: str, *, frozen: bool, dropped: Collection[str]
) -> None:
    def described(values: Sequence[ir.Value]) -> list[tuple[str | None, str, str]]:
        return [(value.name, str(value.dtype), str(value.shape)) for value in values]

    for kind in ("inputs", "outputs"):
        old, new = (list(getattr(graph.graph, kind)) for graph in (before, after))
        kept = {value.name for value in new}
        old = [v for v in old if kind == "inputs" or v.name in kept or v.name not in dropped]
        same = described(old) == described(new) or (frozen and _narrowed(old, new))
        text = f"{where} changed the {kind}: {described(old)} became {described(new)}"
        _require(same, text)


def _narrowed(old: Sequence[ir.Value], new: Sequence[ir.Value]) -> bool:
    """Whether nothing changed but that free sizes are fixed."""
    if [(v.name, v.dtype) for v in old] != [(v.name, v.dtype) for v in new]:
        return False
    return all(_fits(one.shape, other.shape) for one, other in zip(old, new, strict=True))


def _fits(old: ir.ShapeProtocol | None, new: ir.ShapeProtocol | None) -> bool:
    if old is None or new is None or len(old) != len(new):
        return old is None
    return all(a == b or not isinstance(a, int) for a, b in zip(old, new, strict=True))


def _outputs(model: bytes, feeds: Sequence[Feed]) -> list[Mapping[str, npt.NDArray[Any]]]:
    """Outputs with optimizations off, so that the graph itself is what is compared."""
    session = Session(model, _PLAIN)
    return [session.run(feed) for feed in feeds]


def _require_equal(
    expected: Sequence[Mapping[str, npt.NDArray[Any]]],
    found: Sequence[Mapping[str, npt.NDArray[Any]]],
    relative: float,
    where: str,
) -> None:
    for one, other in zip(expected, found, strict=True):
        for name, array in one.items():
            made = other[name]
            text = f"{where}: output {name!r} is {made.dtype}{list(made.shape)}"
            _require((made.dtype, made.shape) == (array.dtype, array.shape), text)
            if not array.size:
                continue
            wide = array.astype(np.float64)
            error = float(np.abs(made.astype(np.float64) - wide).max())
            scale = max(float(np.abs(wide).max()), 1.0)
            _require(error <= relative * scale, f"{where}: output {name!r} is off by {error:.3g}")


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise ExamFailed(text)
