"""What operators of the runtime's own domain draw (see `rule_operators`)."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from edgeopt.testing.rule_sketch import Made, Undrawable
from edgeopt.testing.rule_values import Drawn, Shape
from edgeopt.transforms.rules.inference import infer
from edgeopt.transforms.rules.terms import Attribute, Call

if TYPE_CHECKING:
    from edgeopt.testing.rule_operators import Walker

Draw = Callable[["Walker", Call, str, Shape], Drawn]
_ACTIVATIONS: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("", ()),
    ("Relu", ()),
    ("Sigmoid", ()),
    ("Tanh", ()),
    ("LeakyRelu", (0.2,)),
    ("HardSigmoid", (0.2, 0.5)),
    ("Clip", (-0.5, 1.5)),
)
_FLOAT = 1


def fused_conv(plain: Draw) -> Draw:
    """A convolution with an activation and something that is added before it."""

    def drawn(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
        del op_type
        inputs, attributes = plain(w, Call("Conv", call.inputs[:3]), "Conv", hint)
        types = [None if m is None else (_FLOAT, m.shape) for m in inputs]
        made = infer("Conv", "", w.sketch.opset, attributes, types, {})[0]
        sizes = None if made is None else made[1]
        if sizes is None:
            raise Undrawable("no convolution")
        shape = tuple(size for size in sizes if isinstance(size, int))
        inputs.append(w.value(call.inputs[3], shape))
        name, numbers = w.draw.pick(_ACTIVATIONS)
        if name:
            attributes["activation"] = name
        if numbers:
            attributes["activation_params"] = list(numbers)
        return inputs, attributes

    return drawn


def fused_gemm(plain: Draw) -> Draw:
    """A Gemm with an activation."""

    def drawn(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
        del op_type
        inputs, attributes = plain(w, Call("Gemm", call.inputs), "Gemm", hint)
        name, numbers = w.draw.pick(_ACTIVATIONS[1:-1])
        attributes["activation"] = name
        for key, number in zip(("activation_alpha", "activation_beta"), numbers, strict=False):
            attributes[key] = number
        return inputs, attributes

    return drawn


def fused_matmul(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """A product of transposed and scaled operands."""
    del op_type
    shape = hint if len(hint) > 1 else (2, 3)
    left = w.some(call.inputs[0], shape)
    attributes: dict[str, Attribute] = {}
    for name in ("transA", "transB"):
        if w.draw.integer(0, 1):
            attributes[name] = w.draw.pick((0, 1, 1))
    if w.draw.integer(0, 1):
        attributes["alpha"] = w.draw.pick((1.0, 0.5, 0.125))
    inner = left.shape[-2] if attributes.get("transA") else left.shape[-1]
    columns = w.draw.pick((1, 2, 4, inner))
    last = (columns, inner) if attributes.get("transB") else (inner, columns)
    wide = (*left.shape[:-2], *last) if w.draw.integer(0, 1) else last
    return [left, w.value(call.inputs[1], wide)], attributes


def _rows(w: "Walker", call: Call, places: range, size: int) -> list[Made | None]:
    return [w.given(call.inputs[i], lambda: w.sketch.weights((size,))) for i in places]


def biased(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """An activation with a bias along the last axis."""
    x = w.some(call.inputs[0], hint if hint else (3,))
    numbers = (1.0, 1.702, 0.5) if op_type == "QuickGelu" else ()
    attributes: dict[str, Attribute] = {"alpha": w.draw.pick(numbers)} if numbers else {}
    return [x, *_rows(w, call, range(1, len(call.inputs)), x.shape[-1])], attributes


def skip_norm(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """Two values of rows, and vectors for their last axis."""
    del op_type
    shape = hint if len(hint) == 3 else (2, 3, 4)
    x = w.some(call.inputs[0], shape)
    other = w.some(call.inputs[1], x.shape)
    rest = _rows(w, call, range(2, len(call.inputs)), x.shape[-1])
    return [x, other, *rest], {"epsilon": 1e-5} if w.draw.integer(0, 1) else {}


def attention(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """Rows of several samples, with one to three heads; a mask of zeros and ones."""
    heads, size = w.draw.integer(1, 3), w.draw.integer(1, 4)
    width, batch, rows = heads * size, w.draw.integer(1, 2), w.draw.integer(1, 5)
    attributes: dict[str, Attribute] = {"num_heads": heads}
    if w.draw.integer(0, 2) == 0:
        attributes["scale"] = 0.5
    del hint
    if op_type == "Attention":
        x = w.some(call.inputs[0], (batch, rows, w.draw.integer(1, 6)))
        weight = w.const(call.inputs[1], lambda: w.sketch.weights((x.shape[-1], 3 * width)))
        bias = w.given(call.inputs[2], lambda: w.sketch.weights((3 * width,)))
        given = [x, weight, bias]
        if w.draw.integer(0, 1):
            given.append(w.sketch.input((batch, rows), "int32"))
        return given, attributes
    keys = w.draw.integer(1, 5)
    given = [w.some(call.inputs[0], (batch, rows, width))]
    given += [w.some(term, (batch, keys, width)) for term in call.inputs[1:3]]
    bias = w.const(call.inputs[3], lambda: w.sketch.weights((3 * width,)))
    shape = (1, w.draw.pick((1, heads)), rows, keys)
    return [*given, bias, None, w.value(call.inputs[5], shape)], attributes


def table(conv: Draw, gemm: Draw) -> Mapping[str, Draw]:
    """By operator, given what the standard's own draw."""
    return {
        **dict.fromkeys(("Gelu", "FastGelu", "BiasGelu", "QuickGelu"), biased),
        **dict.fromkeys(("FusedMatMul", "TransposeMatMul"), fused_matmul),
        **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), skip_norm),
        **dict.fromkeys(("Attention", "MultiHeadAttention"), attention),
        "FusedConv": fused_conv(conv),
        "FusedGemm": fused_gemm(gemm),
    }
