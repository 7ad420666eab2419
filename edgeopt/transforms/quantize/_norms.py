"""Normalizations that are spelled out, as sets of operators that keep one precision together.

    (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * scale + bias

The runtime finds these by their shape and looks through casts, but not at which side of a cast each
constant stands: it makes a LayerNormalization of two types, which does not load (onnxruntime 1.32).
"""

from collections.abc import Iterator

import onnx_ir as ir

from edgeopt.transforms.groups import is_constant

_ABOVE = (("Add",), ("ReduceMean",), ("Pow", "Mul"), ("Sub",), ("ReduceMean",))
_BELOW = (("Div", "Reciprocal"), ("Mul",), ("Mul", "Add"), ("Add",))


def spelled_norms(graph: ir.Graph) -> list[list[ir.Node]]:
    """Operators of each spelled normalization, its square root among them."""
    return [[node, *_upwards(node), *_downwards(node)] for node in graph if node.op_type == "Sqrt"]


def _upwards(node: ir.Node) -> Iterator[ir.Node]:
    for kinds in _ABOVE:
        makers = [None if value is None else value.producer() for value in node.inputs]
        found = [one for one in makers if one is not None and one.op_type in kinds]
        if not found:
            if "Sub" in kinds:
                return
            continue
        node = found[-1]
        yield node


def _downwards(node: ir.Node) -> Iterator[ir.Node]:
    for kinds in _BELOW:
        users = [user for user, _ in node.outputs[0].uses()]
        fits = len(users) == 1 and users[0].op_type in kinds
        first = kinds == _BELOW[0] or kinds == _BELOW[1]
        if not fits or not (first or any(is_constant(value) for value in users[0].inputs)):
            continue
        node = users[0]
        yield node
