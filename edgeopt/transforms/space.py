"""`GraphSpace`: what can be done to one model on one device; implements `core.protocols.Space`.

Two views of the same moves. As *choices* (integer codes, integer programs): the pre-pass of exact
transforms that never lose as a whole, each other exact transform on or off at all its sites, each
macro of them with its alternatives, each prune group and each quantize group with its alternatives,
each repair on or off. As *steps* (environments, tree search): one action at one site of the graph.
"""

import itertools
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import onnx_ir as ir

from edgeopt import plugins
from edgeopt.core.action import Action, Choice, Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.protocols import Arrays
from edgeopt.graph.cost import static_cost
from edgeopt.graph.editor import Editor
from edgeopt.graph.features import features
from edgeopt.transforms.base import EXACT, STAGES, Offer, Rejection, ShelfName
from edgeopt.transforms.bodies import sites_of
from edgeopt.transforms.canonicalize import ALWAYS, canonicalize
from edgeopt.transforms.canonicalize import NAME as CANONICAL
from edgeopt.transforms.choices import (
    check_codes,
    decision,
    for_speed,
    grouped,
    in_order,
    label,
    needed,
    on_off,
    scheme_of,
    too_late,
)
from edgeopt.transforms.concrete import ConcreteShapes, Shapes
from edgeopt.transforms.groups import releasable_stem
from edgeopt.transforms.guesses import HALF, WITH_HALF, first_guesses
from edgeopt.transforms.macros import JOINT, MACROS, macro
from edgeopt.transforms.replay import ActionRejected, Built, Workshop, attempt
from edgeopt.transforms.shared import Shared, remember
from edgeopt.transforms.stages import (
    MEND_STAGE,
    PRUNE_STAGE,
    ends_steps,
    reached,
    repairs_float,
    stage_of,
    stage_of_shelf,
    transform_of,
)
from edgeopt.transforms.training import price_s, trained

FAMILIES: tuple[str, ...] = STAGES
_ROUNDS = 20
_KEPT_BYTES, _FEWEST_KEPT = 512_000_000, 4
_OURS_FIRST = 9
_LISTS_KEPT, _RECIPES_KEPT = 512, 4096


@dataclass(frozen=True, slots=True)
class _Fixpoint:
    """All exact actions in an order in which they apply, and the graph behind them."""

    actions: tuple[Action, ...]
    graph: ir.Model


class GraphSpace:
    """The space of one model under one offer.

    Args:
        workshop: Builds the graphs.
        offer: Decides which actions exist; without data only exact ones do.
        families: Shelves whose transforms may be used.
        runtime: Settings of the standard candidates.
        runtimes: Alternatives to them that the device allows, most promising first.
        usual: What a competent user would set on the device's provider, by name: each is a
            standard candidate of the given model.
        kept: Number of built graphs to keep; fewer where the model is large.
    """

    def __init__(
        self,
        workshop: Workshop,
        offer: Offer,
        *,
        families: Sequence[str] = FAMILIES,
        runtime: RuntimeSettings | None = None,
        runtimes: Sequence[RuntimeSettings] = (),
        usual: Sequence[tuple[str, RuntimeSettings]] = (),
        kept: int = 128,
    ) -> None:
        self.workshop = workshop
        self.offer = offer
        self._families: tuple[ShelfName, ...] = tuple(
            family for family in STAGES if family in families
        )
        self._runtime = runtime or RuntimeSettings()
        others = {each.text: each for each in runtimes if each != self._runtime}
        self._runtimes = (self._runtime, *others.values())
        self._usual = tuple(usual)
        self._guesses = Shared(self._first_of_each())
        self._kept = min(kept, max(_FEWEST_KEPT, _KEPT_BYTES // workshop.model.size_bytes))
        self._built: OrderedDict[str, Built] = OrderedDict()
        self._legal: OrderedDict[str, tuple[Action, ...]] = OrderedDict()
        self._decoded: OrderedDict[str, Recipe] = OrderedDict()
        self._costs: OrderedDict[str, dict[str, float]] = OrderedDict()

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """The pre-pass, exact transforms that have sites, macros, then prune, quantize, repair."""
        found = [
            on_off(f"{shelf}:{name}", shelf, actions)
            for (shelf, name), actions in self._exact_by_transform().items()
        ]
        found += self._macros
        families: tuple[ShelfName, ...] = ("prune", "quantize")
        for family in families:
            found += grouped(family, self._listed(family, self._fixpoint.graph))
        if any(choice.family == "prune" for choice in found):
            found += self._mends()
        if any(choice.family == "quantize" for choice in found):
            found += self._repairs()
        return tuple(found)

    @property
    def fixpoint(self) -> tuple[Action, ...]:
        """All exact actions but those of macros, in an order in which they apply."""
        return self._fixpoint.actions

    @property
    def runtimes(self) -> tuple[RuntimeSettings, ...]:
        """The standard candidates' settings first, then the alternatives, each once."""
        return self._runtimes

    def empty(self) -> Recipe:
        """The baseline."""
        return self.workshop.recipe()

    def decode(self, codes: Sequence[int]) -> Recipe:
        """The recipe of one alternative a choice; what does not apply is left out.

        Raises:
            UsageError: Too many or too few codes, or one without an alternative.
        """
        check_codes(codes, self.choices)
        key = " ".join(map(str, codes))
        if key not in self._decoded:
            remember(self._decoded, key, self._decode(codes), _RECIPES_KEPT)
        return self._decoded[key]

    def _decode(self, codes: Sequence[int]) -> Recipe:
        chosen = [
            action
            for choice, code in zip(self.choices, codes, strict=True)
            for action in choice.alternatives[code]
        ]
        chosen = in_order(needed(chosen), self._fixpoint.actions)
        return self._build(self.workshop.recipe(chosen), lenient=True).recipe

    def legal(self, recipe: Recipe) -> tuple[Action, ...]:
        """Single-site actions that apply to the graph of a recipe, in stage and graph order.

        A recipe grows stage by stage: exact actions are offered until the first prune action,
        prune actions until the first quantize action, and so on.
        """
        if recipe.digest not in self._legal:
            found = dict.fromkeys(
                action
                for family in self._families
                if self._open(family, recipe)
                for action in self._listed(family, self.graph(recipe))
                if stage_of(action) != MEND_STAGE or PRUNE_STAGE <= reached(recipe) <= MEND_STAGE
            )
            decided = {decision(action) for action in recipe.actions if stage_of(action)}
            legal = tuple(action for action in found if decision(action) not in decided)
            remember(self._legal, recipe.digest, legal, _LISTS_KEPT)
        return self._legal[recipe.digest]

    def then(self, recipe: Recipe, action: Action) -> Recipe | str:
        """The recipe with one more action, or the reason why it does not apply."""
        if action.bare() not in self.legal(recipe):
            return self._why_not(recipe, action)
        try:
            grown = self.workshop.recipe([*recipe.actions, action.bare()])
            return self._build(grown, lenient=False).recipe
        except ActionRejected as error:
            return error.rejection.reason

    def standard(self) -> tuple[tuple[str, Candidate], ...]:
        """The baseline, our first guesses, what a competent user would try, and the rest."""
        return tuple(self.guesses())

    def guesses(self) -> Iterator[tuple[str, Candidate]]:
        """The same one after the other, each decoded when it is asked for.

        Decoding one may take a calibration and the fit of a repair, half a minute on some models.
        """
        return iter(self._guesses)

    def trained(self, recipe: Recipe) -> Iterator[tuple[str, Candidate]]:
        """A recipe with a training behind what was pruned or quantized; see `training`."""
        made = trained(
            recipe,
            build=lambda actions: self._build(self.workshop.recipe(actions), lenient=True),
            offered=lambda graph: self._listed("repair", graph),
            integers=self._in_integers,
        )
        for name, grown in made:
            yield name, self._candidate(grown)

    @cached_property
    def training_s(self) -> float:
        """What one training takes, in seconds of one core; 0 where none is offered."""
        return price_s(self._listed("repair", self._fixpoint.graph))

    def usual(self) -> Iterator[tuple[str, Candidate]]:
        """What a user would try without edgeopt, what may gain most first: tools that quantize,
        the runtime's levels and providers, other tools."""
        yield from self._tools([family for family in self._families if family == "quantize"])
        for level in ("basic", "extended"):
            runtime = replace(self._runtime, optimization=level)
            yield f"runtime_{level}", Candidate(recipe=self.empty(), runtime=runtime)
        for name, runtime in self._usual:
            yield name, Candidate(recipe=self.empty(), runtime=runtime)
        yield from self._tools([family for family in self._families if family != "quantize"])

    def _tools(self, families: Sequence[ShelfName]) -> Iterator[tuple[str, Candidate]]:
        for family in families:
            for action in self._listed(family, self.workshop.normalized, whole_model=True):
                yield label(action), self._candidate(self.workshop.recipe([action]))

    def _first_of_each(self) -> Iterator[tuple[str, Candidate]]:
        """All of them, of equal candidates the first."""
        ours = ((name, self._candidate(recipe)) for name, recipe in self._everything())
        named = itertools.chain(
            [("baseline", self._candidate(self.empty()))],
            itertools.islice(ours, _OURS_FIRST),
            self.usual(),
            ours,
        )
        seen: set[str] = set()
        for name, candidate in named:
            if candidate.key not in seen:
                seen.add(candidate.key)
                yield name, candidate

    def observe(self, recipe: Recipe) -> Arrays:
        """Graph and legal actions as arrays; see `graph.features`."""
        graph = self.graph(recipe)
        return features(graph, self.legal(recipe), shapes=self._shapes.of(graph))

    def static_cost(self, recipe: Recipe) -> Mapping[str, float]:
        """Exact figures of the built graph; the baseline's size is that of the user's file."""
        if recipe.digest not in self._costs:
            graph = self.graph(recipe)
            cost = static_cost(graph, self._shapes.of(graph))
            if not recipe.actions:
                cost["size_bytes"] = float(self.workshop.model.size_bytes)
            remember(self._costs, recipe.digest, cost, _RECIPES_KEPT)
        return dict(self._costs[recipe.digest])

    def graph(self, recipe: Recipe) -> ir.Model:
        """The graph of a recipe that this space decoded, for reading only; of the baseline the
        normalised model, which moves act on."""
        if not recipe.actions:
            return self.workshop.normalized
        return self._build(recipe, lenient=False).graph

    def shapes_of(self, graph: ir.Model) -> Shapes | None:
        """Concrete shapes of a graph of this space; None where there is no real input."""
        return self._shapes.of(graph)

    @cached_property
    def _shapes(self) -> ConcreteShapes:
        return ConcreteShapes(self.workshop.normalized, self.workshop.feed)

    @cached_property
    def _fixpoint(self) -> _Fixpoint:
        """Every exact transform but those of macros at every site, until none has one left: the
        pre-pass, then the others, and again."""
        editor = Editor(self.workshop.normalized.clone())
        done: list[Action] = []
        for _ in range(_ROUNDS):
            before = len(done)
            evidence = self.workshop.evidence
            done += canonicalize(editor, self.offer, evidence, families=self._exact_families)
            for family in self._exact_families:
                done += self._exhaust(editor, family)
            if len(done) == before:
                break
        editor.model.graph.sort()
        return _Fixpoint(tuple(done), editor.model)

    def _exhaust(self, editor: Editor, family: ShelfName) -> list[Action]:
        listed = self._listed(family, editor.model)
        left = JOINT | ALWAYS
        return self._done(editor, [action for action in listed if action.transform not in left])

    @property
    def _exact_families(self) -> list[ShelfName]:
        return [family for family in self._families if family in EXACT]

    @cached_property
    def _macros(self) -> tuple[Choice, ...]:
        """Of each macro that has sites behind the fixpoint its choice."""
        if "rewrite" not in self._families:
            return ()
        found: list[Choice] = []
        for name, steps in MACROS.items():
            editor = Editor(self._fixpoint.graph.clone())

            def exhaust(step: str, editor: Editor = editor) -> list[Action]:
                family, transform = transform_of(step)
                sites = tuple(sites_of(family, transform, editor.model, self.offer))
                return self._done(editor, sites)

            choice = macro(name, steps, exhaust)
            found += [] if choice is None else [choice]
        return tuple(found)

    def _done(self, editor: Editor, actions: Sequence[Action]) -> list[Action]:
        """Do what applies of some actions; says what that was."""
        done: list[Action] = []
        for action in actions:
            mark = editor.mark()
            made = attempt(editor, action, self.workshop.evidence)
            if isinstance(made, Rejection):
                editor.undo(mark)
            else:
                done.append(made)
        return done

    def _exact_by_transform(self) -> dict[tuple[ShelfName, str], list[Action]]:
        found: dict[tuple[ShelfName, str], list[Action]] = {}
        for action in self._fixpoint.actions:
            key = transform_of(action.transform)[0], action.transform
            if action.transform in ALWAYS:
                key = self._exact_families[0], CANONICAL
            found.setdefault(key, []).append(action)
        return dict(sorted(found.items(), key=lambda item: STAGES.index(item[0][0])))

    def _mends(self) -> list[Choice]:
        """Each repair of what is pruned on or off."""
        found = self._quick_repairs(self._fixpoint.graph, on_float=True)
        return [on_off(f"repair:{n}", "repair", each, mends=True) for n, each in found.items()]

    def _repairs(self) -> list[Choice]:
        """Each repair on or off: at all its sites on the graph with everything quantized."""
        if "repair" not in self._families:
            return []
        quantized = self.graph(self._all_quantized(self._fixpoint.actions))
        found = self._quick_repairs(quantized, on_float=False)
        return [on_off(f"repair:{name}", "repair", each) for name, each in found.items()]

    def _quick_repairs(self, graph: ir.Model, *, on_float: bool) -> dict[str, list[Action]]:
        """By name, without those that would use up a search: a minute a candidate (`costly`)."""
        found: dict[str, list[Action]] = {}
        for action in self._listed("repair", graph):
            transform = transform_of(action.transform)[1]
            if repairs_float(transform) == on_float and not getattr(transform, "costly", False):
                found.setdefault(action.transform, []).append(action)
        return found

    def _all_quantized(self, exact: Sequence[Action]) -> Recipe:
        recipe = self.workshop.recipe([*exact, *self._in_integers(self._fixpoint.graph)])
        return self._build(recipe, lenient=True).recipe

    def _in_integers(self, graph: ir.Model) -> list[Action]:
        groups = grouped("quantize", self._listed("quantize", graph))
        return [action for one in groups for action in one.alternatives[for_speed(one)]]

    def _everything(self) -> Iterator[tuple[str, Recipe]]:
        """Ours, most promising first."""
        stem = releasable_stem(self._fixpoint.graph)
        typed: list[tuple[str, Recipe]] = []
        able = self.training_s > 0
        for name, codes in first_guesses(self.choices, self._macros, stem, trains=able).items():
            recipe = self.decode(codes)
            typed += [(name, recipe)] * (name in WITH_HALF)
            yield name, recipe
        yield from self._typed(typed)
        if any(choice.family == "quantize" for choice in self.choices):
            alone = self.workshop.recipe(self._in_integers(self.workshop.normalized))
            yield "quantize", self._build(alone, lenient=True).recipe

    def _typed(self, bases: Sequence[tuple[str, Recipe]]) -> Iterator[tuple[str, Recipe]]:
        """Of ours those with what stays float in half precision, where that is offered."""
        whole = self._listed("quantize", self._fixpoint.graph, whole_model=True)
        half = [action for action in whole if scheme_of(action) == HALF]
        for name, recipe in bases if half else ():
            grown = self._build(self.workshop.recipe([*recipe.actions, *half]), lenient=True)
            yield f"{name}+{HALF}", grown.recipe

    def _listed(
        self, family: ShelfName, graph: ir.Model, *, whole_model: bool = False
    ) -> tuple[Action, ...]:
        """Actions of a shelf on a graph, as far as they are offered.

        Transforms that are there to compare with (`control`) are for recipes only.
        """
        if family not in self._families or not (self.offer.data or family in EXACT):
            return ()
        shelf = plugins.SHELVES[family]
        return tuple(
            dict.fromkeys(
                action
                for transform in (transform_of(name)[1] for name in shelf.names())
                if transform.whole_model == whole_model
                if not getattr(transform, "control", False)
                if self.offer.data or not transform.needs_data
                for action in sites_of(family, transform, graph, self.offer)
            )
        )

    def _open(self, family: ShelfName, recipe: Recipe) -> bool:
        """Whether the recipe has not gone beyond the stage of a family."""
        if any(ends_steps(action) for action in recipe.actions):
            return False
        return stage_of_shelf(family) >= reached(recipe)

    def _why_not(self, recipe: Recipe, action: Action) -> str:
        late = too_late(recipe, action)
        if late is not None:
            return late
        try:
            self.workshop.build(self.workshop.recipe([*recipe.actions, action.bare()]))
        except ActionRejected as error:
            return error.rejection.reason
        return "it is not offered on this device, or not with this data"

    def _build(self, recipe: Recipe, *, lenient: bool) -> Built:
        """A build that nobody may change, from the kept ones where it is there."""
        held = self._built.get(recipe.digest)
        if held is not None and (lenient or not held.rejected):
            self._built.move_to_end(recipe.digest)
            return held
        built = self.workshop.read(recipe, lenient=lenient)
        remember(self._built, recipe.digest, built, self._kept)
        if built.rejected:
            remember(self._built, built.recipe.digest, replace(built, rejected=()), self._kept)
        return built

    def _candidate(self, recipe: Recipe) -> Candidate:
        return Candidate(recipe=recipe, runtime=self._runtime)
