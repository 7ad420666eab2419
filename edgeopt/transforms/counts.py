"""Which float values of a graph count: integers as floats, and what arithmetic makes of them.

Exporters take lengths, positions and indices through floats (Shape, Cast, Mul, Floor, Cast). An
activation may be off by a thousandth, a length may not: float16 is exact for integers up to 2048
only, and a scale of 0.1 makes 29.99 of 300 there.
"""

from collections.abc import Callable, Iterator

import onnx_ir as ir

from edgeopt.transforms.groups import is_constant

_FROM_INTEGERS = frozenset({"Cast", "CastLike"})
_SUMS = frozenset({"MatMulInteger", "ConvInteger"})
"""Of codes: activations in another unit."""
_COUNTING = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Sum", "Neg", "Abs", "Min", "Max", "Clip"),
        *("Floor", "Ceil", "Round", "Relu", "Sqrt", "Reciprocal", "Identity", "Where", "Cast"),
        *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Tile", "Concat"),
        *("Gather", "GatherND", "GatherElements", "Slice", "Split", "Pad", "CumSum", "TopK"),
        *("ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceMean", "Range"),
    }
)
_STEPPING = frozenset({"Floor", "Ceil", "Round", "Mod"})
_SINGLE = ir.DataType.FLOAT
Takes = Callable[[ir.Node, int], bool]
"""Whether an input of a node, by its index, may be less exact."""


def counted(graph: ir.Graph) -> set[ir.Value]:
    """Float32 values that are integers, or are computed from such and from constants alone."""
    found: set[ir.Value] = set()
    for node in graph:
        if counts_on(node, found) or _from_integers(node):
            found |= {value for value in node.outputs if value.dtype is _SINGLE}
    return found


def counts_on(node: ir.Node, counts: set[ir.Value]) -> bool:
    """Whether a node computes counts from counts."""
    return node.op_type in _COUNTING and not node.domain and reads_counts(node, counts)


def reads_counts(node: ir.Node, counts: set[ir.Value]) -> bool:
    """Whether the floats that a node reads are counts, but for constants."""
    read = list(_floats(node))
    return bool(read) and counts.issuperset(read)


def deciding(graph: ir.Graph, counts: set[ir.Value], may: Takes) -> set[ir.Value]:
    """Counts that something is made of that is right or wrong, not more or less: sizes, indices.

    Args:
        graph: Sorted.
        counts: Its counts.
        may: Says which positions take less exact numbers; a Cast to integers never does.
    """
    found: set[ir.Value] = set()
    for node in reversed(graph):
        for value in counts.intersection(node.outputs):
            if any(_decides(user, index, graph, found, may) for user, index in value.uses()):
                found.add(value)
    return found


def _decides(user: ir.Node, index: int, graph: ir.Graph, found: set[ir.Value], may: Takes) -> bool:
    if user.graph is not graph or user.op_type in _STEPPING or not found.isdisjoint(user.outputs):
        return True
    if user.op_type == "Cast":
        return user.outputs[0].dtype is None or user.outputs[0].dtype.is_integer()
    return not may(user, index)


def _from_integers(node: ir.Node) -> bool:
    source = node.inputs[0] if node.inputs else None
    if node.domain or source is None or source.dtype is None:
        return False
    made = source.producer()
    sums = made is not None and made.op_type in _SUMS
    cast = node.op_type in _FROM_INTEGERS and source.dtype.is_integer() and not sums
    return cast or node.op_type == "Range"


def _floats(node: ir.Node) -> Iterator[ir.Value]:
    for value in node.inputs:
        if value is not None and value.dtype is _SINGLE and not is_constant(value):
            yield value
