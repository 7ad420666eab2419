"""`Engine`: all rules on one graph, one rewrite at a time.

Sites are found once, with an index by operator; after a rewrite, or after it was undone, only
roots near what changed are looked at again. Bodies of If, Loop and Scan are part of it. A site is
the same text as in a recipe: the action of the rule's `RuleTransform`.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.bodies import owner, parents, sees
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.rules.digest import Labels
from edgeopt.transforms.rules.facts import is_constant
from edgeopt.transforms.rules.form import Rule, depth_of, is_of_siblings
from edgeopt.transforms.rules.matching import Match, matches, root_types
from edgeopt.transforms.rules.sizes import Refused
from edgeopt.transforms.rules.touched import Recorder
from edgeopt.transforms.rules.writing import rewrite


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A place where a rule can act.

    Args:
        action: As it stands in a recipe.
        match: What was found there; it holds until the graph changes around it.
    """

    action: Action
    match: Match


@dataclass(frozen=True, slots=True)
class _Step:
    """A rewrite that was done: how to take it back, and what it concerned."""

    mark: int
    touched: tuple[ir.Value, ...]


class Engine:
    """Rules on a model.

    Args:
        model: Changed in place; the caller owns it. Sorted, with inferred shapes.
        rules: In the order in which their sites are listed.
    """

    def __init__(self, model: ir.Model, rules: Sequence[Rule]) -> None:
        self.model = model
        self.looked_at = 0
        """How many times a rule was tried at a node: what finding sites costs."""
        self.concerned: tuple[ir.Value, ...] = ()
        """Values whose making, reading or type the last rewrite or its undoing changed."""
        self._editor = Recorder(model)
        self._version = model.graph.opset_imports.get("", 1)
        self._rules = tuple(rule for rule in rules if rule.opset <= self._version)
        self._by_type: dict[str, list[Rule]] = {}
        for rule in self._rules:
            for op_type in root_types(rule):
                self._by_type.setdefault(op_type, []).append(rule)
        self._reach = {rule: depth_of(rule) for rule in self._rules}
        self._farthest = max(self._reach.values(), default=0)
        self._siblings = {rule for rule in self._rules if is_of_siblings(rule)}
        self._steps: list[_Step] = []
        self._sites: dict[ir.Node, dict[Rule, list[Site]]] = {}
        self._labels = Labels(model)
        for graph in (model.graph, *parents(model)):
            for node in graph:
                self._look_at(node, 0)

    def sites(self) -> tuple[Site, ...]:
        """Every site, rule by rule, in graph order; of siblings that differ in order the first."""
        order = {rule: index for index, rule in enumerate(self._rules)}
        graph = self.model.graph
        nodes = graph.all_nodes() if self._editor.bodies else graph
        place = {node: index for index, node in enumerate(nodes)}
        found = list(self._all())
        found.sort(key=lambda site: (order[site.match.rule], place[site.match.root]))
        return tuple(_without_mirrored(found))

    def __len__(self) -> int:
        """How many matches there are; siblings count in either order."""
        return sum(1 for _ in self._all())

    @property
    def done(self) -> int:
        """How many rewrites can be undone."""
        return len(self._steps)

    def apply(self, site: Site) -> Rejection | None:
        """Rewrite at a site; a rejection leaves the graph as it was."""
        node = site.match.root
        if not self._holds(site):
            return Rejection(reason="the graph has changed there", nodes=(node.name or "",))
        mark = self._editor.mark()
        self._editor.touched.clear()
        graph = node.graph
        assert isinstance(graph, ir.Graph), "a site lies in the graph"
        editor = self._editor.inside(graph)
        try:
            rewrite(editor, site.match)
            refused = self._hidden()
        except Refused as refusal:
            refused = str(refusal)
        if refused:
            self._editor.undo(mark)
            return Rejection(reason=refused, nodes=(node.name or "",))
        touched = self.concerned = tuple(self._editor.touched)
        self._steps.append(_Step(mark, touched))
        self._look_around(touched)
        return None

    def undo(self) -> None:
        """Take back the last rewrite; the graph serialises to the same bytes as before it.

        Raises:
            IndexError: Nothing was done.
        """
        step = self._steps.pop()
        self._editor.undo(step.mark)
        self.concerned = step.touched
        self._look_around(step.touched)

    def settle(self, limit: int = 10_000) -> tuple[Action, ...]:
        """Rewrite at every site, then at those that came up, until none is left.

        Args:
            limit: Stop after so many rewrites.

        Returns:
            What was done, in order.
        """
        done: list[Action] = []
        going = True
        while going:
            going = False
            for site in self.sites():
                if len(done) < limit and self._holds(site) and self.apply(site) is None:
                    done.append(site.action)
                    going = True
        return tuple(done)

    def digest(self) -> str:
        """What the graph is, whatever nodes and values are called and in whatever order they stand.

        Weights count by value, those that rules computed by what they are computed from.
        """
        return self._labels.digest()

    def _holds(self, site: Site) -> bool:
        return site in self._sites.get(site.match.root, {}).get(site.match.rule, ())

    def _all(self) -> Iterator[Site]:
        for by_rule in self._sites.values():
            for sites in by_rule.values():
                yield from sites

    def _hidden(self) -> str:
        """What reads something across the border of a body; empty where nothing does."""
        around = self._editor.bodies
        for value in self._editor.touched if around else ():
            held = owner(value)
            users = {user.graph for user, _ in value.uses()}
            seen = held is None or all(
                isinstance(graph, ir.Graph) and sees(graph, held, around) for graph in users
            )
            if not seen or (value.is_graph_output() and value.graph is not held):
                return f"it would carry {value.name!r} across the border of a body"
        return ""

    def _look_around(self, touched: tuple[ir.Value, ...]) -> None:
        """Look again at every root that can see one of these values."""
        self._labels.forget(touched)
        for node, distance in self._near(touched).items():
            self._look_at(node, distance)
        if self._siblings:
            for node in self._near_siblings(touched):
                self._look_at(node, 0, self._siblings)

    def _near(self, touched: tuple[ir.Value, ...]) -> dict[ir.Node, int]:
        """Nodes that see one of these values, and through how many nodes; its maker is at 0."""
        # Constants and inputs are never inside a pattern: who reads them does not matter.
        layer: Sequence[ir.Value] = [v for v in touched if v.producer() is not None]
        found = {n: 0 for value in layer if (n := value.producer()) is not None}
        for distance in range(1, self._farthest + 1):
            users = {user: None for value in layer for user, _ in value.uses()}
            for user in users:
                found.setdefault(user, distance)
            layer = [output for user in users for output in user.outputs]
        return found

    def _near_siblings(self, touched: tuple[ir.Value, ...]) -> dict[ir.Node, None]:
        """Nodes that read what these are computed from: what siblings have in common."""
        reach = max(self._reach[rule] for rule in self._siblings)
        above: dict[ir.Value, None] = {}
        layer: Sequence[ir.Value] = touched
        for _ in range(reach + 1):
            layer = [v for v in layer if v not in above and not is_constant(v)]
            above |= dict.fromkeys(layer)
            makers = {n: None for value in layer if (n := value.producer()) is not None}
            layer = [v for n in makers for v in n.inputs if v is not None]
        found: dict[ir.Node, None] = {}
        layer = list(above)
        for _ in range(reach):
            users = {u: None for v in layer for u, _ in v.uses() if u not in found}
            found |= users
            layer = [output for user in users for output in user.outputs]
        return found

    def _look_at(self, node: ir.Node, distance: int, only: Container[Rule] = ()) -> None:
        """Find the sites at a root, of rules whose patterns reach that far."""
        if node.graph is None:
            self._sites.pop(node, None)
            return
        if not node.outputs:
            return
        held = self._sites.get(node, {})
        for rule in self._by_type.get(node.op_type, ()):
            if distance > self._reach[rule] or (only and rule not in only):
                continue
            self.looked_at += 1
            held.pop(rule, None)
            found = [self._site(match) for match in matches(rule, node, self._version)]
            if found:
                held[rule] = found
                self._sites[node] = held
        if not held:
            self._sites.pop(node, None)

    def _site(self, match: Match) -> Site:
        rule = match.rule
        named = Action.of(rule.name, match.site, version=rule.version, **match.parameters)
        return Site(named, match)


def _without_mirrored(sites: Sequence[Site]) -> Iterator[Site]:
    """Siblings once: the same roots in another order are the same site."""
    seen: set[tuple[Rule, frozenset[ir.Node]]] = set()
    for site in sites:
        match = site.match
        roots = frozenset(match.nodes[root.call] for root in match.pattern.roots)
        if len(roots) > 1 and not match.values:
            if (match.rule, roots) in seen:
                continue
            seen.add((match.rule, roots))
        yield site
