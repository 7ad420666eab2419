"""`Repair`: what every repair does around its own idea.

It mends what quantization did to the float graph, or (`on_float`) what pruning did to the given
one. It is fitted on most of some calibration samples and judged on the rest, which it has not seen:
where the outputs do not come nearer to the float ones, it is refused. What it changes are
constants, so the structure stays; they are kept as an artifact, and a replay only loads them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.core.data import Feed
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.runtime import observe
from edgeopt.transforms.base import Evidence, Offer, Rejection

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
SAMPLES = 64
_HELD_BACK = 4
_HELD_BACK_MOST = 48
_SHIFTED = 4
_MOST_BYTES = 1_000_000_000
"""Of the samples that a repair has in memory."""
_NOTHING = 1e-9


class Refused(Exception):  # noqa: N818 (it becomes a rejection)
    """A repair cannot be done to this graph; says why."""


class Constants:
    """Constants of a graph under work, and what was put in the place of each.

    Args:
        editor: Of the graph.
    """

    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.made: dict[str, Array] = {}
        self._origin: dict[str, str] = {}

    def put(self, value: ir.Value, array: Array) -> str:
        """Let every user of a constant read another array; returns the new constant's name."""
        name = value.name or ""
        origin = self._origin.get(name, name)
        taken = f"{origin}__repaired" if origin == name else f"{name}_again"
        made = self.editor.initializer(taken, array)
        self.editor.replace_uses(value, made)
        if not value.uses():
            self.editor.drop_initializer(value)
        self._origin[taken] = origin
        self.made[origin] = array
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """What a repair has at hand.

    Args:
        constants: Of a clone of the graph: the repair puts its constants there.
        reference: The graph before what is to be repaired: the float one, or the one before
            anything was pruned.
        feeds: To fit to.
        evidence: For what was found out about the float graph.
        action: With its parameters.
    """

    constants: Constants
    reference: ir.Model
    feeds: Sequence[Feed]
    evidence: Evidence
    action: Action

    @property
    def model(self) -> ir.Model:
        """The graph as repaired so far."""
        return self.constants.editor.model


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A transform of the shelf `repair`.

    Args:
        name: Of the plug-in.
        able: Whether a graph holds anything that it could change.
        fit: Changes constants.
        version: Raised when the same action starts to mean something else.
        costly: Whether it takes too long to be tried on every candidate of a search.
        on_float: Whether it repairs what pruning did, before anything is quantized.
        prepare: Makes the constants that it changes those of one user; changes no outputs.
        samples: How many calibration samples it asks for.
        trains: Whether it is a training.
    """

    name: str
    able: Callable[[ir.Graph], bool]
    fit: Callable[[Fitting], None]
    version: int = 1
    needs_data: bool = True
    whole_model: bool = False
    costly: bool = False
    on_float: bool = False
    prepare: Callable[[Editor], None] | None = None
    samples: int = SAMPLES
    trains: bool = False

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action, where the graph holds what the repair is about."""
        if not offer.data or not self.able(model.graph):
            return ()
        return (Action.of(self.name, "*", version=self.version, samples=self.samples),)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Load the constants that the action names, or compute and judge them."""
        if not self.able(editor.graph):
            kind = "float" if self.on_float else "integer"
            return Rejection(reason=f"no {kind} layer is there that it could change")
        if self.on_float and not _is_pruned(editor.model, evidence.reference):
            return Rejection(reason="nothing was pruned", needless=True)
        if self.prepare is not None:
            self.prepare(editor)
        digest = action.artifact("constants")
        stored = None if digest is None else evidence.recall(digest)
        if stored is not None and _fits(stored, editor.graph):
            self._put(editor, stored)
            return action
        made = self._fitted(editor.model, action, evidence)
        if isinstance(made, Rejection):
            return made
        self._put(editor, made)
        return action.with_artifacts(constants=evidence.keep(made))

    def _fitted(
        self, model: ir.Model, action: Action, evidence: Evidence
    ) -> dict[str, Array] | Rejection:
        samples = _affordable(int(action.get("samples")), evidence)
        reference = evidence.reference
        if reference is None:
            return Rejection(reason="the float model before quantization is not known")
        feeds = list(mixed(evidence, samples) if self.on_float else evidence.feeds(samples))
        if len(feeds) < 2:
            return Rejection(reason="it takes two calibration samples: one to fit, one to judge")
        held_back = min(max(len(feeds) // _HELD_BACK, 1), _HELD_BACK_MOST)
        fresh = feeds[-held_back:]
        constants = Constants(Editor(model.clone()))
        before = _errors(reference, constants.editor.model, fresh)
        fitting = Fitting(
            constants=constants,
            reference=reference,
            feeds=feeds[:-held_back],
            evidence=evidence,
            action=action,
        )
        try:
            self.fit(fitting)
        except Refused as refused:
            return Rejection(reason=str(refused))
        if not constants.made:
            return Rejection(reason="nothing is there that it would change")
        after = _errors(reference, constants.editor.model, fresh)
        if not (_is_nearer(before, after) or (self.trains and _is_less(before, after))):
            went = f"from {before.mean():.3g} to {after.mean():.3g}"
            reason = f"the outputs went {went} off the float ones: no more than chance"
            return Rejection(reason=reason, needless=not (self.on_float or self.trains))
        return constants.made

    def _put(self, editor: Editor, made: Mapping[str, Array]) -> None:
        for name, array in made.items():
            old = editor.graph.initializers[name]
            new = editor.initializer(f"{name}__{self.name}", array)
            editor.replace_uses(old, new)
            editor.drop_initializer(old)


def output_error(reference: ir.Model, model: ir.Model, feeds: Sequence[Feed]) -> float:
    """Mean absolute difference of all outputs over feeds, each float output in its own size.

    Of an integer output (a class, a mask) it is the share of elements that differ.
    """
    return float(_errors(reference, model, feeds).mean())


def mixed(evidence: Evidence, count: int) -> Sequence[Feed]:
    """Calibration samples, every fourth one under a built-in shift where there are such.

    No sample is there twice, so that those held back are new.
    """
    plain, shifted = evidence.feeds(count), evidence.broad(count)
    return [
        shifted[index] if index % _SHIFTED == _SHIFTED - 1 and index < len(shifted) else feed
        for index, feed in enumerate(plain)
    ]


def _affordable(samples: int, evidence: Evidence) -> int:
    """How many of them fit into memory."""
    each = sum(array.nbytes for feed in evidence.feeds(1) for array in feed.values())
    return min(samples, max(_MOST_BYTES // max(each, 1), 2))


def _is_pruned(model: ir.Model, reference: ir.Model | None) -> bool:
    """Whether a graph differs from its reference, as far as a glance tells; unknown counts."""
    if reference is None:
        return True
    held = [
        [(node.op_type, *(None if v is None else v.shape for v in node.inputs)) for node in graph]
        for graph in (reference.graph, model.graph)
    ]
    return held[0] != held[1]


def _errors(reference: ir.Model, model: ir.Model, feeds: Sequence[Feed]) -> Floats:
    """The same, of each feed."""
    names = [value.name for value in model.graph.outputs if value.name]
    pairs = zip(observe(reference, names, feeds), observe(model, names, feeds), strict=True)
    rows = [[_difference(wanted[name], found[name]) for name in names] for wanted, found in pairs]
    return np.array(rows, np.float64).reshape(len(rows), -1).mean(axis=1, dtype=np.float64)


def _difference(wanted: Array, found: Array) -> float:
    if wanted.dtype.kind != "f":
        return float((wanted != found).mean())
    spread = float(np.abs(wanted).mean()) or 1.0
    return float(np.abs(wanted - found).mean()) / spread


def _is_nearer(before: Floats, after: Floats) -> bool:
    """Whether errors fell, in the geometric mean, by more than one standard error of it.

    Ratios, since a few samples with large errors would hide what happens to the others.
    """
    gain = np.log(np.maximum(before, _NOTHING)) - np.log(np.maximum(after, _NOTHING))
    return _is_more_than_chance(gain)


def _is_less(before: Floats, after: Floats) -> bool:
    """Whether errors fell in their mean, by more than one standard error of it.

    What a training is judged by as well: of a classifier that was ruined for a third of the samples
    it rights these, and moves the others, which were right by six digits, to three.
    """
    return _is_more_than_chance(before - after)


def _is_more_than_chance(gain: Floats) -> bool:
    scatter = gain.std(ddof=1) / np.sqrt(gain.size) if gain.size > 1 else 0.0
    return bool(gain.mean() > scatter)


def _fits(stored: Mapping[str, Array], graph: ir.Graph) -> bool:
    for name, array in stored.items():
        held = array_of(graph.initializers.get(name))
        if held is None or held.shape != array.shape or held.dtype != array.dtype:
            return False
    return True
