"""Why weighted operators of a built graph stayed in float, and what the runtime made slow.

Reasons are read from the graph that was asked for, against what was executed: an operator needs
integers on every side, and only the graph shows which side is missing.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir

WITHOUT_KERNEL = frozenset({"GRU", "RNN", "ConvTranspose"})
"""Weighted operators that the runtime cannot compute in integers, whatever is asked."""
FEW_CHANNELS = 4
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
    """Built node's name to executed operator."""
    known = {node.name for node in built if node.name}
    found: dict[str, str] = {}
    for node in nodes:
        name = built_name(str(node["name"]), known)
        if name:
            found.setdefault(name, str(node["op"]))
    return found


def built_name(executed: str, known: Collection[str | None]) -> str:
    """The built node that an executed one was made from, by their names; empty for none.

    The runtime appends to names, as in `a_token_7`.
    """
    while executed not in known and "_" in executed:
        executed = executed.rpartition("_")[0]
    return executed if executed in known else ""


def _is_integer(operator: str) -> bool:
    return operator.startswith(("QLinear", "QGemm", "MatMulInteger", "ConvInteger", "Dynamic"))


def _reason(node: ir.Node, dequantized: Callable[[ir.Value | None], bool]) -> str:
    if node.op_type in WITHOUT_KERNEL:
        return f"{node.op_type} has no integer kernel"
    source, weight = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    if not dequantized(weight):
        return unasked(node)
    if not dequantized(source):
        name = "" if source is None else f" {source.name!r}"
        return f"its input{name} is float"
    made = node.outputs[0]
    if made.is_graph_output():
        return "its result is an output of the model"
    readers = sorted({u.op_type for u, _ in made.uses() if u.op_type != "QuantizeLinear"})
    return f"its result is read in float by {', '.join(readers) or 'nothing'}"


def unasked(node: ir.Node) -> str:
    """Why a weighted operator with a float weight is not to run in integers.

    Either nothing integer could be written for it, or the recipe leaves it: then with what is
    known to speak for that.
    """
    weight = node.inputs[1] if len(node.inputs) > 1 else None
    tensor = None if weight is None else ir.convenience.get_const_tensor(weight)
    if tensor is None:
        return _without_constant(weight)
    if tensor.dtype is not ir.DataType.FLOAT:
        return f"its weight is {tensor.dtype.name.lower()}, not float32"
    before = None if node.inputs[0] is None else node.inputs[0].producer()
    if before is not None and before.op_type == "Mul" and before.inputs[0] is before.inputs[1]:
        return "it sums squares, whose range eight bits do not hold"
    if node.op_type == "MatMul" and len(tensor.shape) != 2:
        return "its weight is no matrix, for which there is no integer kernel"
    factors = (node.attributes.get_float(name, 1.0) for name in ("alpha", "beta"))
    if node.op_type == "Gemm" and (any(f != 1 for f in factors) or _turns(node)):
        return "an integer Gemm has neither factors nor a transposed activation"
    if node.op_type == "Conv" and len(tensor.shape) == 4 and _has_few_channels(node, tensor):
        few = int(tensor.shape.numpy()[1])
        return f"nothing asks for integers there (of {few} input channels they are often slower)"
    return "nothing asks for integers there"


def island_text(nodes: Sequence[ir.Node]) -> str:
    """Which operators compute in float between integers; the last of them first."""
    kinds = ", ".join(dict.fromkeys(node.op_type for node in reversed(nodes)))
    return f"{kinds} up to {nodes[0].outputs[0].name!r} in float between integers"


def _without_constant(weight: ir.Value | None) -> str:
    made = None if weight is None else weight.producer()
    source = made.inputs[0] if made is not None and made.inputs else None
    stored = source is not None and ir.convenience.get_const_tensor(source) is not None
    if made is not None and stored and made.op_type in ("Cast", "Transpose", "Identity"):
        return f"its weight stands behind {made.op_type}"
    return "both of its operands are computed"


def _turns(node: ir.Node) -> bool:
    return bool(node.attributes.get_int("transA", 0))


def _has_few_channels(node: ir.Node, tensor: ir.TensorProtocol) -> bool:
    dense = node.attributes.get_int("group", 1) == 1
    return dense and int(tensor.shape.numpy()[1]) <= FEW_CHANNELS


def _called(node: ir.Node) -> str:
    return f"{node.op_type} {node.outputs[0].name!r}"
