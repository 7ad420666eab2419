"""Matrix products with a constant weight, of one group: which, and what stands behind each."""

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.groups import float_groups, is_constant, is_weighted, name_of
from edgeopt.transforms.local_rule import (
    floating,
    input_of,
    integer,
    integers,
    producer_of,
    refuse,
)
from edgeopt.transforms.quantize._codes import float_weight


def sites_of_products(model: ir.Model, least: int = 1) -> tuple[str, ...]:
    """Names of the groups that hold float products, in graph order, then of products in none.

    Args:
        model: May hold groups that are quantized already.
        least: The shortest sum of products that counts.
    """
    found = [n for n in model.graph if refused(n) is None and depth(n) >= least]
    fits = {name_of(n.outputs[0]) for n in found}
    grouped = [g.name for g in float_groups(model) if not fits.isdisjoint(g.nodes)]
    alone = [name_of(n.outputs[0]) for n in found if not is_weighted(n)]
    return (*grouped, *alone)


def products_of(model: ir.Model, site: str) -> list[ir.Node] | Rejection:
    """The float products of a group, or why there is none."""
    group = next((one for one in float_groups(model) if one.name == site), None)
    if group is None:
        alone = producer_of(model, site)
        if alone is None or is_weighted(alone) or refused(alone) is not None:
            return Rejection(reason="no weighted node makes this value")
        return [alone]
    members = frozenset(group.nodes)
    reasons = [(n, refused(n)) for n in model.graph if name_of(n.outputs[0]) in members]
    fits = [node for node, reason in reasons if reason is None]
    if fits:
        return fits
    why = (reason for node, reason in reasons if reason is not None and is_weighted(node))
    return next(why, Rejection(reason="its products are integer already"))


def refused(node: ir.Node) -> Rejection | None:
    """Why a node is no float product with a constant matrix; None where it is."""
    if node.op_type not in ("MatMul", "Gemm") or node.domain not in ("", "ai.onnx"):
        return refuse("it is no product", node)
    if not is_weighted(node) and _source(node) is node.inputs[1]:
        return refuse("it is no product with a constant weight", node)
    if is_constant(node.inputs[0]):
        return refuse("it is a constant", node)
    weight = float_weight(weight_of(node))
    if weight is None:
        return refuse("its weight is not a plain float32 constant", node)
    if weight.ndim != 2:
        return refuse("its weight is not a matrix", node)
    if integer(node, "transA", 0):
        return refuse("its activation is transposed", node)
    return None


def weight_of(node: ir.Node) -> ir.Value:
    """The constant that a product multiplies with, before any Transpose."""
    value = _source(node)
    assert value is not None, "refused says what is no product"
    return value


def _source(node: ir.Node) -> ir.Value | None:
    """The second operand, or the constant matrix that it is the Transpose of."""
    value = node.inputs[1]
    made = None if value is None else value.producer()
    if made is None or made.op_type != "Transpose" or made.domain not in ("", "ai.onnx"):
        return value
    source = made.inputs[0]
    whole = integers(made, "perm") in ((), (1, 0)) and is_constant(source)
    return source if whole else value


def is_turned(node: ir.Node) -> bool:
    """Whether a product's weight is [N, K] and not [K, N]."""
    return bool(integer(node, "transB", 0)) != (_source(node) is not node.inputs[1])


def depth(node: ir.Node) -> int:
    """K: over how many elements a product sums."""
    weight = float_weight(weight_of(node))
    assert weight is not None, "refused says what is no product"
    return int(weight.shape[1 if is_turned(node) else 0])


def factor_of(node: ir.Node) -> np.float32:
    """What a product is multiplied with: alpha of a Gemm."""
    return np.float32(floating(node, "alpha", 1.0))


def bias_added(editor: Editor, node: ir.Node, product: ir.Value) -> list[ir.Node]:
    """Nodes that add the bias of a Gemm, times beta, to a product; none where it has no bias."""
    bias, made = input_of(node, 2), node.outputs[0]
    if bias is None:
        return []
    name, beta = name_of(made), np.asarray(floating(node, "beta", 1.0), np.float32)
    nodes: list[ir.Node] = []
    if beta != 1.0:
        held = float_weight(bias)
        if held is not None:
            bias = editor.initializer(f"{name}__bias", np.asarray(held * beta, np.float32))
        else:
            factor = editor.initializer(f"{name}__beta", beta)
            nodes.append(new_node("Mul", [bias, factor], output=f"{name}__bias", like=bias))
            bias = nodes[0].outputs[0]
    return [*nodes, new_node("Add", [product, bias], output=f"{name}__added", like=made)]
