"""What is computed twice from the same values, computed once.

    f(x), f(x)  =  f(x)          same operator, attributes and inputs

Exporters write a mask, a shape or a gate anew wherever it is read. ONNX Runtime merges such nodes
when it loads a model, so nothing becomes faster by this alone; rules that ask for one value in
two places (the gate and the factor of a GELU) then see that it is one.

It must not fire on what draws numbers, holds a subgraph or costs nothing (Shape), on the first of
the two, where the second makes a graph output (it would lose its producer), or where attributes
are tensors.
Imperative, since it is about siblings of any operator.
"""

from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, refuse

_LEFT = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial"}
    | {"Bernoulli", "Dropout", "Shape", "Size"}
)
"""Equal nodes of these are two draws, or not worth a step."""
_PLAIN = frozenset(
    {ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.FLOAT}
    | {ir.AttributeType.FLOATS, ir.AttributeType.STRING, ir.AttributeType.STRINGS}
)


@dataclass(frozen=True, slots=True)
class _Twice:
    second: ir.Node
    first: ir.Node


def _match(node: ir.Node) -> _Twice | Rejection:
    if node.op_type in _LEFT or not node.inputs or node.inputs[0] is None:
        return refuse("it draws numbers, costs nothing or reads nothing", node)
    if any(attribute.type not in _PLAIN for attribute in node.attributes.values()):
        return refuse("it holds a subgraph or a tensor", node)
    if any(output.is_graph_output() for output in node.outputs):
        return refuse("it makes a graph output", node)
    twins = [user for user, _ in node.inputs[0].uses() if _same(user, node)]
    first = next((twin for twin in _before(node, twins)), None)
    return _Twice(node, first) if first else refuse("nothing before it computes the same", node)


def _same(one: ir.Node, other: ir.Node) -> bool:
    if one is other or one.graph is not other.graph or len(one.outputs) != len(other.outputs):
        return False
    kinds = [(each.domain, each.op_type, each.overload) for each in (one, other)]
    return (
        kinds[0] == kinds[1]
        and list(one.inputs) == list(other.inputs)
        and _told(one) == _told(other)
    )


def _told(node: ir.Node) -> dict[str, object]:
    return {name: attribute.value for name, attribute in node.attributes.items()}


def _before(node: ir.Node, twins: list[ir.Node]) -> list[ir.Node]:
    """Twins that stand before a node, in order; most nodes have none and cost nothing."""
    if not twins or node.graph is None:
        return []
    held, found = set(twins), list[ir.Node]()
    for each in node.graph:
        if each is node:
            break
        if each in held:
            found.append(each)
    return found


def _rewrite(editor: Editor, found: _Twice) -> None:
    for mine, kept in zip(found.second.outputs, found.first.outputs, strict=True):
        editor.replace_uses(mine, kept)
    editor.remove_dead([found.second])


PLUGIN = LocalRule(name="shared_expressions", roots=frozenset(), match=_match, rewrite=_rewrite)
