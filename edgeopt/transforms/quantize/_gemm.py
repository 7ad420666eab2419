"""A product as an integer Gemm whose result may stay float.

    MatMul(x, W) + b      Gemm on x as a matrix, the bias in its accumulator
    Conv1x1(x, W, b)      Gemm on the pixels of x as rows

Requantising costs as much as the product where the reduction is long: 70.8 million
multiply-adds as a 1x1 convolution take 800 us in float32, 200 in QLinearConv, and 87 to 112 as a
Gemm with float result (onnxruntime 1.32, one core with AMX). With few rows or a short reduction
the convolution is as fast or faster, so pointwise convolutions come here from K = 256 on only.

Codes are transposed and reshaped, never floats: four times fewer bytes, and the
DequantizeLinear stands directly before its Gemm, where the runtime looks for it.
"""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of, new_node
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.groups import (
    FUSED,
    float_users,
    is_bias,
    is_constant,
    is_output,
    is_weighted,
    through,
)
from edgeopt.transforms.local_rule import integer, integers
from edgeopt.transforms.quantize._scale import Scale
from edgeopt.transforms.quantize._weights import quantize_constants

LEAST_REDUCTION = 256
_TO_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1)}
_TO_FIRST = {3: (0, 2, 1), 4: (0, 3, 1, 2)}


def has_gemm_form(node: ir.Node) -> bool:
    """Whether a weighted node is worth writing as a Gemm."""
    if not is_weighted(node) or node.inputs[0] is None or node.inputs[1] is None:
        return False
    source, weight = through(node.inputs[0]).shape, node.inputs[1].shape
    if source is None or weight is None:
        return False
    if node.op_type == "MatMul":
        return len(weight) == 2 and 2 <= len(source) <= 4
    return node.op_type == "Conv" and len(source) in _TO_LAST and _is_wide_pointwise(node)


def bias_add(node: ir.Node) -> ir.Node | None:
    """The Add behind a MatMul that its Gemm takes in."""
    users = float_users(node.outputs[0])
    return users[0] if node.op_type == "MatMul" and len(users) == 1 and is_bias(users[0]) else None


def write_gemm(
    editor: Editor, node: ir.Node, held: ir.Value, source: Scale, action: Action
) -> ir.Value | Rejection:
    """Put an integer Gemm in the place of a node with a Gemm form.

    Args:
        editor: Of the graph that holds the node.
        node: MatMul or Conv with a constant weight.
        held: Its activation: dequantized where it is a matrix, else in codes.
        source: How that activation is coded.
        action: Says the types.

    Returns:
        The float result, under the name of the value that it replaces.
    """
    add = bias_add(node)
    last = node if add is None else add
    made, name = last.outputs[0], last.outputs[0].name or ""
    rank = _rank(held)
    rows, lead = (held, held) if rank == 2 else _rows(editor, node, held, name, rank)
    gemm = _gemm(editor, node, add, rows, name, source, action)
    if isinstance(gemm, Rejection):
        return gemm
    result = gemm.outputs[0]
    if rank == 2:
        result.shape, result.type = made.shape, made.type
    else:
        result = _spread(editor, node, result, lead, name, rank, made)
    editor.replace_value(made, result)
    editor.remove_dead([last])
    return result


def _is_wide_pointwise(node: ir.Node) -> bool:
    weight = node.inputs[1]
    assert weight is not None, "it is weighted"
    assert weight.shape is not None, "the caller has looked"
    sizes = weight.shape.numpy()
    if any(size != 1 for size in sizes[2:]) or integer(node, "group", 1) != 1:
        return False
    if any(step != 1 for step in integers(node, "strides")) or any(integers(node, "pads")):
        return False
    if max(sizes[0], sizes[1]) < LEAST_REDUCTION or is_output(node.outputs[0]):
        return False
    # What the kernel of a convolution takes in for nothing would stand alone behind a Gemm.
    users = {user.op_type for user in float_users(node.outputs[0])}
    return users.isdisjoint(FUSED | {"HardSwish"})


def _rank(value: ir.Value) -> int:
    assert value.shape is not None, "has_gemm_form asks for it"
    return len(value.shape)


def _rows(
    editor: Editor, node: ir.Node, codes: ir.Value, name: str, rank: int
) -> tuple[ir.Value, ir.Value]:
    """Codes as a matrix, dequantized, and the value with the leading sizes."""
    quantize = codes.producer()
    assert quantize is not None, "a QuantizeLinear makes codes"
    scale, zero = quantize.inputs[1:3]
    steps: list[ir.Node] = []
    if node.op_type == "Conv":
        order = {"perm": list(_TO_LAST[rank])}
        steps.append(new_node("Transpose", [codes], output=f"{name}__pixels", attributes=order))
        codes = _typed(steps[-1], codes)
    depth = _reduction(node)
    wanted = editor.initializer(f"rows_{depth}", np.asarray([-1, depth], np.int64))
    steps.append(new_node("Reshape", [codes, wanted], output=f"{name}__rows_quantized"))
    steps.append(
        new_node(
            "DequantizeLinear", [_typed(steps[-1], codes), scale, zero], output=f"{name}__rows"
        )
    )
    steps[-1].outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    editor.insert(steps, before=node)
    return steps[-1].outputs[0], codes


def _typed(node: ir.Node, like: ir.Value) -> ir.Value:
    node.outputs[0].type = like.type
    return node.outputs[0]


def _reduction(node: ir.Node) -> int:
    weight = node.inputs[1]
    assert weight is not None, "it is weighted"
    assert weight.shape is not None, "has_gemm_form asks for it"
    return int(weight.shape.numpy()[0 if node.op_type == "MatMul" else 1])


def _gemm(
    editor: Editor,
    node: ir.Node,
    add: ir.Node | None,
    rows: ir.Value,
    name: str,
    source: Scale,
    action: Action,
) -> ir.Node | Rejection:
    """The Gemm with integer constants, before the node."""
    if node.op_type == "Conv":
        refused = quantize_constants(editor, node, source, action)
        if refused is not None:
            return refused
        inputs = [rows, _matrix(editor, node, name), *node.inputs[2:3]]
        gemm = new_node("Gemm", inputs, output=f"{name}__product")
        editor.insert([gemm], before=node)
    else:
        bias = [] if add is None else [next(v for v in add.inputs if is_constant(v))]
        inputs = [rows, node.inputs[1], *bias]
        gemm = new_node("Gemm", inputs, output=f"{name}__matrix")
        editor.insert([gemm], before=node)
        refused = quantize_constants(editor, gemm, source, action)
        if refused is not None:
            return refused
    gemm.outputs[0].type = node.outputs[0].type
    return gemm


def _matrix(editor: Editor, node: ir.Node, name: str) -> ir.Value:
    """The codes of a pointwise kernel as a matrix [K, N], dequantized.

    Not as [N, K] with transB: that Gemm is two to three times slower (onnxruntime 1.32).
    """
    held = node.inputs[1]
    dequantize = None if held is None else held.producer()
    assert dequantize is not None, "quantize_constants put it there"
    codes = array_of(dequantize.inputs[0])
    assert codes is not None, "quantize_constants put it there"
    matrix = np.ascontiguousarray(codes.reshape(codes.shape[:2]).T)
    flat = editor.initializer(f"{name}__weight_matrix", matrix)
    # A scalar scale has no axis.
    axis = {"axis": 1} if "axis" in dequantize.attributes else {}
    made = new_node(
        "DequantizeLinear",
        [flat, *dequantize.inputs[1:]],
        output=f"{name}__weight_dequantized",
        attributes=axis,
    )
    made.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    made.outputs[0].shape = ir.Shape(matrix.shape)
    editor.insert([made], before=node)
    return made.outputs[0]


def _spread(
    editor: Editor,
    node: ir.Node,
    product: ir.Value,
    lead: ir.Value,
    name: str,
    rank: int,
    made: ir.Value,
) -> ir.Value:
    """The rows of a result [M, N] back in the places that they came from."""
    width = _width(node)
    sizes = _leading_sizes(node, made)
    steps: list[ir.Node] = []
    if sum(size is None for size in sizes) <= 1:
        known = [-1 if size is None else size for size in sizes]
        wanted = editor.initializer(f"{name}__sizes", np.asarray([*known, width], np.int64))
    else:
        steps.append(
            new_node("Shape", [lead], output=f"{name}__lead", attributes={"end": rank - 1})
        )
        last = editor.initializer(f"size_{width}", np.asarray([width], np.int64))
        steps.append(
            new_node(
                "Concat",
                [steps[-1].outputs[0], last],
                output=f"{name}__sizes",
                attributes={"axis": 0},
            )
        )
        for step in steps:
            step.outputs[0].type = ir.TensorType(ir.DataType.INT64)
        wanted = steps[-1].outputs[0]
    steps.append(new_node("Reshape", [product, wanted], output=f"{name}__spread"))
    if node.op_type == "Conv":
        steps[-1].outputs[0].type = made.type
        order = {"perm": list(_TO_FIRST[rank])}
        steps.append(
            new_node("Transpose", [steps[-1].outputs[0]], output=f"{name}__first", attributes=order)
        )
    result = steps[-1].outputs[0]
    result.shape, result.type = made.shape, made.type
    editor.insert(steps, before=node)
    return result


def _width(node: ir.Node) -> int:
    weight = node.inputs[1]
    assert weight is not None, "it is weighted"
    assert weight.shape is not None, "has_gemm_form asks for it"
    return int(weight.shape.numpy()[1 if node.op_type == "MatMul" else 0])


def _leading_sizes(node: ir.Node, made: ir.Value) -> Sequence[int | None]:
    """Sizes of the result before its channels; None where they are free."""
    if made.shape is None:
        return (None, None)
    sizes = [size if isinstance(size, int) else None for size in made.shape]
    return sizes[:-1] if node.op_type == "MatMul" else [sizes[0], *sizes[2:]]
