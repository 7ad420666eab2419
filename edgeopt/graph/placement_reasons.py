"""Why weighted operators of a built graph stayed in float, and what the runtime made slow.

Reasons are read from the graph that was asked for, against what was executed: an operator needs
integers on every side, and only the graph shows which side is missing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir

RECURRENT = frozenset({"GRU", "RNN"})
Nodes = Sequence[Mapping[str, Any]]
_IN_A_BODY = "it lies in a body of an If or a loop, where no value can be observed to calibrate"


def stayed_float(
    nodes: Nodes,
    graph: ir.Model,
    *,
    weighted: frozenset[str],
    asked: Callable[[ir.Node], bool],
    dequantized: Callable[[ir.Value | None], bool],
) -> Iterator[str]:
    """One sentence a weighted operator that is float in a graph that holds integers.

    Args:
        nodes: What was executed.
        graph: What was built.
        weighted: Operator types that count.
        asked: Whether an operator was to run in integers.
        dequantized: Whether a value comes from 8-bit codes.
    """
    everything = list(graph.graph.all_nodes())
    # Tables and weights that are only stored in integers ask for no integer arithmetic.
    if not any(asked(node) or node.op_type == "QuantizeLinear" for node in everything):
        return
    ran = _executed(nodes, everything)
    for node in everything:
        if node.op_type not in weighted or node.domain:
            continue
        made = ran.get(node.name or "", "")
        if asked(node):
            if made in weighted | {"FusedConv", "FusedGemm", "FusedMatMul"}:
                yield (
                    f"{_called(node)} stayed float although it was asked for in integers: the "
                    "runtime has no kernel for its types, or something else reads its codes"
                )
        elif not _is_integer(made):
            inside = node.graph is not graph.graph
            reason = _IN_A_BODY if inside else _reason(node, dequantized)
            yield f"{_called(node)} stayed float because {reason}"


def traps(
    nodes: Nodes, graph: ir.Model, *, weighted: frozenset[str], asked: Callable[[ir.Node], bool]
) -> Iterator[str]:
    """What runs otherwise than it was written, and costs time or accuracy."""
    for node in nodes:
        types = [str(name) for name in node.get("inputs") or ()]
        if node["op"] == "MaxPool" and types and types[0] in {"tensor(uint8)", "uint8"}:
            yield (
                f"{node['name']} is a MaxPool of uint8 in the layout of floats, about 20 times "
                "slower than in float: end the integers before it, or begin them earlier"
            )
    everything = list(graph.graph.all_nodes())
    if not any(node.op_type == "DequantizeLinear" for node in everything):
        return
    ran = _executed(nodes, everything)
    for node in everything:
        left_out = node.op_type in weighted and not node.domain and not asked(node)
        if left_out and _is_integer(ran.get(node.name or "", "")):
            yield f"{_called(node)} was left in float, and the runtime computes it in integers"


def _executed(nodes: Nodes, built: Sequence[ir.Node]) -> dict[str, str]:
    """Built node's name to executed operator; the runtime appends to names, as in `a_token_7`."""
    known = {node.name for node in built if node.name}
    found: dict[str, str] = {}
    for node in nodes:
        name = str(node["name"])
        while name not in known and "_" in name:
            name = name.rpartition("_")[0]
        if name in known:
            found.setdefault(name, str(node["op"]))
    return found


def _is_integer(operator: str) -> bool:
    return operator.startswith(("QLinear", "QGemm", "MatMulInteger", "ConvInteger", "Dynamic"))


def _reason(node: ir.Node, dequantized: Callable[[ir.Value | None], bool]) -> str:
    if node.op_type in RECURRENT:
        return f"{node.op_type} has no integer kernel"
    source, weight = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    if not dequantized(weight):
        constant = weight is not None and weight.producer() is None
        return "its weight is float" if constant else "both of its operands are computed"
    if not dequantized(source):
        name = "" if source is None else f" {source.name!r}"
        return f"its input{name} is float"
    made = node.outputs[0]
    if made.is_graph_output():
        return "its result is an output of the model"
    readers = sorted({u.op_type for u, _ in made.uses() if u.op_type != "QuantizeLinear"})
    return f"its result is read in float by {', '.join(readers) or 'nothing'}"


def _called(node: ir.Node) -> str:
    return f"{node.op_type} {node.outputs[0].name!r}"
