"""From a recipe to a graph: `Workshop` builds, and proves that exact actions were exact.

The user's file is opened once and normalised once; every build is a clone (tensors are shared)
with actions applied. Graphs after the exact prefix are kept, since a search changes the
assignment behind it far more often than the prefix itself; so are the latest graphs that were
read, since the next recipe often says the same and more.
"""

import gc
from collections import OrderedDict
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import onnx_ir as ir

from edgeopt.core.action import Action, Recipe
from edgeopt.core.data import Feed
from edgeopt.core.model import Model
from edgeopt.errors import UsageError
from edgeopt.graph.clone import cloned
from edgeopt.graph.editor import Editor
from edgeopt.graph.normalize import normalize
from edgeopt.graph.read import open_graph
from edgeopt.transforms.base import Evidence, Rejection
from edgeopt.transforms.bodies import apply_at
from edgeopt.transforms.local_rule import opset_of
from edgeopt.transforms.stages import (
    EXACT_STAGE,
    MEND_STAGE,
    PRUNE_STAGE,
    canonical,
    exact_prefix,
    stage_of,
    transform_of,
)
from edgeopt.transforms.verification import Verifier

__all__ = ["ActionRejected", "Built", "Workshop", "attempt", "canonical", "transform_of"]

_PREFIXES_KEPT = 16
_READ_KEPT = 8
_GARBAGE_BYTES = 256_000_000
_BUILDS_BETWEEN_COLLECTIONS = (4, 64)


class ActionRejected(UsageError):  # noqa: N818 (named for what happened to the action)
    """An action of a recipe does not apply to this model.

    Args:
        action: The one at fault.
        position: Its place in canonical order, from 1.
        rejection: Why.
    """

    def __init__(self, action: Action, position: int, rejection: Rejection) -> None:
        super().__init__(
            f"action {position} of the recipe does not apply: {rejection.reason}",
            where=action.text,
            hint="take the action out of the recipe, or use a model that has this site",
        )
        self.action = action
        self.position = position
        self.rejection = rejection


@dataclass(frozen=True, kw_only=True)
class Built:
    """A graph made from a recipe.

    Args:
        graph: Owned by the caller of `build`; shared, and never to be changed, from `read`.
        recipe: What was done: canonical order, artifacts and opset filled in.
        rejected: What was left out (lenient builds only), with the reasons.
    """

    graph: ir.Model
    recipe: Recipe
    rejected: tuple[tuple[Action, Rejection], ...] = ()


@dataclass(frozen=True, slots=True)
class _LeftOut:
    action: Action
    position: int
    rejection: Rejection


@dataclass(frozen=True, slots=True)
class _Progress:
    """A graph after some actions; never mutated once it is kept."""

    graph: ir.Model
    done: tuple[Action, ...] = ()
    rejected: tuple[_LeftOut, ...] = ()


class Workshop:
    """Builds graphs of one model from recipes. Not safe to share between threads.

    Args:
        model: The user's file; never written.
        evidence: What transforms may ask about data.
        opset_ceiling: The highest operator set that the study's devices take.
        feed: One real feed, whose shapes stand in for free dimensions; None without data.
        data_digest: Of the data set behind the evidence; empty without data.
    """

    def __init__(
        self,
        model: Model,
        *,
        evidence: Evidence,
        opset_ceiling: int,
        feed: Feed | None,
        data_digest: str = "",
    ) -> None:
        self.model = model
        self.evidence = evidence
        self.opset_ceiling = opset_ceiling
        self.feed = feed
        self.data_digest = data_digest
        self._prefixes: OrderedDict[tuple[int, tuple[Action, ...]], _Progress] = OrderedDict()
        self._read: list[tuple[int, tuple[Action, ...], _Progress]] = []
        self._normalized: dict[int, ir.Model] = {}
        self._verifier: Verifier | None = None
        self._builds = 0

    @property
    def normalized(self) -> ir.Model:
        """The model as all actions meet it; shared, so never mutate it."""
        return self._at(self.opset_ceiling)

    def recipe(self, actions: Iterable[Action] = ()) -> Recipe:
        """A recipe for this model: canonical order, and the header that belongs to it."""
        ordered = canonical(actions)
        if not ordered:
            return Recipe(baseline=self.model.digest)
        uses_data = any(transform_of(action.transform)[1].needs_data for action in ordered)
        return Recipe(
            baseline=self.model.digest,
            actions=ordered,
            opset=opset_of(self.normalized),
            data=self.data_digest if uses_data else "",
        )

    def build(self, recipe: Recipe, *, lenient: bool = False) -> Built:
        """The graph of a recipe; of the empty recipe the user's file as it is.

        A recipe that was written for another file (a retrained model) loses its artifacts, and
        they are computed again.

        Raises:
            ActionRejected: An action does not apply, and the build is strict.
            UsageError: An action names a transform that does not exist.
        """
        return self._made(recipe, lenient=lenient, shared=False)

    def read(self, recipe: Recipe, *, lenient: bool = False) -> Built:
        """As `build`, for reading only: the graph is kept, and a recipe that says the same and
        more is built from it.
        """
        return self._made(recipe, lenient=lenient, shared=True)

    def _made(self, recipe: Recipe, *, lenient: bool, shared: bool) -> Built:
        if not recipe.actions:
            return Built(graph=open_graph(self.model), recipe=self.recipe())
        actions = canonical(recipe.actions)
        if recipe.baseline != self.model.digest:
            actions = tuple(action.bare() for action in actions)
        ceiling = self._ceiling(recipe)
        self._collect()
        with _collection_paused():
            progress = self._assembled(ceiling, actions, lenient, shared)
        left_out = tuple((one.action, one.rejection) for one in progress.rejected)
        if not progress.done:
            return replace(self.build(self.recipe()), rejected=left_out)
        made = replace(self.recipe(progress.done), opset=opset_of(self._at(ceiling)))
        return Built(graph=progress.graph, recipe=made, rejected=left_out)

    def verify(self, built: Built) -> None:
        """Prove that the exact actions of a build kept the outputs, on real feeds.

        Raises:
            WrongOutputError: They did not; the message names the action that is guilty.
        """
        if not built.recipe.actions:
            return
        if self._verifier is None:
            self._verifier = Verifier(self.model, self.evidence, self.feed)
        ceiling = self._ceiling(built.recipe)
        exact = exact_prefix(built.recipe.actions)
        self._verifier.check(exact, lambda some: self._kept(ceiling, some, False).graph)

    def _collect(self) -> None:
        """Free the cycles of graphs that are no longer used, before they hold much memory."""
        fewest, most = _BUILDS_BETWEEN_COLLECTIONS
        self._builds += 1
        if self._builds >= min(max(_GARBAGE_BYTES // self.model.size_bytes, fewest), most):
            self._builds = 0
            gc.collect()

    def _ceiling(self, recipe: Recipe) -> int:
        """The opset that a recipe was written for, else this workshop's."""
        same = recipe.opset in (0, opset_of(self.normalized))
        return self.opset_ceiling if same else recipe.opset

    def _at(self, ceiling: int) -> ir.Model:
        if ceiling not in self._normalized:
            graph = open_graph(self.model)
            made = normalize(graph, opset_ceiling=ceiling, feed=self.feed)
            made.graph.sort()
            self._normalized[ceiling] = made
        return self._normalized[ceiling]

    def _assembled(
        self, ceiling: int, actions: tuple[Action, ...], lenient: bool, shared: bool
    ) -> _Progress:
        """A graph after actions in canonical order, which the caller owns if it is not shared."""
        size = sum(stage_of(action) <= MEND_STAGE for action in actions)
        start = self._kept(ceiling, actions[:size], lenient)
        if size < len(actions):
            # Quantization and repair are about the float graph, as it is before them.
            self.evidence.remember_float(start.graph)
        for at, done, progress in self._read:
            length = len(done)
            if at == ceiling and size < length and done == actions[:length]:
                start, size = progress, length
        if shared and size == len(actions):
            _refuse_rejected(start, lenient)
            return start
        made = self._applied(start, actions[size:], lenient)
        if shared:
            # Under the name of what was asked for, and of what was really done.
            self._read += [
                (ceiling, actions, made),
                (ceiling, made.done, replace(made, rejected=())),
            ]
            del self._read[: -2 * _READ_KEPT]
        return made

    def _kept(self, ceiling: int, actions: tuple[Action, ...], lenient: bool) -> _Progress:
        """The graph after exact actions, prune actions and repairs of these, from the longest
        part of them that is kept.
        """
        length = len(actions)
        while length and (ceiling, actions[:length]) not in self._prefixes:
            length -= 1
        start = _Progress(self._at(ceiling))
        if length:
            start = self._prefixes[ceiling, actions[:length]]
            self._prefixes.move_to_end((ceiling, actions[:length]))
        exact = sum(stage_of(action) == EXACT_STAGE for action in actions)
        pruned = sum(stage_of(action) <= PRUNE_STAGE for action in actions)
        if max(length, pruned) < len(actions):
            # What pruning did is judged by the graph before it.
            self.evidence.remember_float(self._kept(ceiling, actions[:exact], lenient).graph)
        for end in (exact, pruned, len(actions)):
            if end > length:
                start = self._applied(start, actions[length:end], lenient)
                start.graph.graph.sort()
                self._prefixes[ceiling, actions[:end]] = start
                # The same graph under the name of what was really done: the recipe that results.
                self._prefixes[ceiling, start.done] = _Progress(start.graph, start.done)
                length = end
        while len(self._prefixes) > _PREFIXES_KEPT:
            self._prefixes.popitem(last=False)
        _refuse_rejected(start, lenient)
        return start

    def _applied(self, start: _Progress, actions: Sequence[Action], lenient: bool) -> _Progress:
        """A clone of `start` with more actions done to it."""
        _refuse_rejected(start, lenient)
        editor = Editor(cloned(start.graph))
        done, rejected = list(start.done), list(start.rejected)
        for action in actions:
            mark = editor.mark()
            made = attempt(editor, action, self.evidence)
            if not isinstance(made, Rejection):
                done.append(made)
                continue
            editor.undo(mark)
            position = len(done) + len(rejected) + 1
            if not lenient:
                raise ActionRejected(action, position, made)
            rejected.append(_LeftOut(action, position, made))
        return _Progress(editor.model, tuple(done), tuple(rejected))


@contextmanager
def _collection_paused() -> Generator[None]:
    """No search for cycles meanwhile: with many graphs in memory it doubles a build's time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _refuse_rejected(progress: _Progress, lenient: bool) -> None:
    """A kept graph may come from a lenient build: what it left out counts in a strict one."""
    if progress.rejected and not lenient:
        first = progress.rejected[0]
        raise ActionRejected(first.action, first.position, first.rejection)


def attempt(editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
    """Apply one action; the caller undoes a rejected one.

    Raises:
        UsageError: The action names a transform that does not exist.
    """
    family, transform = transform_of(action.transform)
    if action.version != transform.version:
        reason = f"it is of version {action.version}, this edgeopt has {transform.version}"
        return Rejection(reason=reason)
    return apply_at(family, transform, editor, action, evidence)
