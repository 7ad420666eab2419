"""Names that edits are about to give: `<value>__<role>`, as in `conv1__scale`.

Tools name what they add after what it serves, and some models use such names themselves (a bias
`b` beside a value `b0` is enough for the runtime's tool: microsoft/onnxruntime#24705). Here the
model's own value makes way.
"""

from collections.abc import Iterator

import onnx_ir as ir

_MARK = "__"


def free_reserved(graph: ir.Model) -> None:
    """Rename the inner values of a graph that are called after another one of it, in place.

    Inputs and outputs keep their names, and so do repetitions (`conv__2`).

    Args:
        graph: Every value has a name of its own.
    """
    parts = (graph.graph, *graph.graph.subgraphs())
    fixed = {value for part in parts for value in (*part.inputs, *part.outputs)}
    values = [value for part in parts for value in _values(part)]
    names = {value.name or "" for value in values}
    for value in values:
        if value not in fixed and _is_reserved(value.name or "", names):
            value.name = _fresh((value.name or "").replace(_MARK, "_"), names)
            names.add(value.name)


def _values(part: ir.Graph) -> Iterator[ir.Value]:
    yield from part.inputs
    yield from tuple(part.initializers.values())
    for node in part:
        yield from node.outputs


def _is_reserved(name: str, names: set[str]) -> bool:
    place = name.find(_MARK)
    while place > 0:
        role = name[place + len(_MARK) :]
        if name[:place] in names and role and not role.isdecimal():
            return True
        place = name.find(_MARK, place + 1)
    return False


def _fresh(name: str, names: set[str]) -> str:
    while name in names:
        name += "_"
    return name
