"""Small graphs of one pattern each, at sizes of real models, for rules that no net shows."""

from collections.abc import Callable

import numpy as np
import onnx
from pattern_nets import Net

from edgeopt.graph.runtime import optimized

PLANES = (1, 64, 28, 28)
TOKENS = (1, 128, 256)


def _planes(make: Callable[[Net, str], str], rank: int = 4) -> Callable[[], onnx.ModelProto]:
    """Something between two convolutions of 64 channels at 28x28."""

    def made() -> onnx.ModelProto:
        n = Net()
        x = make(n, n.conv2d("input", (64, 64)))
        return n.finish(x, PLANES, rank, 13)

    return made


def _tokens(make: Callable[[Net, str], str], rank: int = 3) -> Callable[[], onnx.ModelProto]:
    """Something behind a product, on 128 rows of 256."""

    def made() -> onnx.ModelProto:
        n = Net()
        x = make(n, n.linear("input", (256, 256)))
        return n.finish(x, TOKENS, rank, 13)

    return made


def _split(n: Net, x: str, *, axis: int, sizes: tuple[int, ...]) -> list[str]:
    names = [n.name("part") for _ in sizes]
    node = onnx.helper.make_node("Split", [x, n.ints(*sizes)], names, name=n.name("s"), axis=axis)
    n.nodes.append(node)
    return names


def _prelu(n: Net, x: str) -> str:
    slope = n.constant("slope", np.full((64, 1, 1), 0.25, np.float32))
    return n.conv2d(n.op("PRelu", x, slope), (64, 64))


def _row_norms(n: Net, x: str) -> str:
    for _ in range(2):
        made = n.linear(x, (256, 256), bias=False)
        norm = n.norm(n.op("Flatten", made, axis=2), 256)
        x = n.op("Tanh", n.op("Reshape", norm, n.op("Shape", made)))
    return x


def _exponentials(n: Net, x: str) -> str:
    power = n.op("Exp", x)
    return n.op("Div", power, n.op("ReduceSum", power, n.ints(-1), keepdims=1))


def _softmax(n: Net, x: str) -> str:
    power = n.op("Exp", n.op("Sub", x, n.op("ReduceMax", x, axes=[-1], keepdims=1)))
    return n.op("Div", power, n.op("ReduceSum", power, n.ints(-1), keepdims=1))


def _shuffle(n: Net, x: str) -> str:
    six = n.op("Reshape", x, n.ints(1, 16, 2, 2, 28, 28))
    return n.op("Reshape", n.op("Transpose", six, perm=[0, 1, 4, 2, 5, 3]), n.ints(1, 16, 56, 56))


def _mask(n: Net, x: str) -> str:
    square = n.op("MatMul", x, n.weight("k", 256, 128))
    low = n.constant("mask", np.tril(np.ones((1, 128, 128), np.bool_)))
    masked = n.op("Where", low, square, n.number(-1e9))
    return n.op("Softmax", masked, axis=-1)


def _blocks(n: Net, x: str) -> str:
    weight = np.zeros((64, 64, 3, 3), np.float32)
    generator = np.random.default_rng(1)
    for part in range(4):
        rows = slice(16 * part, 16 * part + 16)
        weight[rows, rows] = generator.normal(0, 0.1, (16, 16, 3, 3))
    return n.op("Conv", x, n.constant("sparse", weight), pads=[1, 1, 1, 1])


def _half_zero(n: Net, x: str) -> str:
    weight = np.random.default_rng(1).normal(0, 0.1, (64, 64, 3, 3)).astype(np.float32)
    weight[32:] = 0
    made = n.op("Relu", n.op("Conv", x, n.constant("half", weight), pads=[1, 1, 1, 1]))
    return n.conv2d(made, (64, 64), 3)


def _root(n: Net, x: str) -> str:
    return n.op("Pow", n.op("Add", n.op("Mul", x, x), n.number(1e-5)), n.number(0.5))


def _largest(n: Net, x: str) -> str:
    best = n.op("ArgMax", n.op("Softmax", x, axis=-1), axis=-1)
    return n.op("Cast", best, to=onnx.TensorProto.FLOAT)


def _scaled(n: Net, x: str) -> str:
    return n.conv2d(n.op("Mul", n.op("Relu", x), n.number(0.5)), (64, 64))


def _joined(n: Net, x: str) -> str:
    return n.op("Concat", n.op("Tanh", x), n.op("Neg", x), axis=1)


def _expanded(n: Net, x: str) -> str:
    row = n.op("Expand", n.op("ReduceMean", x, axes=[1], keepdims=1), n.ints(1, 128, 256))
    return n.op("Sub", x, row)


def _pooled(n: Net, x: str) -> str:
    padded = n.op("Pad", n.op("Relu", x), n.ints(0, 0, 1, 1, 0, 0, 1, 1))
    return n.pool(padded, 3, 2)


def _enlarged(n: Net, x: str) -> str:
    big = n.op("Resize", x, "", n.constant("s", np.array([1, 1, 2, 2], np.float32)), mode="linear")
    return n.op("Mul", big, n.constant("c", np.full((1, 64, 1, 1), 0.5, np.float32)))


def _risen(n: Net, x: str) -> str:
    return n.pool(n.op("Sigmoid", n.conv2d(x, (64, 64))), 3, 2)


def _turned(n: Net, x: str) -> str:
    turned = n.op("Transpose", n.conv2d(n.pool(x, 4, 4), (64, 64)), perm=[0, 2, 3, 1])
    return n.op("Gemm", n.op("Flatten", turned), n.weight("head", 64 * 49, 10))


def _weighted_sum(n: Net, x: str) -> str:
    product = n.op("Mul", x, n.constant("w", np.full((256,), 0.5, np.float32)))
    return n.op("ReduceSum", product, n.ints(-1), keepdims=1)


def _chain(n: Net, x: str) -> str:
    return n.op("Div", n.op("Mul", x, n.number(3)), n.number(7))


def _shuffled(n: Net, x: str) -> str:
    pooled = n.pool(x, 2, 2)
    five = n.op("Reshape", pooled, n.ints(1, 2, 32, 14, 14))
    back = n.op("Reshape", n.op("Transpose", five, perm=[0, 2, 1, 3, 4]), n.ints(1, 64, 14, 14))
    return n.conv2d(back, (64, 64))


def _subsampled(n: Net, x: str) -> str:
    for axis in (2, 3):
        x = n.op("Slice", x, n.ints(0), n.ints(2**31), n.ints(axis), n.ints(2))
    return n.conv2d(x, (64, 64))


def _rms(n: Net, x: str) -> str:
    mean = n.op("ReduceMean", n.op("Pow", x, n.number(2)), axes=[-1])
    root = n.op("Sqrt", n.op("Add", mean, n.number(1e-6)))
    return n.op("Mul", n.op("Mul", x, n.op("Reciprocal", root)), n.weight("gain", 256))


def _best(n: Net, x: str) -> str:
    names = ["odds", "places"]
    odds = n.op("Softmax", x, axis=-1)
    n.nodes.append(onnx.helper.make_node("TopK", [odds, n.ints(4)], names, name="top", axis=-1))
    return n.op("Cast", "places", to=onnx.TensorProto.FLOAT)


def _attention(n: Net, x: str) -> str:
    """As a vision transformer of the timm library is exported: four heads of 64."""
    heads = n.op("Reshape", n.linear(x, (256, 768)), n.ints(1, 128, 3, 4, 64))
    three = n.op("Transpose", heads, perm=[2, 0, 3, 1, 4])
    parts = _split(n, three, axis=0, sizes=(1, 1, 1))
    q, k, v = (n.op("Squeeze", part, n.ints(0)) for part in parts)
    turned = n.op("Transpose", k, perm=[0, 1, 3, 2])
    odds = n.op("Softmax", n.op("MatMul", n.op("Mul", q, n.number(0.125)), turned), axis=-1)
    back = n.op("Transpose", n.op("MatMul", odds, v), perm=[0, 2, 1, 3])
    return n.op("Reshape", back, n.ints(1, 128, 256))


def _branches(n: Net, x: str) -> str:
    made = [n.op("Relu", n.conv2d(x, (64, width))) for width in (32, 16, 16)]
    return n.conv2d(n.op("Concat", *made, axis=1), (64, 64))


def _gated(n: Net, x: str) -> str:
    """As a decoder weights channels: attention of the small planes, on the large ones."""
    gate = n.op("Sigmoid", n.conv2d(n.op("GlobalAveragePool", x), (64, 64)))
    scales = n.constant("s", np.array([1, 1, 2, 2], np.float32))
    wide = n.op("Mul", n.op("Resize", x, "", scales, mode="linear"), gate)
    return n.conv2d(wide, (64, 64))


def _spread(n: Net, x: str) -> str:
    gate = n.op("Sigmoid", n.conv2d(n.op("GlobalAveragePool", x), (64, 64)))
    return n.op("Mul", n.op("Resize", gate, "", "", n.ints(1, 64, 28, 28), mode="linear"), x)


def _repeated(n: Net, x: str) -> str:
    row, other = (n.op(name, x, axes=[1], keepdims=1) for name in ("ReduceMean", "ReduceMax"))
    wide = n.op("Mul", n.op("Expand", row, n.ints(1, 128, 256)), n.op("Sigmoid", other))
    return n.op("Concat", wide, x, axis=-1)


def _head(n: Net, x: str) -> str:
    flat = n.op("Flatten", n.op("GlobalAveragePool", x))
    return n.op("Relu", n.op("Gemm", flat, n.weight("head", 64, 100), n.weight("bias", 100)))


def _scores(n: Net, x: str) -> str:
    turned = n.op("Transpose", n.linear("input", (256, 256)), perm=[0, 2, 1])
    return n.op("Softmax", n.op("Mul", n.op("MatMul", x, turned), n.number(0.0625)), axis=-1)


def _gelu(n: Net, x: str) -> str:
    biased = n.op("Add", x, n.weight("bias", 256))
    gate = n.op("Add", n.op("Erf", n.op("Div", biased, n.number(2**0.5))), n.number(1))
    return n.op("Mul", n.op("Mul", biased, gate), n.number(0.5))


def _normed(n: Net, x: str) -> str:
    added, gain, offset = n.op("Add", x, "input"), n.weight("gain", 256), n.weight("offset", 256)
    apart = n.op("Sub", added, n.op("ReduceMean", added, axes=[-1]))
    spread = n.op("ReduceMean", n.op("Pow", apart, n.number(2)), axes=[-1])
    root = n.op("Sqrt", n.op("Add", spread, n.number(1e-5)))
    return n.op("Add", n.op("Mul", n.op("Div", apart, root), gain), offset)


def _saved(make: Callable[[], onnx.ModelProto]) -> Callable[[], onnx.ModelProto]:
    """As ONNX Runtime saves it, optimized: the rule takes apart what loading it fuses again."""
    return lambda: optimized(make(), "extended")


def _fused_attention() -> onnx.ModelProto:
    """Four heads of 64 on 128 rows, as one operator of the runtime's, between two layers."""
    n = Net()
    weights = n.weight("qkv", 256, 768), n.weight("bias", 768)
    rows = n.op(
        "Attention", n.linear("input", (256, 256)), *weights, domain="com.microsoft", num_heads=4
    )
    made = n.finish(n.linear(rows, (256, 256)), TOKENS, 3, 17)
    made.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return made


def _context(n: Net, x: str) -> str:
    """The mean of all rows beside each of them."""
    mean = n.op("ReduceMean", x, axes=[1], keepdims=1)
    wide = n.op("Concat", x, n.op("Tile", mean, n.ints(1, 128, 1)), axis=2)
    return n.op("Tanh", n.linear(wide, (512, 256)))


def _summed_heads(n: Net, x: str) -> str:
    """The projections around attention as Flax and Keras write them."""
    inward, out = n.weight("in", 256, 4, 64, scale=0.1), n.weight("out", 4, 64, 256, scale=0.1)
    heads = n.op("Tanh", n.op("Einsum", x, inward, equation="btd,dnh->btnh"))
    return n.op("Einsum", heads, out, equation="btnh,nhd->btd")


def _looped() -> onnx.ModelProto:
    """Eight rounds of a recurrent cell of 64 units, as a Loop."""
    n = Net()
    helper, kind = onnx.helper, onnx.TensorProto
    weight = n.weight("w", 64, 64, scale=0.1)
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"], name="b0"),
            helper.make_node("MatMul", ["state", weight], ["product"], name="b1"),
            helper.make_node("Tanh", ["product"], ["next"], name="b2"),
        ],
        "cell",
        [
            helper.make_tensor_value_info("round", kind.INT64, []),
            helper.make_tensor_value_info("go", kind.BOOL, []),
            helper.make_tensor_value_info("state", kind.FLOAT, [1, 64]),
        ],
        [
            helper.make_tensor_value_info("go_on", kind.BOOL, []),
            helper.make_tensor_value_info("next", kind.FLOAT, [1, 64]),
        ],
    )
    rounds = n.constant("rounds", np.array(8, np.int64))
    start = n.constant("start", np.array(True))
    n.nodes.append(
        helper.make_node("Loop", [rounds, start, "input"], ["last"], name="loop", body=body)
    )
    return n.finish("last", (1, 64), 2, 17)


RULE_NETS: dict[str, Callable[[], onnx.ModelProto]] = {
    "batchnorm_of_rows": _tokens(_row_norms),
    "prelu_to_leaky": _planes(_prelu),
    "leaky_to_relu": _planes(lambda n, x: n.conv2d(n.op("LeakyRelu", x, alpha=0.0), (64, 64))),
    "softmax": _tokens(_softmax),
    "softmax_unshifted": _tokens(_exponentials),
    "argmax_of_rising": _tokens(
        lambda n, x: n.op("Cast", n.op("ArgMax", n.op("Sigmoid", x), axis=-1), to=1)
    ),
    "logsoftmax": _tokens(lambda n, x: n.op("Log", n.op("Softmax", x, axis=-1))),
    "argmax_of_logits": _tokens(_largest),
    "depth_to_space": _planes(_shuffle),
    "where_to_sum": _tokens(_mask),
    "blocks_to_groups": _planes(_blocks),
    "power_to_root": _tokens(_root),
    "power_to_product": _tokens(lambda n, x: n.op("Pow", x, n.number(4))),
    "gate_before_resize": _planes(_gated),
    "drop_resize": _planes(_spread),
    "operand_before_expand": _tokens(_repeated),
    "unfuse_conv": _saved(_planes(lambda n, x: n.op("Relu", n.conv2d(n.op("Relu", x), (64, 64))))),
    "unfuse_gemm": _saved(_planes(_head, 2)),
    "unfuse_matmul": _saved(_tokens(_scores)),
    "unfuse_gelu": _saved(_tokens(_gelu)),
    "unfuse_norm": _saved(_tokens(_normed)),
    "unfuse_attention": _fused_attention,
    "factor_before_activation": _planes(_scaled),
    "max_to_relu": _planes(lambda n, x: n.conv2d(n.op("Max", x, n.number(0)), (64, 64))),
    "flat_concat": _planes(lambda n, x: n.op("Concat", _joined(n, x), x, axis=1)),
    "concat_of_split": _planes(
        lambda n, x: n.op("Concat", *_split(n, x, axis=1, sizes=(32, 32)), axis=1)
    ),
    "split_of_concat": _planes(
        lambda n, x: n.op("Mul", *_split(n, _joined(n, x), axis=1, sizes=(64, 64)))
    ),
    "select_of_concat": _planes(
        lambda n, x: n.op("Exp", n.op("Slice", _joined(n, x), n.ints(0), n.ints(64), n.ints(1)))
    ),
    "drop_expand": _tokens(_expanded),
    "pad_into_pool": _planes(_pooled),
    "constant_chain": _tokens(_chain),
    "divide_by_constant": _tokens(lambda n, x: n.op("Tanh", n.op("Div", x, n.number(7)))),
    "pointwise_into_conv": _planes(lambda n, x: n.conv2d(x, (64, 32), 3, pad=0)),
    "chain_pools": _planes(
        lambda n, x: n.op("Concat", *(n.pool(x, k, 1, pad=k // 2) for k in (5, 9, 13)), axis=1)
    ),
    "join_convolutions": _planes(
        lambda n, x: n.op("Concat", n.conv2d(x, (64, 32)), n.conv2d(x, (64, 32)), axis=1)
    ),
    "average_before_conv1x1": _planes(lambda n, x: n.pool(x, 2, 2, "AveragePool")),
    "constant_before_resize": _planes(_enlarged),
    "pool_before_unary": _planes(_risen),
    "transpose_into_product": _planes(_turned),
    "sum_to_product": _tokens(_weighted_sum),
    "average_to_conv": _planes(lambda n, x: n.pool(n.conv2d(x, (64, 40)), 2, 2, "AveragePool")),
    "drop_zero_channels": _planes(_half_zero),
    "split_to_siblings": _planes(
        lambda n, x: n.op("Mul", *_split(n, n.conv2d(x, (64, 128)), axis=1, sizes=(64, 64)))
    ),
    "heads_to_siblings": _tokens(_attention),
    "join_branches": _planes(_branches),
    "spread_branch": _tokens(_context),
    "einsum_to_matmul": _tokens(_summed_heads),
    "shuffle_to_columns": _planes(_shuffled),
    "subsample_to_stride": _planes(_subsampled),
    "root_mean_square": _tokens(_rms),
    "topk_of_logits": _tokens(_best),
    "unroll_loop": _looped,
    "compose_conv1x1": _planes(lambda n, x: n.conv2d(x, (64, 64))),
}
"""By the rule that it is for."""
