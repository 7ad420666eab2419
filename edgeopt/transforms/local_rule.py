"""`LocalRule`: a transform that is a match at one node and an edit around it.

A rewrite or fuse plug-in says only what is its own: which operators can be the root, whether
(and why not) the neighbourhood of a root fits, and what to put there. Listing sites and finding
them again by name is the same for all and lies here. The site of a rule is the name of its
root's first output. Roots are nodes of `model.graph`; bodies of If, Loop and Scan are asked about
as models of their own (`transforms.bodies`), and what they capture keeps its value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Evidence, Offer, Rejection

Match = TypeVar("Match")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRule(Generic[Match]):
    """A rule with one root, as a `Transform`.

    Args:
        name: Of the plug-in: its file's name.
        roots: Operator types that can be the root; empty means every node.
        match: What was found around a root, or why the rule does not fit there.
        rewrite: The edit, given what was found.
        opset: The lowest operator set that has what the rule writes.
        version: Raised when the same action starts to mean something else.
    """

    name: str
    roots: frozenset[str]
    match: Callable[[ir.Node], Match | Rejection]
    rewrite: Callable[[Editor, Match], None]
    opset: int = 1
    version: int = 1
    needs_data: bool = False
    whole_model: bool = False

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action a root where the rule fits, in graph order."""
        del offer
        if opset_of(model) < self.opset:
            return ()
        fits = (node for node in model.graph if isinstance(self._found(node), _Found))
        names = [node.outputs[0].name for node in fits]
        return tuple(Action.of(self.name, name, version=self.version) for name in names if name)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Rewrite around the node that computes the action's site."""
        del evidence
        if opset_of(editor.model) < self.opset:
            return Rejection(reason=f"{self.name} writes operators of opset {self.opset}")
        node = editor.producer(action.site)
        if node is None:
            return Rejection(reason=f"no node computes {action.site!r}")
        found = self._found(node)
        if isinstance(found, Rejection):
            return found
        self.rewrite(editor, found.match)
        return action

    def _found(self, node: ir.Node) -> "_Found[Match] | Rejection":
        if not node.outputs or node.domain or (self.roots and node.op_type not in self.roots):
            return refuse(f"{node.op_type} is no root of {self.name}", node)
        found = self.match(node)
        return found if isinstance(found, Rejection) else _Found(found)


@dataclass(frozen=True, slots=True)
class _Found(Generic[Match]):
    match: Match


def opset_of(model: ir.Model) -> int:
    """Version of the default operator set."""
    return model.graph.opset_imports.get("", 1)


def producer_of(model: ir.Model, site: str) -> ir.Node | None:
    """The node of `model.graph` whose output has that name."""
    for node in model.graph:
        for output in node.outputs:
            if output.name == site:
                return node
    return None


def refuse(reason: str, *nodes: ir.Node) -> Rejection:
    """A rejection that names the nodes at fault."""
    return Rejection(reason=reason, nodes=tuple(node.name or "" for node in nodes))


def input_of(node: ir.Node, index: int) -> ir.Value | None:
    """An input of a node; None where it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def integer(node: ir.Node, name: str, default: int) -> int:
    """An integer attribute."""
    found = node.attributes.get(name)
    return default if found is None else int(found.as_int())


def integers(node: ir.Node, name: str) -> tuple[int, ...]:
    """A list of integers as attribute; empty where it is left out."""
    found = node.attributes.get(name)
    return () if found is None else tuple(int(item) for item in found.as_ints())


def floating(node: ir.Node, name: str, default: float) -> float:
    """A number attribute."""
    found = node.attributes.get(name)
    return default if found is None else float(found.as_float())


def word(node: ir.Node, name: str, default: str) -> str:
    """A text attribute."""
    found = node.attributes.get(name)
    return default if found is None else found.as_string()


def site_of(node: ir.Node) -> str:
    """The name of a root's site."""
    return node.outputs[0].name or ""


def set_constant(
    editor: Editor, node: ir.Node, index: int, name: str, array: npt.NDArray[Any]
) -> None:
    """Let an input of a node read a new constant; the old one goes where it became unused.

    A rule may act twice at one site (three convolutions composed): the name is then lengthened.
    """
    old = input_of(node, index)
    while name in editor.graph.initializers:
        name += "+"
    editor.set_input(node, index, editor.initializer(name, array))
    if old is None or old.uses() or old.is_graph_output():
        return
    producer = old.producer()
    if producer is not None:
        editor.remove_dead([producer])
    elif old.is_initializer() and not old.is_graph_input() and old.graph is editor.graph:
        editor.drop_initializer(old)
