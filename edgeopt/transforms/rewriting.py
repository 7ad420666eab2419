"""`Rewriting`: the exact rules of the rule language as a space of steps, on a live graph.

A step is one rewrite of the engine, taking one back is its undo: nothing is cloned, normalised or
listed anew, and rows of nodes that an edit did not concern are kept. Recipes are those of the
space of the same model, so that what was found here is built and verified there.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action, Choice, Parameter, Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.protocols import Arrays
from edgeopt.errors import UsageError
from edgeopt.graph.features import NODE_COLUMNS, node_row, operator_code, transform_code
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.rules.engine import Engine, Site
from edgeopt.transforms.rules.form import Rule

CHANGE_COLUMNS = ("macs", "size", "activation", "nodes", "known")
"""What a rewrite changes of sums over nodes, as shares of the given graph's; 1 where it was found
out (a rule may refuse when it is applied)."""
RULE_COLUMNS = ("sites", "done")
"""Of a rule: sites now, and how often it was applied; logarithms."""
_MACS, _PARAMS, _MADE = (NODE_COLUMNS.index(name) for name in ("macs", "params", "made_bytes"))
_DEPTH = NODE_COLUMNS.index("depth")
_ANCHORS = 4
_FLOAT_BYTES = 4.0
_KEPT = 1 << 14
Row = npt.NDArray[np.float32]
_Key = tuple[str, tuple[tuple[str, Parameter], ...], tuple[int | bytes, ...]]
"""A rule, what an action says of its alternatives, and codes and rows of the matched nodes."""


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
        self._rules = {rule.name: row for row, rule in enumerate(rules)}
        self._given = np.maximum(self._sums(), 1.0)
        self._known: dict[_Key, Row] = {}
        """What sites change that look alike, by rule and rows of the matched nodes."""
        self._held: dict[Site, Row] = {}
        """The same of the sites that were seen last: one that is still there looks as it did."""

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
        `action_nodes`. Depth is the place in the order of nodes. Beside them `group_x` [rules] in
        `RULE_COLUMNS`, `action_group` (row of the rule plus 1) and `action_change` in
        `CHANGE_COLUMNS`: sites that look like none before are tried once, and taken back."""
        most, edges, actions = self._limits
        changes = self._changes(recipe)
        legal = self._listed(recipe)
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
            "action_change": changes,
            **self._grouped(legal),
        }

    def static_cost(self, recipe: Recipe) -> Mapping[str, float]:
        """`macs`, `size_bytes` (of constants as float32), `activation_bytes` (made by all nodes)
        and `nodes`, summed over rows of nodes: what differs between rewrites, not a file's size."""
        self._seek(recipe)
        macs, params, made, nodes = map(float, self._sums())
        return {
            "macs": macs,
            "size_bytes": _FLOAT_BYTES * params,
            "activation_bytes": made,
            "nodes": nodes,
        }

    def _sums(self) -> npt.NDArray[np.float64]:
        """Multiply-adds, constants, bytes made, and nodes of the graph as it is [4]."""
        nodes, table = self._table()
        return np.append(_amounts(table).sum(axis=0), float(len(nodes)))

    def _grouped(self, legal: Mapping[Action, Site]) -> Arrays:
        """Rules as groups, and to which one each action belongs."""
        groups = np.zeros((len(self._rules), len(RULE_COLUMNS)), np.float32)
        of = np.zeros((self._limits[2], 1), np.int32)
        for row, action in enumerate(legal):
            rule = self._rules[action.transform]
            groups[rule, 0] += 1
            if row < len(of):
                of[row] = rule + 1
        for action in self._at:
            groups[self._rules[action.transform], 1] += 1
        return {"group_x": np.log2(1 + groups), "action_group": of}

    def _changes(self, recipe: Recipe) -> Row:
        """`CHANGE_COLUMNS` of the first actions [actions]."""
        found = np.zeros((self._limits[2], len(CHANGE_COLUMNS)), np.float32)
        shown = list(self._listed(recipe))[: len(found)]
        held, self._held = self._held, {}
        for row, action in enumerate(shown):
            # Trying one lists the sites anew, so that no match is ever older than the graph.
            site = self._listed(recipe)[action]
            change = held.get(site)
            if change is None:
                change = self._change(site)
                site = self._listed(recipe)[action]
            found[row] = self._held[site] = change
        return found

    def _change(self, site: Site) -> Row:
        """Of one site, as it was found out for one that looks like it."""
        key = self._key(site)
        if key not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[key] = self._tried(site)
        return self._known[key]

    def _key(self, site: Site) -> _Key:
        """What a rewrite's change follows from: how the nodes look that it would take away."""
        match = site.match
        nodes = [self._shown(node) for node in match.nodes.values()]
        looks = tuple(value for one in nodes for value in (one.code, one.row.tobytes()))
        return match.rule.name, tuple(sorted(match.values.items())), looks

    def _tried(self, site: Site) -> Row:
        """What a rewrite changes: done, looked at, and taken back."""
        before = self._rows_by_node()
        if isinstance(self._engine.apply(site), Rejection):
            return np.zeros(len(CHANGE_COLUMNS), np.float32)
        self._moved(self._at)
        after = self._rows_by_node()
        self._engine.undo()
        self._moved(self._at)
        gone = [row for node, row in before.items() if not _same(after.get(node), row)]
        come = [row for node, row in after.items() if not _same(before.get(node), row)]
        change = np.append(_exactly(come) - _exactly(gone), float(len(after) - len(before)))
        return np.append(change / self._given, 1.0).astype(np.float32)

    def _rows_by_node(self) -> dict[ir.Node, Row]:
        return {node: self._shown(node).row for node in self._engine.model.graph}

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


def _amounts(rows: Row) -> npt.NDArray[np.float64]:
    """Multiply-adds, constants and bytes made [rows, 3], from their logarithms."""
    return np.exp2(rows[:, : _MADE + 1].astype(np.float64)) - 1


def _exactly(rows: Sequence[Row]) -> npt.NDArray[np.float64]:
    """Sums of `_amounts` [3] that do not depend on the order of rows."""
    table = _amounts(np.array(rows, np.float32).reshape(len(rows), len(NODE_COLUMNS)))
    return np.array([math.fsum(column) for column in table.T])


def _same(one: Row | None, other: Row) -> bool:
    return one is other or (one is not None and np.array_equal(one, other))


@cache
def _code(operator: str, domain: str) -> int:
    return operator_code(operator, domain)


@cache
def _kind(transform: str) -> int:
    return transform_code(transform)


def _sizes(value: ir.Value) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else 1 for size in value.shape or ())
