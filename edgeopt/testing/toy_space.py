"""A search space without any graph, and a device that measures it: for tests of search and envs.

Two kinds of structure that real spaces have are in it: exact rewrites that unlock others (each
odd rewrite needs the one before it), and combinations that do not apply (a site that was pruned
hard cannot be quantized to int4). Latency has a boundary cost wherever neighbours differ in
precision, and damage to accuracy has interactions between neighbours: greedy search is misled.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from edgeopt.core.action import Action, Choice, Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.measurement import Failure, Measurement, Value
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Arrays
from edgeopt.core.samples import Interval
from edgeopt.core.trial import Trial

BASELINE = "sha256:" + "0" * 64
OBJECTIVES = (
    Objective(metric="latency"),
    Objective(metric="size"),
    Objective(metric="accuracy", direction="max"),
)
_STAGES = ("rewrite", "prune", "quantize", "repair")
_STAGE_OF = {
    "toy_rewrite": "rewrite",
    "toy_prune": "prune",
    "toy_quantize": "quantize",
    "toy_repair": "repair",
}
_WIDTH = {"float32": 1.0, "int8": 0.4, "int4": 0.3}
_BYTES = {"float32": 4.0, "int8": 1.0, "int4": 0.5}
_RUNTIMES = (
    RuntimeSettings(),
    RuntimeSettings(threads=2),
    RuntimeSettings(threads=2, spinning=False),
)
"""The toy device takes as long under each of them."""
_DAMAGE = {"float32": 0.0, "int8": 0.3, "int4": 1.5}


class ToySpace:
    """A chain of sites; each can be pruned and quantized, and there are exact rewrites.

    Implements `core.protocols.Space`.

    Args:
        sites: Length of the chain.
        rewrites: Exact rewrites; odd ones need the one before.
        seed: Of the costs.
        rows: Rows of the arrays that `observe` pads to; 0 takes what the space needs.
    """

    def __init__(self, sites: int = 8, rewrites: int = 4, *, seed: int = 0, rows: int = 0) -> None:
        generator = np.random.default_rng(seed)
        self.sites = sites
        self.rewrites = rewrites
        self.cost_s = generator.lognormal(-7.0, 0.6, sites)
        self.weights = np.round(generator.lognormal(8.0, 0.8, sites))
        self.damage = 0.02 * generator.lognormal(0.0, 1.0, sites)
        self.tension = 0.5 * generator.random(max(sites - 1, 0))
        self.boundary_s = 0.15 * float(self.cost_s.sum()) / max(sites, 1)
        self._rows = rows or 3 * sites + rewrites + sites

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """Rewrites, then prunings, then precisions (one alternative of them with a repair)."""
        found = [
            Choice(
                name=f"rewrite:{i}",
                family="rewrite",
                labels=("off", "on"),
                alternatives=((), (Action.of("toy_rewrite", f"r{i}"),)),
            )
            for i in range(self.rewrites)
        ]
        found += [self._pruning(i) for i in range(self.sites)]
        return tuple(found + [self._precision(i) for i in range(self.sites)])

    @staticmethod
    def _pruning(site: int) -> Choice:
        shares = [(Action.of("toy_prune", f"s{site}", keep=keep),) for keep in (0.75, 0.5)]
        return Choice(
            name=f"prune:s{site}",
            family="prune",
            labels=("off", "keep75", "keep50"),
            alternatives=((), *shares),
        )

    @staticmethod
    def _precision(site: int) -> Choice:
        int8 = Action.of("toy_quantize", f"s{site}", weight="int8")
        int4 = Action.of("toy_quantize", f"s{site}", weight="int4")
        bias = Action.of("toy_repair", f"s{site}")
        return Choice(
            name=f"quantize:s{site}",
            family="quantize",
            labels=("off", "int8", "int8_repaired", "int4"),
            alternatives=((), (int8,), (int8, bias), (int4,)),
        )

    @cached_property
    def _order(self) -> Mapping[Action, tuple[int, int]]:
        found: dict[Action, tuple[int, int]] = {}
        for choice in self.choices:
            for action in (a for alternative in choice.alternatives for a in alternative):
                found.setdefault(action, (_STAGES.index(_STAGE_OF[action.transform]), len(found)))
        return found

    @property
    def runtimes(self) -> tuple[RuntimeSettings, ...]:
        """The standard candidates' settings, and two others."""
        return _RUNTIMES

    def empty(self) -> Recipe:
        """The baseline."""
        return Recipe(baseline=BASELINE)

    def decode(self, codes: Sequence[int]) -> Recipe:
        """The recipe of the codes, without what does not apply.

        Raises:
            ValueError: Another number of codes than of choices, or an index out of range.
        """
        recipe = self.empty()
        wanted: list[Action] = []
        for choice, code in zip(self.choices, codes, strict=True):
            if not 0 <= code < len(choice):
                raise ValueError(f"{choice.name} has no alternative {code}")
            wanted += choice.alternatives[code]
        for action in sorted(wanted, key=self._order.__getitem__):
            longer = self.then(recipe, action)
            recipe = recipe if isinstance(longer, str) else longer
        return recipe

    def legal(self, recipe: Recipe) -> tuple[Action, ...]:
        """Every action that `then` accepts, in the order of the choices."""
        return tuple(a for a in self._order if not isinstance(self.then(recipe, a), str))

    def then(self, recipe: Recipe, action: Action) -> Recipe | str:
        """One action more, in canonical order."""
        if action not in self._order:
            return "no choice of this space offers it"
        reason = self._reason(set(recipe.actions), action)
        if reason:
            return reason
        ordered = sorted((*recipe.actions, action), key=self._order.__getitem__)
        return Recipe(baseline=BASELINE, actions=tuple(ordered))

    @staticmethod
    def _reason(done: set[Action], action: Action) -> str:
        site, kind = action.site, action.transform
        if any(a.transform == kind and a.site == site for a in done):
            return "this site has been decided"
        if kind == "toy_rewrite":
            index = int(site[1:])
            needed = Action.of("toy_rewrite", f"r{index - 1}")
            return f"r{index - 1} must come first" if index % 2 and needed not in done else ""
        hard = Action.of("toy_prune", site, keep=0.5)
        int4 = Action.of("toy_quantize", site, weight="int4")
        if (action == int4 and hard in done) or (action == hard and int4 in done):
            return "half of the channels are too few for int4"
        if kind == "toy_repair" and Action.of("toy_quantize", site, weight="int8") not in done:
            return "there is nothing to repair"
        return ""

    def standard(self) -> tuple[tuple[str, Candidate], ...]:
        """Baseline, everything exact, int8 everywhere."""
        none = [0] * len(self.choices)
        exact = [int(c.family == "rewrite") for c in self.choices]
        int8 = [int(c.family in {"rewrite", "quantize"}) for c in self.choices]
        named = (("baseline", none), ("exact", exact), ("int8", int8))
        return tuple((name, Candidate(recipe=self.decode(codes))) for name, codes in named)

    def guesses(self) -> Iterator[tuple[str, Candidate]]:
        """The same one after the other."""
        return iter(self.standard())

    def observe(self, recipe: Recipe) -> Arrays:
        """`nodes` [sites, 3], `edges` [2, sites], `actions` [rows, 4]; all padded with 0."""
        precision, kept, _, _ = self._state(recipe)
        nodes = np.zeros((self.sites, 3), dtype=np.float32)
        for i in range(self.sites):
            nodes[i] = (np.log1p(self.weights[i]), kept[i], _WIDTH[precision[i]])
        edges = np.zeros((2, self.sites), dtype=np.int32)
        edges[0, :-1], edges[1, :-1] = np.arange(self.sites - 1), np.arange(1, self.sites)
        actions = np.zeros((self._rows, 4), dtype=np.float32)
        for row, action in enumerate(self.legal(recipe)[: self._rows]):
            stage, place = self._order[action]
            actions[row] = (1.0, stage, place / len(self._order), int(action.site[1:]))
        return {"nodes": nodes, "edges": edges, "actions": actions}

    def static_cost(self, recipe: Recipe) -> Mapping[str, float]:
        """Exact and deterministic."""
        precision, kept, rewrites, _ = self._state(recipe)
        size = sum(self.weights[i] * kept[i] * _BYTES[precision[i]] for i in range(self.sites))
        macs = float((self.weights * kept).sum()) * (1 - 0.02 * len(rewrites))
        return {
            "macs": macs,
            "size_bytes": float(size),
            "activation_bytes": float(64 * kept.sum()),
            "nodes": float(2 * self.sites + self.rewrites - len(rewrites)),
        }

    def true_values(self, recipe: Recipe) -> Mapping[str, float]:
        """`latency` in seconds, `size` in bytes and `accuracy`, without noise."""
        precision, kept, rewrites, repaired = self._state(recipe)
        cost_s = float(sum(self.cost_s * kept * [_WIDTH[p] for p in precision]))
        cost_s += self.boundary_s * sum(
            (a == "float32") != (b == "float32") for a, b in pairwise(precision)
        )
        repair = np.array([0.5 if i in repaired else 1.0 for i in range(self.sites)])
        hurt = self.damage * repair * [_DAMAGE[p] for p in precision]
        hurt = hurt + self.damage * 4 * (1 - kept) ** 2
        pairs = self.tension * np.sqrt(hurt[:-1] * hurt[1:])
        accuracy = 0.95 * float(np.exp(-hurt.sum() - pairs.sum()))
        size = self.static_cost(recipe)["size_bytes"]
        return {
            "latency": cost_s * (1 - 0.03 * len(rewrites)),
            "size": size,
            "accuracy": accuracy,
        }

    def _state(
        self, recipe: Recipe
    ) -> tuple[list[str], npt.NDArray[np.float64], set[str], set[int]]:
        precision = ["float32"] * self.sites
        kept = np.ones(self.sites)
        rewrites: set[str] = set()
        repaired: set[int] = set()
        for action in recipe.actions:
            index = int(action.site[1:])
            if action.transform == "toy_rewrite":
                rewrites.add(action.site)
            elif action.transform == "toy_prune":
                kept[index] = float(action.get("keep"))
            elif action.transform == "toy_quantize":
                precision[index] = str(action.get("weight"))
            else:
                repaired.add(index)
        return precision, kept, rewrites, repaired


class ToyDevice:
    """Turns candidates of a `ToySpace` into trials, with noise that depends on the candidate only.

    Args:
        space: What the candidates come from.
        seed: Of noise and failures.
        noise: Relative spread of a latency.
        failing: Share of the candidates that fail when they are loaded; never the baseline.
    """

    def __init__(
        self, space: ToySpace, *, seed: int = 0, noise: float = 0.015, failing: float = 0.05
    ) -> None:
        self._space = space
        self._seed = seed
        self._noise = noise
        self._failing = failing

    def measure(
        self, candidates: Sequence[Candidate], *, start: int = 0, strategy: str = "toy"
    ) -> tuple[Trial, ...]:
        """One trial a candidate, numbered from `start`."""
        return tuple(
            self._trial(start + i, candidate, strategy) for i, candidate in enumerate(candidates)
        )

    def _trial(self, number: int, candidate: Candidate, strategy: str) -> Trial:
        generator = np.random.default_rng([self._seed, zlib.crc32(candidate.key.encode())])
        fails = generator.random() < self._failing and not candidate.is_baseline
        outcome = self._failure() if fails else self._measurement(candidate, generator)
        return Trial(
            number=number,
            candidate=candidate,
            device="toy",
            protocol="quick",
            strategy=strategy,
            outcome=outcome,
            device_s=1.0,
        )

    @staticmethod
    def _failure() -> Failure:
        return Failure(stage="load", reason="the toy device refuses this candidate")

    def _measurement(self, candidate: Candidate, generator: np.random.Generator) -> Measurement:
        true = self._space.true_values(candidate.recipe)
        latency_s = true["latency"] * float(np.exp(self._noise * generator.standard_normal()))
        width = 2 * self._noise
        interval = Interval(
            value=latency_s, low=latency_s * (1 - width), high=latency_s * (1 + width)
        )
        return Measurement(
            values={
                "latency": Value(value=latency_s, unit="s", interval=interval),
                "size": Value(value=true["size"], unit="B"),
                "accuracy": Value(value=true["accuracy"], unit="1"),
            }
        )
