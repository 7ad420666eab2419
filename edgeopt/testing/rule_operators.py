"""What operators of a pattern draw: their attributes, and the shapes of their constants.

Nothing here asks whether a rule's conditions hold: near misses are what finds a condition that is
missing. An operator that is not in the table takes values of one shape and no attributes.
"""

from collections.abc import Callable, Mapping

import numpy as np

from edgeopt.testing import rule_contrib
from edgeopt.testing.rule_axes import concat, shaped, split, transpose
from edgeopt.testing.rule_sketch import Made, Sketch, Undrawable
from edgeopt.testing.rule_values import (
    Drawn,
    Shape,
    clip,
    gather,
    power,
    slices,
    sloped,
    topk,
    where,
)
from edgeopt.transforms.rules.terms import (
    Attribute,
    Call,
    Computed,
    Const,
    Either,
    Fixed,
    Literal,
    Out,
    Tensor,
    Term,
)

_PLANES = (3, 5)


class Walker:
    """Turns a pattern into nodes, from its inputs to its roots.

    Args:
        sketch: The model under way.
    """

    def __init__(self, sketch: Sketch) -> None:
        self.sketch = sketch
        self.draw = sketch.draw
        self.alike: dict[str, tuple[Shape, dict[str, Attribute]]] = {}
        self._made: dict[Term, tuple[Made, ...]] = {}

    @property
    def made(self) -> list[Made]:
        """Everything that nodes make, in order."""
        calls = [each for term, each in self._made.items() if isinstance(term, Call)]
        return [m for each in calls for m in each if m.name]

    def value(self, term: Term | None, hint: Shape) -> Made | None:
        """What a term is; a new input has the hinted shape, a new constant one that fits it."""
        if term is None:
            return None
        if isinstance(term, Either):
            return self.value(self.draw.pick(term.options), hint)
        if isinstance(term, Out):
            self.value(term.call, hint)
            made = self._made[term.call]
            return made[term.index] if term.index < len(made) else None
        if isinstance(term, Tensor) and term not in self._made:
            if term.optional and self.draw.integer(0, 2) == 0:
                return None
            constant = isinstance(term, Const)
            made = self.beside(hint) if constant else self.sketch.input(hint)
            self._made[term] = (made,)
        if term not in self._made:
            self._made[term] = self._new(term, hint)
        return self._made[term][0]

    def some(self, term: Term | None, hint: Shape) -> Made:
        """As `value`, for an input that cannot be left out.

        Raises:
            Undrawable: It is left out.
        """
        made = self.value(term, hint)
        if made is None:
            raise Undrawable("an input is left out")
        return made

    def given(self, term: Term | None, make: Callable[[], Made]) -> Made | None:
        """As `const`, also for a variable that need not be a constant."""
        fits = isinstance(term, Tensor) and not isinstance(term, Computed) and not term.optional
        if term is not None and fits and term not in self._made:
            self._made[term] = (make(),)
        return self.const(term, make)

    def const(self, term: Term | None, make: Callable[[], Made]) -> Made | None:
        """The constant that a variable is, made when it is met first; others as `value`."""
        if not isinstance(term, Const):
            return self.value(term, make().shape)
        if term.optional and self.draw.integer(0, 2) == 0:
            return None
        if term not in self._made:
            self._made[term] = (make(),)
        return self._made[term][0]

    def beside(self, shape: Shape) -> Made:
        """A constant that can stand beside a value of that shape."""
        rank = len(shape)
        options: list[Shape] = [(), (1,), shape, shape[-1:]]
        if rank > 1:
            options += [(1, shape[1], *(1,) * (rank - 2)), (shape[1], *(1,) * (rank - 2))]
        return self.sketch.weights(self.draw.pick(options))

    def _new(self, term: Term, hint: Shape) -> tuple[Made, ...]:
        if isinstance(term, Fixed):
            return (self.sketch.constant(term.array),)
        if isinstance(term, Literal):
            shape: Shape = self.draw.pick(((), (), (1,)))
            return (self.sketch.constant(np.full(shape, term.value, self.sketch.dtype)),)
        assert isinstance(term, Call), "a pattern holds variables, numbers and operators"
        op_type = self.draw.pick(term.op_types)
        known = _CONTRIB if term.domain else _TABLE
        inputs, attributes = known.get(op_type, _plain)(self, term, op_type, hint)
        written = {**attributes, **term.attributes}
        if term.either_way and self.draw.integer(0, 1):
            inputs = inputs[::-1]
        few = term.least < term.outputs and self.draw.integer(0, 1)
        count = term.least if few else term.outputs
        return self.sketch.node(op_type, inputs, written, count, term.domain)


def _plain(w: Walker, call: Call, op_type: str, hint: Shape) -> Drawn:
    """Values of one shape, or ones that broadcast to it."""
    del op_type
    order = sorted(range(len(call.inputs)), key=lambda i: isinstance(call.inputs[i], Const))
    made: dict[int, Made | None] = {}
    shape = hint
    for index in order:
        term = call.inputs[index]
        wide = shape if not made or w.sketch.often() else _narrowed(w, shape)
        made[index] = w.value(term, wide)
        found = made[index]
        if found is not None and not isinstance(term, Const | Literal):
            shape = found.shape
    return [made[index] for index in range(len(call.inputs))], {}


def _narrowed(w: Walker, shape: Shape) -> Shape:
    """A shape that broadcasts to another: one number a channel, often, or one here and there."""
    if len(shape) > 2 and w.draw.integer(0, 2) == 0:
        return (*shape[:2], *(1,) * (len(shape) - 2))
    kept = shape[w.draw.integer(0, len(shape)) :] if w.draw.integer(0, 1) else shape
    return tuple(1 if w.draw.integer(0, 1) else size for size in kept)


def _planes(w: Walker, term: Term | None, hint: Shape) -> Made:
    low, high = _PLANES
    shape = hint if low <= len(hint) <= high else (2, 4, 6, 5)
    made = w.some(term, shape)
    if made.rank < low:
        raise Undrawable("no planes")
    return made


def _window(w: Walker, spatial: int) -> dict[str, Attribute]:
    """Strides, pads and dilations, often those of a plain layer, or left out."""
    draw, found = w.draw, dict[str, Attribute]()
    if draw.integer(0, 2) == 0:
        return found
    if not w.sketch.often():
        found["strides"] = [draw.pick((1, 2, 2)) for _ in range(spatial)]
    if not w.sketch.often():
        found["dilations"] = [draw.pick((1, 2)) for _ in range(spatial)]
    kind = draw.integer(0, 7)
    if kind in (0, 1):
        found["pads"] = [draw.integer(0, 1) for _ in range(2 * spatial)]
    elif kind == 2:
        found["pads"] = [1] * (2 * spatial)
    elif kind == 3 and "dilations" not in found:
        found["auto_pad"] = draw.pick(("SAME_UPPER", "SAME_LOWER", "VALID"))
    return found


def _conv(w: Walker, call: Call, op_type: str, hint: Shape) -> Drawn:
    x = _planes(w, call.inputs[0], hint)
    channels, spatial = x.shape[1], x.rank - 2
    known = w.alike.get(op_type)
    if known is not None and len(known[0]) == spatial and w.draw.integer(0, 1):
        kernel, attributes = known[0], dict(known[1])
        if channels % int(str(attributes.get("group", 1))):
            attributes.pop("group")
    else:
        kernel = tuple(w.draw.pick((1, 1, 1, 2, 3)) for _ in range(spatial))
        if w.sketch.often():
            kernel = kernel[:1] * spatial
        attributes = _window(w, spatial)
        if not w.sketch.often():
            groups = (1, 2, 3, 4, 6, channels, channels)
            attributes["group"] = w.draw.pick([g for g in groups if channels % g == 0])
        if op_type == "ConvTranspose" and w.draw.integer(0, 1):
            attributes = dict[str, Attribute](strides=list(kernel))
        if w.draw.integer(0, 1):
            attributes["kernel_shape"] = list(kernel)
        w.alike[op_type] = kernel, attributes
    group = int(str(attributes.get("group", 1)))
    turned = op_type == "ConvTranspose"
    made = w.draw.pick((1, 1, 2, 3)) if group > 1 else w.draw.pick((1, 2, 4, channels))
    if known is None and w.draw.integer(0, 5) == 0:
        # Depthwise, one of each: the layer behind it is drawn anew.
        group, made = channels, 1
        attributes["group"] = group
        w.alike.pop(op_type, None)
    outer = group * made
    if turned:
        attributes.pop("auto_pad", None)
    shape = (channels, made, *kernel) if turned else (outer, channels // group, *kernel)
    weight = w.const(call.inputs[1], lambda: w.sketch.weights(shape))
    if weight is not None:
        outer = weight.shape[1] * group if turned else weight.shape[0]
    inputs = [x, weight]
    if len(call.inputs) > 2:
        inputs.append(w.const(call.inputs[2], lambda: w.sketch.weights((outer,))))
    return inputs, attributes


def _pool(w: Walker, call: Call, op_type: str, hint: Shape) -> Drawn:
    x = _planes(w, call.inputs[0], hint)
    if op_type.startswith("Global"):
        return [x, *(None for _ in call.inputs[1:])], {}
    spatial = x.rank - 2
    attributes = _window(w, spatial)
    # A window that is larger than what it slides over is an error that the runtime does not see.
    attributes["kernel_shape"] = [min(w.draw.pick((1, 2, 3, 5)), *x.shape[2:])] * spatial
    if w.draw.integer(0, 2) == 0:
        attributes["strides"] = attributes["kernel_shape"]
    if "dilations" in attributes and max(x.shape[2:]) < 2 * x.rank:
        attributes.pop("dilations")
    if op_type == "AveragePool":
        attributes.pop("dilations", None)
        if w.draw.integer(0, 1):
            attributes["count_include_pad"] = 1
    if w.draw.integer(0, 5) == 0 and "auto_pad" not in attributes:
        attributes["ceil_mode"] = 1
    return [x], attributes


def _batchnorm(w: Walker, call: Call, op_type: str, hint: Shape) -> Drawn:
    del op_type
    x = w.some(call.inputs[0], hint if len(hint) > 1 else (2, 4))
    rows = [
        w.const(term, lambda i=i: w.sketch.weights(x.shape[1:2], positive=i == 4))
        for i, term in enumerate(call.inputs[1:], start=1)
    ]
    epsilon: dict[str, Attribute] = {"epsilon": 1e-3} if w.draw.integer(0, 1) else {}
    return [x, *rows], epsilon


def _gemm(w: Walker, call: Call, op_type: str, hint: Shape) -> Drawn:
    del op_type
    flat = (hint[0] if hint else 2, hint[-1] if hint else 3)
    x = w.some(call.inputs[0], flat if isinstance(call.inputs[0], Tensor) else hint)
    if x.rank != 2:
        raise Undrawable("no matrix")
    attributes: dict[str, Attribute] = {}
    for name, values in (("transA", (0, 1)), ("transB", (0, 1)), ("alpha", (1.0, 0.5, 2.0))):
        if not w.sketch.often():
            attributes[name] = w.draw.pick(values)
    if w.draw.integer(0, 2) == 0:
        attributes["beta"] = w.draw.pick((1.0, 0.5, 0.0))
    rows, inner = x.shape[::-1] if attributes.get("transA") else x.shape
    columns = w.draw.pick((1, 2, 3, inner))
    shape = (columns, inner) if attributes.get("transB") else (inner, columns)
    weight = w.const(call.inputs[1], lambda: w.sketch.weights(shape))
    biases: list[Shape] = [(columns,), (columns,), (), (1, columns), (rows, columns)]
    inputs = [x, weight]
    if len(call.inputs) > 2:
        inputs.append(w.const(call.inputs[2], lambda: w.sketch.weights(w.draw.pick(biases))))
    return inputs, attributes


def _matmul(w: Walker, call: Call, op_type: str, hint: Shape) -> Drawn:
    del op_type
    one, other = call.inputs
    shape = hint if len(hint) > 1 else (2, 3)
    if isinstance(one, Const) and not isinstance(other, Const):
        right = w.some(other, shape)
        inner = right.shape[-2] if right.rank > 1 else right.shape[0]
        return [w.const(one, lambda: w.sketch.weights((w.draw.integer(1, 4), inner))), right], {}
    left = w.some(one, shape)
    inner, columns = left.shape[-1], w.draw.pick((1, 2, 4, left.shape[-1]))
    shapes: list[Shape] = [(inner, columns)] * 4 + [(*left.shape[:-2], inner, columns), (inner,)]
    wanted = w.draw.pick(shapes)
    return [left, w.const(other, lambda: w.sketch.weights(wanted))], {}


def _reduce(w: Walker, call: Call, op_type: str, hint: Shape) -> Drawn:
    x = w.some(call.inputs[0], hint)
    rank = x.rank
    spatial = tuple(range(2, rank))
    options = [each for each in ((-1,), (1,), (rank - 1,), spatial, spatial, (0,), (1, 2)) if each]
    axes = [axis for axis in w.draw.pick(options) if -rank <= axis < rank]
    attributes: dict[str, Attribute] = {}
    if w.draw.integer(0, 1):
        attributes["keepdims"] = w.draw.pick((0, 1))
    as_input = w.sketch.opset >= (13 if op_type == "ReduceSum" else 18)
    inputs: list[Made | None] = [x]
    if as_input and len(call.inputs) > 1:
        inputs.append(w.const(call.inputs[1], lambda: w.sketch.integers(*axes)))
    elif not as_input and axes:
        attributes["axes"] = axes
    return inputs, attributes


def _along(w: Walker, call: Call, op_type: str, hint: Shape) -> Drawn:
    x = w.some(call.inputs[0], hint if hint else (3,))
    attributes: dict[str, Attribute] = {}
    if w.sketch.often():
        attributes["axis"] = w.draw.pick((-1, -1, x.rank - 1, min(1, x.rank - 1), 0))
    if op_type.startswith("Arg") and w.draw.integer(0, 1):
        attributes["keepdims"] = w.draw.pick((0, 1))
    return [x], attributes


def _resize(w: Walker, call: Call, op_type: str, hint: Shape) -> Drawn:
    del op_type
    if isinstance(call.inputs[0], Tensor) and w.draw.integer(0, 4) == 0:
        hint = (*hint[:2], *(1,) * (len(hint) - 2))
    x = _planes(w, call.inputs[0], hint)
    scales = np.ones(x.rank, np.float32)
    scales[2:] = w.draw.pick((1.0, 2.0, 2.0, 3.0, 0.5))
    made = w.sketch.constant(scales)
    rest: list[Made | None] = [None] * max(0, len(call.inputs) - 1)
    if len(rest) > 1:
        rest[1] = w.const(call.inputs[2], lambda: made)
    if (len(rest) < 2 or rest[1] is None) and len(rest) > 2:
        sizes = [int(s * f) for s, f in zip(x.shape, scales, strict=True)]
        rest[2] = w.const(call.inputs[3], lambda: w.sketch.integers(*sizes))
    mode = w.draw.pick(("nearest", "nearest", "linear", "cubic"))
    attributes: dict[str, Attribute] = {"mode": mode} if w.sketch.often() else {}
    if w.draw.integer(0, 1):
        modes = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
        attributes["coordinate_transformation_mode"] = w.draw.pick(modes)
    return [x, *rest], attributes


def _lrn(w: Walker, call: Call, op_type: str, hint: Shape) -> Drawn:
    del op_type
    attributes: dict[str, Attribute] = {"size": w.draw.pick((1, 3, 3, 5, 2))}
    for name, values in (("alpha", (1e-4, 0.5)), ("beta", (0.5, 0.75, 1.0, 0.6)), ("bias", (2.0,))):
        if w.draw.integer(0, 1):
            attributes[name] = w.draw.pick(values)
    return [_planes(w, call.inputs[0], hint)], attributes


_TABLE: Mapping[str, Callable[[Walker, Call, str, Shape], Drawn]] = {
    **dict.fromkeys(("Conv", "ConvTranspose"), _conv),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"), _pool),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"), _reduce),
    **dict.fromkeys(("Softmax", "LogSoftmax", "ArgMax", "ArgMin", "Flatten"), _along),
    **dict.fromkeys(("Reshape", "Expand", "Tile", "Pad", "Squeeze", "Unsqueeze"), shaped),
    **dict.fromkeys(("LeakyRelu", "Elu", "HardSigmoid", "Swish", "Celu"), sloped),
    "BatchNormalization": _batchnorm,
    "Clip": clip,
    "Concat": concat,
    "Gather": gather,
    "Gemm": _gemm,
    "LRN": _lrn,
    "MatMul": _matmul,
    "Pow": power,
    "Resize": _resize,
    "Slice": slices,
    "Split": split,
    "TopK": topk,
    "Transpose": transpose,
    "Where": where,
}
_CONTRIB = rule_contrib.table(_conv, _gemm)
