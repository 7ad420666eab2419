"""`groups`: which nodes change precision together.

A group is one weighted node (Conv, Gemm, MatMul with a constant weight) and what stays integer
behind it: the activation that the runtime fuses into it, and behind a convolution the
elementwise, pooling and data-moving nodes that have integer kernels. So the border of a group
falls where leaving integers is cheap, and neighbouring groups meet without a conversion.

Groups are read through quantize/dequantize pairs: a graph has the same groups before, while and
after some of them are quantized.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.averages import averages_in_integers
from edgeopt.transforms.local_rule import word

WEIGHTED = frozenset({"Conv", "Gemm", "MatMul"})
FUSED = frozenset({"Relu", "Clip"})
"""Fused into the node before them: nothing stands between."""
MOVING = frozenset(
    {
        *("MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze"),
        *("Slice", "Split", "Resize"),
    }
)
"""Codes pass through unchanged: one scale on both sides."""
JOINING = frozenset({"Concat"})
ARITHMETIC = frozenset({"Add", "Mul", "Sigmoid", "LeakyRelu", "AveragePool", "GlobalAveragePool"})
"""Integer kernels with a scale of their own for every operand and the result."""
QUANTIZERS = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
GROUPS_AT_MOST = 40
BOUNDED = "__bounded"
"""Ends the name of a value that is only cut where its codes end anyway."""
SIGMOID = "__sigmoid"
"""Ends the name of the logistic factor of a GELU in integers, which stays no member of a group."""
_REPLACED = "__replaced"
_MATRIX = "__matrix"
"""Of a product's rows, which are those of the value in another shape."""
_STEM_CHANNELS = 4
_KEY = "edgeopt.quantize.groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Nodes that are quantized together.

    Args:
        name: Name of the value that the first weighted node makes; the site of its actions.
        nodes: First output names of the members, in graph order.
    """

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    groups: tuple[Group, ...]
    weighted: frozenset[str]


def hold_groups(model: ir.Model) -> None:
    """Write the groups of a float graph into its metadata, which goes with its clones.

    For transforms that replace weighted nodes by other operators: afterwards the graph itself
    no longer shows its groups.
    """
    graph = model.graph
    if not holds_groups(graph):
        weighted = frozenset(name_of(node.outputs[0]) for node in graph if is_weighted(node))
        graph.meta[_KEY] = _Held(groups=groups(model), weighted=weighted)


def holds_groups(graph: ir.Graph) -> bool:
    """Whether the groups that the graph had in float are known."""
    return _KEY in graph.meta


def float_groups(model: ir.Model) -> tuple[Group, ...]:
    """The groups that a graph had before any of its nodes was replaced."""
    held = _held(model.graph)
    return groups(model) if held is None else held.groups


def _held(graph: ir.Graph) -> _Held | None:
    return graph.meta.get(_KEY)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]


def replaced(model: ir.Model) -> frozenset[str]:
    """Names of values whose weighted node was replaced by other operators."""
    held = _held(model.graph)
    if held is None:
        return frozenset()
    return held.weighted - {name_of(n.outputs[0]) for n in model.graph if is_weighted(n)}


def name_of(value: ir.Value) -> str:
    """The value's name in the float graph."""
    return (value.name or "").removesuffix(_REPLACED).removesuffix(_MATRIX)


def through(value: ir.Value) -> ir.Value:
    """The float value behind a quantize/dequantize pair; any other value is itself."""
    made = value.producer()
    if made is None or made.op_type != "DequantizeLinear" or made.inputs[0] is None:
        return value
    quantize = made.inputs[0].producer()
    if quantize is None or quantize.op_type != "QuantizeLinear" or quantize.inputs[0] is None:
        return value
    if made.inputs[1] is not quantize.inputs[1]:
        # Codes may also be read at another scale, as another value: that is no pair.
        return value
    before = quantize.inputs[0].producer()
    bounded = before is not None and is_bound(before) and before.inputs[0]
    return bounded or quantize.inputs[0]


def is_bound(node: ir.Node) -> bool:
    """Whether a node is the Min that keeps the runtime from quantizing before a pool."""
    return node.op_type == "Min" and (node.outputs[0].name or "").endswith(BOUNDED)


def is_constant(value: ir.Value | None) -> bool:
    """Whether a value is a constant, or the dequantized form of one."""
    if value is None:
        return False
    made = value.producer()
    if made is not None and made.op_type == "DequantizeLinear":
        return is_constant(made.inputs[0])
    return value.is_initializer() or (made is not None and made.op_type == "Constant")


def is_weighted(node: ir.Node) -> bool:
    """Whether a node multiplies an activation with a constant weight.

    Not a weighted sum of squares, as normalizations take it: it has twice the dynamic range of
    what is squared, and eight bits hold the loud values only.
    """
    if node.op_type not in WEIGHTED or node.domain not in ("", "ai.onnx") or len(node.inputs) < 2:
        return False
    before = None if node.inputs[0] is None else node.inputs[0].producer()
    if before is not None and is_square(before):
        return False
    return is_constant(node.inputs[1]) and not is_constant(node.inputs[0])


def is_quantized(node: ir.Node) -> bool:
    """Whether a weighted node reads its weight through a DequantizeLinear."""
    weight = node.inputs[1]
    made = None if weight is None else weight.producer()
    return made is not None and made.op_type == "DequantizeLinear"


def is_bias(node: ir.Node) -> bool:
    """Whether a node adds a constant vector to what a MatMul alone made for it."""
    if node.op_type != "Add" or len(node.inputs) != 2:
        return False
    index = 0 if is_constant(node.inputs[0]) else 1
    constant, source = node.inputs[index], node.inputs[1 - index]
    before = None if source is None else source.producer()
    if before is None or before.op_type != "MatMul" or not is_weighted(before):
        return False
    if source is None or not is_constant(constant) or float_users(source) != (node,):
        return False
    width, shape = before.inputs[1], None if constant is None else constant.shape
    if width is None or width.shape is None or shape is None or is_output(source):
        return False
    return tuple(shape) == (width.shape[-1],)


def gates(node: ir.Node) -> bool:
    """Whether a node is a HardSwish that alone reads what a convolution makes."""
    if node.op_type != "HardSwish" or node.inputs[0] is None:
        return False
    source = through(node.inputs[0])
    before = source.producer()
    alone = float_users(source) == (node,) and not is_output(source)
    return alone and before is not None and before.op_type == "Conv" and is_weighted(before)


def activations(node: ir.Node) -> Iterator[tuple[int, ir.Value]]:
    """Inputs that depend on the model's inputs, with their index; the float values."""
    for index, value in enumerate(node.inputs):
        if value is not None and not is_constant(value):
            yield index, through(value)


def float_users(value: ir.Value) -> tuple[ir.Node, ...]:
    """Users of a value, those behind its pair included, the pair itself not."""
    found: dict[ir.Node, None] = {}
    for user, _ in value.uses():
        quantizers = (q for q, _ in user.outputs[0].uses()) if is_bound(user) else (user,)
        for each in quantizers:
            found |= dict.fromkeys(_behind(each) if each.op_type == "QuantizeLinear" else (each,))
    return tuple(found)


def _behind(quantizer: ir.Node) -> Iterator[ir.Node]:
    """Users of the floats that codes become, after whatever moves them as codes."""
    for user, _ in quantizer.outputs[0].uses():
        if user.op_type == "DequantizeLinear":
            yield from (behind for behind, _ in user.outputs[0].uses())
        elif user.op_type != "Shape":
            yield from _behind(user)


def is_output(value: ir.Value) -> bool:
    """Whether a value, or the pair behind it, is an output of the graph."""
    if value.is_graph_output():
        return True
    quantizers = [user for user, _ in value.uses() if user.op_type == "QuantizeLinear"]
    return any(
        made.outputs[0].is_graph_output() for q in quantizers for made, _ in q.outputs[0].uses()
    )


def fuses(node: ir.Node, owner: Mapping[str, int]) -> bool:
    """Whether a Relu or Clip disappears in the node before it when both are integer."""
    if node.op_type not in FUSED or node.inputs[0] is None:
        return False
    source = through(node.inputs[0])
    before = source.producer()
    if before is None or is_output(source) or float_users(source) != (node,):
        return False
    if node.op_type == "Clip" and _lowest(node) != 0.0:
        return False
    return (is_weighted(before) or before.op_type == "Add") and name_of(source) in owner


def groups(model: ir.Model, *, at_most: int = GROUPS_AT_MOST) -> tuple[Group, ...]:
    """The groups of a graph in graph order, disjoint, merged into blocks where there are many.

    Args:
        model: Sorted; may hold pairs of groups that are quantized already.
        at_most: Neighbouring groups are merged until no more than so many are left.
    """
    members = _members(model.graph)
    # By the operator alone: borders of blocks must not move with what rewrites make of the stem.
    first = next((node for node in model.graph if is_weighted(node)), None)
    stem = members[:1] if first is not None and first.op_type == "Conv" else []
    rest = members[len(stem) :]
    size = -(-len(rest) // (at_most - len(stem)))
    blocks = [rest[start : start + size] for start in range(0, len(rest), size or 1)]
    blocks = [*([stem] if stem else []), *blocks]
    return tuple(
        Group(name=block[0][0], nodes=tuple(node for part in block for node in part))
        for block in blocks
    )


def stem_of(graph: ir.Graph) -> str | None:
    """The first weighted node where it is a convolution of an image with few channels.

    In integers it is slower than in float (340 us against 150 on 3x3 with stride 2 over RGB):
    four channels fill no register. So it is a group of its own, and the first to be released.

    Returns:
        Name of its value, which is that of its group; None where the net begins otherwise.
    """
    first = next((node for node in graph if is_weighted(node)), None)
    if first is None or first.op_type != "Conv" or first.inputs[1] is None:
        return None
    shape = first.inputs[1].shape
    if shape is None or len(shape) != 4 or first.attributes.get_int("group", 1) != 1:
        return None
    few = int(shape.numpy()[1]) <= _STEM_CHANNELS
    return name_of(first.outputs[0]) if few else None


def releasable_stem(model: ir.Model) -> str | None:
    """The stem's group where it is better left in float; None without one.

    Not where a MaxPool belongs to it: the runtime moves the Quantize that follows above the pool,
    which then runs on uint8 in the layout of floats, 20 times slower.
    """
    stem = stem_of(model.graph)
    if stem is None:
        return None
    group = next(group for group in groups(model) if group.name == stem)
    nodes = {name_of(node.outputs[0]): node.op_type for node in model.graph}
    return None if "MaxPool" in {nodes.get(name) for name in group.nodes} else stem


def _members(graph: ir.Graph) -> list[list[str]]:
    """One list of names a weighted node: itself, and what stays integer behind it."""
    found: list[list[str]] = []
    owner: dict[str, int] = {}
    convolution: list[bool] = []
    ends = _behind_convolutions(graph)
    for node in graph:
        if node.op_type in QUANTIZERS:
            continue
        name = name_of(node.outputs[0])
        if is_weighted(node):
            found.append([])
            convolution.append(node.op_type == "Conv")
            owner[name] = len(found) - 1
        elif node not in ends and (index := _absorbed(node, owner, convolution)) is not None:
            if gates(node) and not ends.isdisjoint(float_users(node.outputs[0])):
                continue
            owner |= {name_of(output): index for output in node.outputs}
        if name in owner:
            found[owner[name]].append(name)
    return found


def _behind_convolutions(graph: ir.Graph) -> set[ir.Node]:
    """MaxPools with no convolution after them.

    The runtime has a fast integer MaxPool in the layout of its integer convolutions only; where
    none follows it may run the other one, about 20 times slower than float (3.9 ms against 0.20
    on the stem of a ResNet).
    """
    pools = [node for node in graph if node.op_type == "MaxPool"]
    if not pools:
        return set()
    before: set[ir.Node] = set()
    for node in reversed(graph):
        users = (user for output in node.outputs for user, _ in output.uses())
        if any(user in before or user.op_type == "Conv" for user in users):
            before.add(node)
    return {node for node in pools if node not in before}


def _absorbed(node: ir.Node, owner: Mapping[str, int], convolution: list[bool]) -> int | None:
    """The group that takes a node in: that of its last producer."""
    if node.domain not in ("", "ai.onnx") or (len(node.outputs) != 1 and node.op_type != "Split"):
        return None
    if node.op_type == "Resize" and word(node, "mode", "nearest") != "nearest":
        return None
    sources = [value for _, value in activations(node)]
    owners = [owner[name_of(value)] for value in sources if name_of(value) in owner]
    if not owners:
        return None
    if fuses(node, owner) or is_bias(node):
        return max(owners)
    if not all(convolution[index] for index in owners):
        return None
    if gates(node):
        return owners[0]
    if node.op_type in MOVING and len(sources) == 1:
        return owners[0]
    all_moving = len(owners) == len(node.inputs) > 1
    if node.op_type in JOINING:
        return max(owners) if all_moving else None
    if node.op_type == "AveragePool" and not averages_in_integers(node):
        return None
    if node.op_type in ARITHMETIC and not _is_float_arithmetic(node, sources):
        return max(owners) if len(sources) == len(node.inputs) else None
    return None


def _is_float_arithmetic(node: ir.Node, sources: Sequence[ir.Value]) -> bool:
    """Whether integers would be a loss: parts of a GELU, and squares.

    A square has twice the dynamic range of its operand; eight bits hold the loud values only.
    """
    parts = (_is_error_function(value) or name_of(value).endswith(SIGMOID) for value in sources)
    return is_square(node) or any(parts)


def is_square(node: ir.Node) -> bool:
    """Whether a node is the product of a value with itself."""
    return node.op_type == "Mul" and len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]


def _is_error_function(value: ir.Value) -> bool:
    """Whether a value is 1 + erf(..): the spelled GELU, which the runtime fuses in float only."""
    made = value.producer()
    if made is None or made.op_type != "Add":
        return False
    before = (value.producer() for _, value in activations(made))
    return any(node is not None and node.op_type == "Erf" for node in before)


def _lowest(node: ir.Node) -> float | None:
    bound = array_of(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if bound is None else float(bound)
