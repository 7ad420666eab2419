"""Rules of the catalogue on random shapes, strides, pads, groups and axes.

Each case says where a rule must fire; wherever it fires the exam compares outputs with the
runtime's without optimizations, undoes, and repeats.
"""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import examine_exact

QUICK = settings(max_examples=8, deadline=None, derandomize=True)
FLAGS = st.booleans()
SMALL = st.integers(1, 3)


def _ints(b: Builder, name: str, *numbers: int) -> str:
    return b.constant(name, np.array(numbers, np.int64))


def _planes(channels: int, size: int = 5) -> list[tuple[str, str, tuple[int | str, ...]]]:
    return [("x", "float32", ("N", channels, size, size + 1))]


def _model(b: Builder, inputs: list[tuple[str, str, tuple[int | str, ...]]], rank: int, **o: int):
    made = [f"y{axis}" for axis in range(rank)]
    return b.model(inputs, [("y", "float32", made)], **o)


def _conv(
    b: Builder, x: str, y: str, shape: tuple[int, ...], bias: bool, **attributes: object
) -> str:
    names = [x, b.weight(f"{y}.w", *shape), *([b.weight(f"{y}.b", shape[0])] if bias else [])]
    return b.node("Conv", names, y, **attributes)


@QUICK
@given(
    channels=st.tuples(SMALL, SMALL),
    kernel=st.integers(1, 2),
    pad=st.integers(0, 1),
    pool=st.tuples(st.integers(2, 3), st.integers(1, 2), st.integers(0, 1)),
    flags=st.tuples(FLAGS, FLAGS, FLAGS),
)
def test_average_moves_exactly_where_it_may(
    channels: tuple[int, int],
    kernel: int,
    pad: int,
    pool: tuple[int, int, int],
    flags: tuple[bool, bool, bool],
) -> None:
    """Pointwise, no padding of its own, and padded zeros only where no bias is beside them."""
    bias, counted, rounded = flags
    window, stride, margin = pool
    b = Builder()
    _conv(b, "x", "c", (channels[1], channels[0], kernel, kernel), bias, pads=[pad] * 4)
    shape = {"kernel_shape": [window] * 2, "strides": [stride] * 2, "pads": [margin] * 4}
    b.node(
        "AveragePool",
        ["c"],
        "y",
        count_include_pad=int(counted),
        ceil_mode=int(rounded),
        **shape,
    )
    fires = (kernel, pad) == (1, 0) and stride > 1
    fires = fires and not (counted and (margin or rounded) and bias)
    model = _model(b, _planes(channels[0]), 4, opset=19)
    assert len(examine_exact("average_before_conv1x1", model)) == int(fires)


@QUICK
@given(
    channels=st.tuples(SMALL, SMALL),
    mode=st.sampled_from(["nearest", "linear", "cubic"]),
    place=st.sampled_from(["half_pixel", "asymmetric", "align_corners"]),
    scale=st.sampled_from([0.5, 1.5, 2.0]),
    sized=FLAGS,
    bias=FLAGS,
)
def test_convolution_moves_before_resize(
    channels: tuple[int, int], mode: str, place: str, scale: float, sized: bool, bias: bool
) -> None:
    """Nearest and linear, by factors or sizes, wherever pixels lie; never cubic or shrinking."""
    b = Builder()
    given_, made = channels
    target = [1, given_, int(6 * scale), int(6 * scale)]
    scales = b.constant("s", np.array([1, 1, scale, scale], np.float32))
    inputs = ["x", "", "", _ints(b, "z", *target)] if sized else ["x", "", scales]
    b.node("Resize", inputs, "u", mode=mode, coordinate_transformation_mode=place)
    _conv(b, "u", "y", (made, given_, 1, 1), bias)
    model = _model(b, [("x", "float32", (1, given_, 6, 6))], 4)
    fires = mode != "cubic" and scale > 1 and made <= 2 * given_
    assert len(examine_exact("conv1x1_before_resize", model)) == int(fires)


@QUICK
@given(
    sizes=st.tuples(SMALL, SMALL, st.integers(2, 5)),
    keep=FLAGS,
    bias=FLAGS,
    axes=st.sampled_from([(1,), (-2,), (2,), (0, 1)]),
)
def test_mean_moves_before_product(
    sizes: tuple[int, int, int], keep: bool, bias: bool, axes: tuple[int, ...]
) -> None:
    """Over any axes but the last; a bias stays behind."""
    b = Builder()
    given_, made, length = sizes
    product = b.node("MatMul", ["x", b.weight("w", given_, made)], "p")
    product = b.node("Add", [b.weight("b", made), "p"], "q") if bias else product
    b.node("ReduceMean", [product], "y", axes=list(axes), keepdims=int(keep))
    fires = 2 not in axes and (keep or len(axes) == 1)
    rank = 3 if keep else 3 - len(axes)
    model = _model(b, [("x", "float32", (2, length, given_))], rank)
    assert len(examine_exact("mean_before_product", model)) == int(fires)


@QUICK
@given(
    channels=st.tuples(SMALL, SMALL, SMALL),
    kernel=st.integers(2, 3),
    stride=st.integers(1, 2),
    pad=st.integers(0, 1),
    biases=st.tuples(FLAGS, FLAGS),
)
def test_pointwise_goes_into_what_follows(
    channels: tuple[int, int, int], kernel: int, stride: int, pad: int, biases: tuple[bool, bool]
) -> None:
    """Unless padding meets a bias, or products would become more."""
    b = Builder()
    given_, middle, made = channels
    _conv(b, "x", "c", (middle, given_, 1, 1), biases[0])
    attributes = {"strides": [stride] * 2, "pads": [pad] * 4}
    _conv(b, "c", "y", (made, middle, kernel, kernel), biases[1], **attributes)
    taps = kernel**2
    pays = given_ * made * taps <= given_ * middle * stride**2 + middle * made * taps
    fires = pays and not (pad and biases[0])
    model = _model(b, _planes(given_), 4)
    assert len(examine_exact("pointwise_into_conv", model)) == int(fires)


@QUICK
@given(
    kernels=st.lists(st.sampled_from([1, 3, 5]), min_size=2, max_size=3),
    groups=st.lists(st.sampled_from([1, 2]), min_size=3, max_size=3),
    stride=st.integers(1, 2),
    bias=FLAGS,
    identity=FLAGS,
    norm=FLAGS,
)
def test_branches_are_merged(
    kernels: list[int], groups: list[int], stride: int, bias: bool, identity: bool, norm: bool
) -> None:
    """Any kernels, groups and strides, with x itself and a normalization of it beside them."""
    b = Builder()
    terms: list[str] = []
    for index, kernel in enumerate(kernels):
        group = groups[index]
        attributes = {"pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": group}
        shape = (4, 4 // group, kernel, kernel)
        terms.append(_conv(b, "x", f"c{index}", shape, bias, **attributes))
    if stride == 1:
        terms += ["x"] if identity else []
        terms += [b.batchnorm("x", "n", 4)] if norm else []
    total = terms[0]
    for index, name in enumerate(terms[1:]):
        total = b.node("Add", [name, total], "y" if index == len(terms) - 2 else f"s{index}")
    model = _model(b, [("x", "float32", (1, 4, 6, 6))], 4)
    applied = examine_exact("merge_branches", model)
    if len(set(groups[: len(kernels)])) == 1 and len(applied) == 1:
        left = [node.op_type for node in applied[0].graph.graph]
        assert left == ["Conv"]


@QUICK
@given(
    sizes=st.tuples(st.integers(2, 4), st.integers(2, 4), st.integers(2, 4)),
    forms=st.tuples(FLAGS, FLAGS, FLAGS),
    factor=st.sampled_from([1.0, -2.0]),
    beside=FLAGS,
)
def test_products_are_composed(
    sizes: tuple[int, int, int], forms: tuple[bool, bool, bool], factor: float, beside: bool
) -> None:
    """Chains with biases and factors, and one beside another, in two and three axes."""
    b = Builder()
    given_, middle, made = sizes
    flat, first_bias, last_bias = forms
    b.constant("k", np.full((), factor, np.float32))
    b.node("MatMul", ["x", b.weight("w1", given_, middle)], "p")
    last = b.node("Add", ["p", b.weight("b1", middle)], "q") if first_bias else "p"
    b.node("MatMul", [b.node("Mul", [last, "k"], "r"), b.weight("w2", middle, made)], "s")
    last = b.node("Add", [b.weight("b2", made), "s"], "t") if last_bias else "s"
    if beside:
        b.node("MatMul", ["x", b.weight("w3", given_, made)], "u")
        last = b.node("Add", ["u", last], "v")
    b.node("Relu", [last], "y")
    shape = (3, given_) if flat else (2, 3, given_)
    model = _model(b, [("x", "float32", shape)], len(shape))
    cost = given_ * middle + middle * made + beside * given_ * made
    applied = examine_exact("compose_products", model)
    assert len(applied) == int(given_ * made <= cost)


@QUICK
@given(
    axis=st.integers(1, 2),
    start=st.integers(0, 3),
    count=st.integers(1, 3),
    step=st.integers(1, 2),
    kind=st.sampled_from(["Slice", "Gather", "one"]),
    block=st.sampled_from(["product", "norm", "softmax", "heads", "gemm"]),
    asked=FLAGS,
)
def test_selection_goes_first(
    axis: int, start: int, count: int, step: int, kind: str, block: str, asked: bool
) -> None:
    """Through products, normalizations, residuals and reshapes, along rows and columns."""
    b = Builder()
    length, width = 6, 8
    b.node("MatMul", ["x", b.weight("w", width, width)], "p")
    b.node("Add", ["p", "x"], "r")
    if block == "norm":
        names = ["r", b.weight("g", width), b.weight("o", width)]
        last = b.node("LayerNormalization", names, "n", axis=-1)
    elif block == "softmax":
        last = b.node("Softmax", ["r"], "n", axis=1)
    elif block == "heads":
        split = b.node("Reshape", ["r", _ints(b, "four", 2, length, 2, 4)], "h")
        turned = b.node("Transpose", [split], "t", perm=[0, 2, 1, 3])
        back = b.node("Transpose", [b.node("Tanh", [turned], "th")], "tb", perm=[0, 2, 1, 3])
        last = b.node("Reshape", [back, _ints(b, "three", 2, length, width)], "n")
    else:
        last = b.node("Tanh", ["r"], "n")
    rank, inputs = 3, [("x", "float32", (2, length, width))]
    if kind == "Slice":
        ends = [start + count * step]
        operands = [_ints(b, n, v) for n, v in (("a", start), ("e", *ends), ("x_", axis))]
        b.node("Slice", [last, *operands, _ints(b, "st", step)], "y")
    else:
        index = np.array(start if kind == "one" else list(range(start, start + count)), np.int64)
        inputs += [("i", "int64", index.shape)] if asked else []
        b.node("Gather", [last, "i" if asked else b.constant("i", index)], "y", axis=axis)
        rank -= kind == "one"
    model = _model(b, inputs, rank)
    applied = examine_exact("select_first", model)
    size = length if axis == 1 else width
    kept = len(range(size)[start : start + count * step : step]) if kind == "Slice" else count
    few = (1 if kind == "one" else kept) * 2 <= size
    mixes = (block == "norm" and axis == 2) or (block == "softmax" and axis == 1)
    if block in {"norm", "softmax"} and few:
        assert len(applied) == int(not mixes)


@QUICK
@given(
    shapes=st.tuples(SMALL, st.integers(2, 6), st.integers(2, 6), SMALL),
    scale=st.sampled_from(["", "Mul", "Div"]),
    right=FLAGS,
)
def test_chains_are_reassociated_where_it_halves(
    shapes: tuple[int, int, int, int], scale: str, right: bool
) -> None:
    """Either way round, with a number between or not."""
    b = Builder()
    m, k, n, p = (2 * shapes[0], shapes[1], 2 * shapes[2], shapes[3])
    b.constant("c", np.full((), 4.0, np.float32))
    inner = b.node("MatMul", ["b", "d"] if right else ["a", "b"], "i")
    inner = b.node(scale, [inner, "c"], "j") if scale else inner
    b.node("MatMul", ["a", inner] if right else [inner, "d"], "y")
    sizes = {"a": (2, m, k), "b": (2, k, n), "d": (2, n, p)}
    model = _model(b, [(name, "float32", size) for name, size in sizes.items()], 3)
    costs = [m * k * n + m * n * p, k * n * p + m * k * p]
    now, then = costs[::-1] if right else costs
    assert len(examine_exact("reassociate", model)) == int(2 * then <= now)


@QUICK
@given(
    operators=st.lists(st.sampled_from(["Add", "Sub", "Mul", "Div"]), min_size=1, max_size=3),
    layer=st.sampled_from(["Conv", "depthwise", "MatMul", "Gemm"]),
    pad=st.integers(0, 1),
    scalar=FLAGS,
)
def test_affine_goes_into_the_layer(
    operators: list[str], layer: str, pad: int, scalar: bool
) -> None:
    """Chains of constants before convolutions, in groups or not, and products."""
    b = Builder(3)
    planes = layer in {"Conv", "depthwise"}
    last = "x"
    for index, operator in enumerate(operators):
        size = 1 if scalar else 4
        number = np.linspace(0.5, 1.5, size, dtype=np.float32)
        shape = (1, size, 1, 1) if planes else (size,)
        name = b.constant(f"c{index}", number.reshape(shape))
        last = b.node(operator, [last, name], f"v{index}")
    if planes:
        group = 4 if layer == "depthwise" else 1
        attributes = {"pads": [pad] * 4, "group": group}
        _conv(b, last, "y", (4, 4 // group, 3, 3), True, **attributes)
    elif layer == "Gemm":
        b.node("Gemm", [last, b.weight("w", 3, 4), b.weight("o", 3)], "y", transB=1)
    else:
        b.node("MatMul", [last, b.weight("w", 4, 3)], "y")
    shape = (2, 4, 5, 5) if planes else (2, 4)
    applied = examine_exact("affine_before", _model(b, [("x", "float32", shape)], len(shape)))
    shifts = any(operator in {"Add", "Sub"} for operator in operators)
    if not (pad and planes and shifts):
        assert len(applied) == 1


@QUICK
@given(
    kernels=st.sets(st.sampled_from([1, 3, 5, 7]), min_size=2, max_size=3),
    size=st.integers(4, 9),
)
def test_pools_are_chained(kernels: set[int], size: int) -> None:
    """Any odd kernels, also larger than the planes."""
    b = Builder()
    made = [
        b.node("MaxPool", ["x"], f"p{k}", kernel_shape=[k] * 2, pads=[k // 2] * 4) for k in kernels
    ]
    b.node("Concat", made, "y", axis=1)
    model = _model(b, [("x", "float32", (1, 2, size, size))], 4)
    assert len(examine_exact("chain_pools", model)) == len(kernels) - 1


@QUICK
@given(
    letters=st.permutations("bnij"),
    order=st.tuples(
        st.permutations(range(4)), st.permutations(range(4)), st.permutations(range(4))
    ),
)
def test_einsum_in_any_order(letters: list[str], order: tuple[list[int], ...]) -> None:
    """Two batches, a row, an inner letter and a column, however they stand."""
    sizes = dict(zip("bnijk", (2, 3, 4, 5, 6), strict=True))
    batch = "".join(sorted(set("bn")))
    operands = [f"{batch}ij", f"{batch}jk", f"{batch}ik"]
    left, right, made = (
        "".join(word[i] for i in places) for word, places in zip(operands, order, strict=True)
    )
    assert len(letters) == len(left)
    b = Builder()
    b.node("Einsum", ["x", "z"], "y", equation=f"{left},{right}->{made}")
    inputs = [("x", left), ("z", right)]
    model = _model(b, [(n, "float32", tuple(sizes[c] for c in w)) for n, w in inputs], 4)
    (applied,) = examine_exact("einsum_to_matmul", model)
    assert "MatMul" in [node.op_type for node in applied.graph.graph]


@QUICK
@given(
    margins=st.lists(st.integers(0, 2), min_size=4, max_size=4),
    kernel=st.integers(1, 3),
    value=st.sampled_from([None, 0.0, -np.inf, 1.0]),
    positive=FLAGS,
    own=st.integers(0, 1),
)
def test_padding_goes_into_the_pool_exactly_where_it_may(
    margins: list[int], kernel: int, value: float | None, positive: bool, own: int
) -> None:
    """Minus infinity always, zero behind a Relu, and no window of padding alone."""
    b = Builder()
    own = min(own, kernel // 2)
    source = b.node("Relu", ["x"], "r") if positive else "x"
    pads = _ints(b, "p", 0, 0, *margins[:2], 0, 0, *margins[2:])
    extra = [] if value is None else [b.constant("v", np.array(value, np.float32))]
    b.node("Pad", [source, pads, *extra], "q")
    b.node("MaxPool", ["q"], "y", kernel_shape=[kernel] * 2, pads=[own] * 4)
    lowest = value == -np.inf or (value in {None, 0.0} and positive)
    fits = all(margin + own < kernel for margin in margins)
    model = _model(b, _planes(2), 4)
    assert len(examine_exact("pad_into_pool", model)) == int(lowest and fits)


@QUICK
@given(
    sizes=st.lists(st.integers(1, 3), min_size=2, max_size=3),
    start=st.integers(0, 4),
    count=st.integers(1, 3),
)
def test_selection_inside_one_of_what_is_joined(sizes: list[int], start: int, count: int) -> None:
    """Inside one value it is that value's; across two it stays."""
    b = Builder()
    names = [b.node("Tanh", [f"x{i}"], f"t{i}") for i in range(len(sizes))]
    b.node("Concat", names, "c", axis=1)
    total = sum(sizes)
    end = min(start + count, total)
    operands = [_ints(b, n, v) for n, v in (("a", start), ("e", end), ("ax", 1))]
    b.node("Relu", [b.node("Slice", ["c", *operands], "s")], "y")
    inputs = [(f"x{i}", "float32", (2, size)) for i, size in enumerate(sizes)]
    model = _model(b, inputs, 2)  # type: ignore[arg-type]
    borders = np.cumsum([0, *sizes])
    inside = start < end and any(
        low <= start and end <= high for low, high in itertools.pairwise(borders)
    )
    assert len(examine_exact("select_of_concat", model)) == int(inside)


@QUICK
@given(
    sizes=st.tuples(SMALL, SMALL, SMALL),
    view=st.sampled_from(["", "Flatten", "Reshape"]),
    back=st.sampled_from(["", "asked", "known", "turned"]),
    bias=st.sampled_from([None, (), (1,), (4,), (1, 4)]),
    free=FLAGS,
)
def test_normalization_of_rows_goes_into_the_product(
    sizes: tuple[int, int, int], view: str, back: str, bias: tuple[int, ...] | None, free: bool
) -> None:
    """Rows on one axis or flattened; laid out as before, as known or asked for, or otherwise."""
    b = Builder()
    batch, length, given_ = sizes
    made = b.node("MatMul", ["x", b.weight("w", given_, 4)], "p")
    made = made if bias is None else b.node("Add", [b.weight("c", *bias), made], "q")
    whole, flat = made, {"Flatten": {"axis": 2}, "Reshape": {}}.get(view)
    if flat is not None:
        target = [_ints(b, "rows", -1, 4)] if view == "Reshape" else []
        made = b.node(view, [made, *target], "f", **flat)
    made = b.batchnorm(made, "n", 4)
    if view and back:
        rows = -1 if free else batch
        known = (rows, length, 4) if back == "known" else (2 * length, rows, 2)
        shape = b.node("Shape", [whole], "s") if back == "asked" else _ints(b, "t", *known)
        made = b.node("Reshape", [made, shape], "r")
    b.node("Relu", [made], "y")
    shape = ("N" if free else batch, *([length] if view else []), given_)
    rank = 3 if view and back else 2
    fires = not (view and back == "turned") and (bias is None or len(bias) < 2)
    fires = fires and not (view and back == "known" and free)
    model = _model(b, [("x", "float32", shape)], rank)
    assert len(examine_exact("batchnorm_of_rows", model)) == int(fires)
