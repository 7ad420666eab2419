"""Which action did what: the nodes that each action of a recipe added, changed or removed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from edgeopt.core.action import Recipe
from edgeopt.graph.editor import Editor
from edgeopt.graph.layers import NO_LAYERS
from edgeopt.graph.read import open_graph
from edgeopt.transforms.base import EXACT, Rejection
from edgeopt.transforms.local_rule import opset_of
from edgeopt.transforms.replay import Workshop, attempt
from edgeopt.transforms.stages import canonical, transform_of

PREPARED = "normalize"
_Signature = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What the actions of a recipe did, by value name.

    Args:
        changed: Value to the texts of the actions that made or changed the node behind it.
        removed: Value of the given model to the action after which no node made it.
    """

    changed: Mapping[str, tuple[str, ...]]
    removed: Mapping[str, str]


def trace(workshop: Workshop, recipe: Recipe) -> Trace | None:
    """Apply a recipe once more, action by action, and watch.

    Constants are compared by identity: whatever computes new ones changed the node that reads
    them. The preparation before all actions counts as `normalize`.

    Returns:
        None where the recipe was written for another file or opset, or does not apply.
    """
    if not recipe.actions:
        return Trace(changed={}, removed={})
    base = workshop.normalized
    if recipe.baseline != workshop.model.digest or recipe.opset not in (0, opset_of(base)):
        return None
    changed: dict[str, list[str]] = {}
    removed: dict[str, str] = {}
    before = _snapshot(base)
    _note(changed, removed, PREPARED, _snapshot(open_graph(workshop.model)), before, loose=True)
    editor = Editor(base.clone())
    remembered: set[str] = set()
    for action in canonical(recipe.actions):
        shelf, _ = transform_of(action.transform)
        if shelf not in EXACT and (
            not remembered or (shelf == "quantize" and shelf not in remembered)
        ):
            # Later stages are judged by the graph before them.
            workshop.evidence.remember_float(editor.model.clone())
            remembered.add(shelf)
        if isinstance(attempt(editor, action, workshop.evidence), Rejection):
            return None
        after = _snapshot(editor.model)
        _note(changed, removed, action.bare().text, before, after)
        before = after
    return Trace(changed={name: tuple(found) for name, found in changed.items()}, removed=removed)


def _snapshot(model: ir.Model) -> dict[str, _Signature]:
    return {
        node.outputs[0].name: _signature(node)
        for node in model.graph.all_nodes()
        if node.op_type not in NO_LAYERS and node.outputs and node.outputs[0].name
    }


def _signature(node: ir.Node) -> _Signature:
    constants = tuple(
        value.const_value for value in node.inputs if value is not None and value.const_value
    )
    names = tuple(None if value is None else value.name for value in node.inputs)
    return node.op_type, node.domain, names, tuple(map(_said, node.attributes.values())), constants


def _said(attribute: ir.Attr) -> tuple[str, object]:
    plain = attribute.type not in {
        ir.AttributeType.GRAPH,
        ir.AttributeType.GRAPHS,
        ir.AttributeType.TENSOR,
        ir.AttributeType.TENSORS,
    }
    return attribute.name, str(attribute.value) if plain else None


def _note(
    changed: dict[str, list[str]],
    removed: dict[str, str],
    text: str,
    before: Mapping[str, _Signature],
    after: Mapping[str, _Signature],
    *,
    loose: bool = False,
) -> None:
    """Write an action down where nodes differ.

    Args:
        loose: Constants are other objects in both: only operators, inputs and attributes count.
    """
    for name, signature in after.items():
        held = before.get(name)
        if held is None or not _equal(held, signature, loose):
            changed.setdefault(name, []).append(text)
    for name in before.keys() - after.keys():
        changed.pop(name, None)
        removed[name] = text


def _equal(one: _Signature, other: _Signature, loose: bool) -> bool:
    if one[:4] != other[:4]:
        return False
    pairs = zip(one[4], other[4], strict=False)
    return loose or (len(one[4]) == len(other[4]) and all(a is b for a, b in pairs))
