"""`Rewriting`: the exact rules of the rule language as a space of steps, on a live graph.

A step is one rewrite of the engine, taking one back is its undo: nothing is cloned, normalised or
listed anew, and rows of nodes that an edit did not concern are kept. Recipes are those of the
space of the same model, so that what was found here is built and verified there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action, Choice, Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.protocols import Arrays
from edgeopt.errors import UsageError
from edgeopt.graph.features import NODE_COLUMNS, node_row, operator_code, transform_code
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.rules.engine import Engine, Site
from edgeopt.transforms.rules.form import Rule

_MACS, _PARAMS, _MADE = (NODE_COLUMNS.index(name) for name in ("macs", "params", "made_bytes"))
_DEPTH = NODE_COLUMNS.index("depth")
_ANCHORS = 4
_FLOAT_BYTES = 4.0
Row = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """What is shown of a node: its code, its row, and the nodes that it reads from."""

    code: int
    row: Row
    makers: tuple[ir.Node, ...]


class Rewriting:
    """Implements `core.protocols.Space` by an engine. Not safe to share between threads.

    Args:
        graph: Changed in place; the caller gives it away. Sorted, with shapes.
        rules: What may be done.
        baseline: Digest of the model that recipes are for.
        nodes, edges, actions: Rows of the arrays; what is beyond is left out.
    """

    choices: tuple[Choice, ...] = ()
    runtimes = (RuntimeSettings(),)

    def __init__(
        self,
        graph: ir.Model,
        rules: Sequence[Rule],
        *,
        baseline: str,
        nodes: int = 512,
        edges: int = 1024,
        actions: int = 256,
    ) -> None:
        self._engine = Engine(graph, rules)
        self._empty = Recipe(baseline=baseline, opset=graph.graph.opset_imports.get("", 0))
        self._limits = nodes, edges, actions
        self._at: tuple[Action, ...] = ()
        self._sites: dict[Action, Site] | None = None
        self._drawn: tuple[list[ir.Node], Row] | None = None
        self._seen: dict[ir.Node, _Seen] = {}
        """Kept until an edit concerns what a node makes or reads."""

    def empty(self) -> Recipe:
        """The graph as it was given."""
        return self._empty

    def decode(self, codes: Sequence[int]) -> Recipe:
        """There are no choices here, only steps."""
        del codes
        return self._empty

    def legal(self, recipe: Recipe) -> tuple[Action, ...]:
        """Every site of every rule on the graph of a recipe."""
        return tuple(self._listed(recipe))

    def then(self, recipe: Recipe, action: Action) -> Recipe | str:
        """One rewrite more."""
        site = self._listed(recipe).get(action)
        if site is None:
            return "no rule has this site on the graph as it is"
        refused = self._engine.apply(site)
        if isinstance(refused, Rejection):
            return refused.reason
        self._moved((*self._at, action))
        return recipe.then(action)

    def standard(self) -> tuple[tuple[str, Candidate], ...]:
        """The graph as it was given."""
        return (("baseline", Candidate(recipe=self._empty)),)

    def guesses(self) -> Iterator[tuple[str, Candidate]]:
        """The same."""
        return iter(self.standard())

    def observe(self, recipe: Recipe) -> Arrays:
        """As `graph.features`, in its codes: `node_op`, `node_x`, `edge_index`, `action_type` and
        `action_nodes`. Depth is the place in the order of nodes."""
        legal = self._listed(recipe)
        most, edges, actions = self._limits
        every, rows = self._table()
        nodes, table = every[:most], rows[:most]
        shown = [self._seen[node] for node in nodes]
        place = {node: index for index, node in enumerate(nodes)}
        seen = np.full((2, edges), most - 1, np.int32)
        ends = [(place[m], n) for n, one in enumerate(shown) for m in one.makers if m in place]
        for side, found in enumerate(zip(*ends[:edges], strict=True)):
            seen[side, : len(found)] = found
        kinds = np.zeros(actions, np.int32)
        near = np.zeros((actions, _ANCHORS), np.int32)
        for row, (action, site) in enumerate(list(legal.items())[:actions]):
            kinds[row] = _kind(action.transform)
            around = [place[n] + 1 for n in site.match.nodes.values() if n in place][:_ANCHORS]
            near[row, : len(around)] = around
        operators = np.zeros(most, np.int32)
        operators[: len(nodes)] = [one.code for one in shown]
        whole = np.zeros((most, len(NODE_COLUMNS)), np.float32)
        whole[: len(nodes)] = table
        return {
            "node_op": operators,
            "node_x": whole,
            "edge_index": seen,
            "action_type": kinds,
            "action_nodes": near,
        }

    def static_cost(self, recipe: Recipe) -> Mapping[str, float]:
        """`macs`, `size_bytes` (of constants as float32), `activation_bytes` (made by all nodes)
        and `nodes`, summed over rows of nodes: what differs between rewrites, not a file's size."""
        self._seek(recipe)
        nodes, table = self._table()
        sums = (np.exp2(table[:, : _MADE + 1].astype(np.float64)) - 1).sum(axis=0)
        return {
            "macs": float(sums[_MACS]),
            "size_bytes": _FLOAT_BYTES * float(sums[_PARAMS]),
            "activation_bytes": float(sums[_MADE]),
            "nodes": float(len(nodes)),
        }

    def _listed(self, recipe: Recipe) -> Mapping[Action, Site]:
        self._seek(recipe)
        if self._sites is None:
            self._sites = {site.action: site for site in reversed(self._engine.sites())}
        return self._sites

    def _seek(self, recipe: Recipe) -> None:
        """Bring the graph to a recipe: undo to what both share, then rewrite."""
        wanted = recipe.actions
        if wanted == self._at:
            return
        shared = 0
        for mine, other in zip(self._at, wanted, strict=False):
            if mine != other:
                break
            shared += 1
        for _ in self._at[shared:]:
            self._engine.undo()
            self._forget()
        self._moved(wanted[:shared])
        for action in wanted[shared:]:
            found = next((s for s in self._engine.sites() if s.action == action), None)
            refused = "it has no site" if found is None else self._engine.apply(found)
            if refused:
                raise UsageError("the recipe does not apply to this graph", where=action.text)
            self._moved((*self._at, action))

    def _moved(self, at: tuple[Action, ...]) -> None:
        self._at, self._sites, self._drawn = at, None, None
        self._forget()

    def _forget(self) -> None:
        """Of nodes that make or read what the latest edit concerned."""
        for value in self._engine.concerned:
            maker = value.producer()
            if maker is not None:
                self._seen.pop(maker, None)
            for user, _ in value.uses():
                self._seen.pop(user, None)

    def _table(self) -> tuple[list[ir.Node], Row]:
        """Nodes in graph order and their rows; made once between two rewrites."""
        if self._drawn is None:
            nodes = list(self._engine.model.graph)
            rows = [self._shown(node).row for node in nodes]
            found = np.array(rows, np.float32).reshape(len(nodes), len(NODE_COLUMNS))
            found[:, _DEPTH] = (np.arange(len(nodes)) + 1) / max(len(nodes), 1)
            self._drawn = nodes, found
        return self._drawn

    def _shown(self, node: ir.Node) -> _Seen:
        held = self._seen.get(node)
        if held is None:
            around = [v for v in (*node.inputs, *node.outputs) if v is not None]
            shapes = {v.name or "": _sizes(v) for v in around if v.shape is not None}
            row = np.array(node_row(node, shapes), np.float32)
            read = dict.fromkeys(v for v in node.inputs if v is not None)
            makers = tuple(maker for v in read if (maker := v.producer()) is not None)
            held = _Seen(_code(node.op_type, node.domain), row, makers)
            self._seen[node] = held
        return held


@cache
def _code(operator: str, domain: str) -> int:
    return operator_code(operator, domain)


@cache
def _kind(transform: str) -> int:
    return transform_code(transform)


def _sizes(value: ir.Value) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else 1 for size in value.shape or ())
