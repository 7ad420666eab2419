"""A permutation of channels before layers, in the order of what their weights read.

    Conv(g(x[:, order]), W)  =  Conv(g'(x), W[:, order back])
    g(x[..., order]) W       =  g'(x) W[order back]

The permutation is a channel shuffle (Reshape, Transpose, Reshape), a Gather, a Slice that runs
backwards (the colours of an image, also where they lie last), or a Split that is joined in another
order; g is whatever treats channels apart: activations, poolings, normalizations, depthwise
convolutions and constants that are added or multiplied, whose own numbers go the same way, and
Transposes. Every layer that reads it takes it in, or none does: convolutions, MatMul, Gemm.

It must not fire where something else reads the permuted channels (a residual, a Split, an output,
a convolution in groups), where what moves is no permutation, or where weights are no constants.
Imperative, since it is about all readers of a value. ONNX Runtime does nothing of it; measured
1.14. `shuffle_to_rows` is the same for the layer before it.
"""

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, refuse, set_constant, site_of
from edgeopt.transforms.rewrite._order import Order, constants_in_order, order_of


@dataclass(slots=True)
class _Columns:
    order: Order
    constants: list[tuple[ir.Node, int, int]] = field(
        default_factory=list[tuple[ir.Node, int, int]]
    )
    """Node, input and axis of every constant that follows."""


def _match(root: ir.Node) -> _Columns | Rejection:
    order = order_of(root)
    if isinstance(order, Rejection):
        return order
    columns = _Columns(order)
    waiting, seen = [(order.value, order.axis)], set[ir.Node]()
    while waiting:
        value, axis = waiting.pop()
        if value.is_graph_output() or not value.uses():
            return refuse("the permuted channels are an output, or nobody reads them", root)
        for user, index in value.uses():
            if user in seen:
                continue
            seen.add(user)
            inside = user.graph is root.graph and not user.domain
            follows = constants_in_order(user, index, axis, len(order.places)) if inside else None
            if follows is None:
                return refuse("something else reads the permuted channels", user)
            columns.constants += [(user, *each) for each in follows.constants]
            if follows.axis is not None:
                waiting.append((user.outputs[0], follows.axis))
    return columns


def _rewrite(editor: Editor, found: _Columns) -> None:
    for node, index, axis in found.constants:
        array = array_of(node.inputs[index])
        assert array is not None, "the match has seen it"
        name = f"{site_of(node)}/shuffle_to_columns/{index}"
        set_constant(editor, node, index, name, np.take(array, found.order.back, axis))
    editor.replace_uses(found.order.value, found.order.source)
    editor.remove_dead([found.order.root])


PLUGIN = LocalRule(
    name="shuffle_to_columns",
    roots=frozenset({"Reshape", "Gather", "Slice", "Concat"}),
    match=_match,
    rewrite=_rewrite,
    opset=5,
)
