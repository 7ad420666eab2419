"""`RuleTransform`: a rule on a shelf.

Sites are named as those of a `LocalRule`: by the root's first output. A rule with parameters
offers one action for each combination of their values that fits; one with two roots names the
second as `beside`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.local_rule import opset_of, refuse
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.matching import Match, Search, matches, root_types
from edgeopt.transforms.rules.sizes import Refused
from edgeopt.transforms.rules.writing import rewrite


@dataclass(frozen=True, slots=True)
class RuleTransform:
    """A rule as a `Transform`.

    Args:
        rule: What it does.
        control: Whether it is there to compare with: for recipes, never offered by a search.
    """

    rule: Rule
    control: bool = False
    needs_data: bool = False
    whole_model: bool = False

    @property
    def version(self) -> int:
        """The rule's version."""
        return self.rule.version

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action a match, in graph order."""
        del offer
        if opset_of(model) < self.rule.opset:
            return ()
        found = self._matches(model)
        return tuple(dict.fromkeys(self.action(match) for match in found))

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Replace what is found at the action's site."""
        del evidence
        version = opset_of(editor.model)
        if version < self.rule.opset:
            return Rejection(reason=f"{self.rule.name} writes operators of opset {self.rule.opset}")
        node = editor.producer(action.site)
        if node is None:
            return Rejection(reason=f"no node computes {action.site!r}")
        search = Search(self.rule, node, version)
        match = next((m for m in search.found() if self.action(m) == action.bare()), None)
        if match is None:
            return refuse(search.reason, search.fault)
        try:
            rewrite(editor, match)
        except Refused as refusal:
            return refuse(str(refusal), node)
        return action

    def fits(self, node: ir.Node) -> bool:
        """Whether a node is a root at which the rule fits."""
        graph = node.graph
        version = graph.opset_imports.get("", 1) if isinstance(graph, ir.Graph) else 1
        return any(True for _ in matches(self.rule, node, version))

    def action(self, match: Match) -> Action:
        """The action that means this match."""
        return Action.of(self.rule.name, match.site, version=self.rule.version, **match.parameters)

    def _matches(self, model: ir.Model) -> Iterator[Match]:
        """Matches on the main graph; of siblings those that come first."""
        roots, version = root_types(self.rule), opset_of(model)
        seen: set[frozenset[ir.Node]] = set()
        for node in model.graph:
            if node.op_type not in roots or not node.outputs:
                continue
            for match in matches(self.rule, node, version):
                several = frozenset(match.nodes[root.call] for root in match.pattern.roots)
                if len(several) > 1 and not match.values:
                    if several in seen:
                        continue
                    seen.add(several)
                yield match
