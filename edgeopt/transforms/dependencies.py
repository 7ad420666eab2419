"""Which channels can only be padded together, and what has to be padded with them.

For `pad_channels`, which lengthens whole axes at their end: pruning takes places out of axes, and
follows them further, through `channels`.

Every value has one channel variable (its axis 1). A union-find joins the variables that an
operator ties: elementwise and pooling nodes pass them on, Add and Mul tie two, Conv and Gemm
consume one and open another. Behind a Concat of channels every operand keeps a variable of its
own, and what reads the whole is cut at the operand's place. Everything that is not proven here
freezes what it touches: graph inputs and outputs, Split, grouped convolutions, reshapes of more
than one pixel.
(`Structured pruning: union-find over channel variables`, as Torch-Pruning's DepGraph, Fang et al.,
CVPR 2023, but over ONNX axes.)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.axes import channels_of, keeps_batch, one_pixel, rank_of, squeezes_pixels

_ELEMENTWISE = (
    "Relu LeakyRelu Sigmoid HardSigmoid HardSwish Tanh Elu Selu Celu Gelu Erf Softplus Softsign "
    "Mish Identity Neg Abs Exp Sqrt Reciprocal Floor Ceil Round Sign QuickGelu"
)
_POOLS = "MaxPool AveragePool GlobalAveragePool GlobalMaxPool"
KEEPING = frozenset(f"{_ELEMENTWISE} {_POOLS}".split())
"""Channel-wise, one operand, whatever the channel count is."""
TYING = frozenset({"Add", "Sub", "Mul", "Div", "Min", "Max", "Pow"})
_STATISTICS = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Cut:
    """One constant operand that is cut along an axis; the channels begin there at `offset`."""

    node: ir.Node
    index: int
    axis: int
    offset: int = 0


@dataclass(kw_only=True)
class ChannelGroup:
    """Channels that are removed together.

    Args:
        width: Number of channels.
        producers: Convolutions and Gemms that compute them, in graph order.
        consumers: Cuts of the weights that read them.
        others: Cuts of everything else: rows of the producers, biases, statistics, constants.
        depthwise: Convolutions whose `group` attribute is the width.
        reshapes: Reshape nodes whose target says the width, and where.
        values: All values with these channels on axis 1.
        joined: Values that have these channels beside others there; as often as they have them.
    """

    width: int
    producers: list[ir.Node] = field(default_factory=list[ir.Node])
    consumers: list[Cut] = field(default_factory=list[Cut])
    others: list[Cut] = field(default_factory=list[Cut])
    depthwise: list[ir.Node] = field(default_factory=list[ir.Node])
    reshapes: list[Cut] = field(default_factory=list[Cut])
    values: list[ir.Value] = field(default_factory=list[ir.Value])
    joined: list[ir.Value] = field(default_factory=list[ir.Value])

    @property
    def name(self) -> str:
        """The value that the first producer makes: the site of actions on this group."""
        return self.producers[0].outputs[0].name or ""


def channel_groups(model: ir.Model, *, joins: bool = False) -> tuple[ChannelGroup, ...]:
    """Every group of channels whose removal is proven possible, in graph order.

    Args:
        model: Sorted, with shapes.
        joins: Whether to see through Concat: cuts then have an offset.
    """
    return _Walk(model.graph, joins=joins).groups()


def why_none(model: ir.Model, name: str) -> str:
    """Why no channels can be removed at a site that `channel_groups` does not list."""
    return _Walk(model.graph, joins=True).why_none(name)


class _Walk:
    """One pass over a sorted graph."""

    def __init__(self, graph: ir.Graph, *, joins: bool) -> None:
        self._joins = joins
        self._parts: dict[ir.Value, tuple[ir.Value, ...]] = {}
        self._parent: dict[ir.Value, ir.Value] = {}
        self._in_the_way: dict[ir.Value, ir.Node] = {}
        self._frozen: set[ir.Value] = set()
        self._held: dict[ir.Value, list[tuple[str, object]]] = {}
        for value in (*graph.inputs, *graph.outputs):
            self._freeze(value)
        for node in graph:
            self._step(node)
            for value in (*node.inputs, *node.outputs):
                if value is not None and any(user.graph is not graph for user, _ in value.uses()):
                    self._freeze(value)

    def groups(self) -> tuple[ChannelGroup, ...]:
        frozen = {self._root(value) for value in self._frozen}
        found: dict[ir.Value, ChannelGroup] = {}
        for value in self._parent:
            root = self._root(value)
            if root in frozen:
                continue
            group = found.setdefault(root, ChannelGroup(width=0))
            group.values.append(value)
            for role, item in self._held.get(value, ()):
                getattr(group, role).append(item)
        complete = [g for g in found.values() if g.producers and g.consumers]
        for group in complete:
            group.width = _size(group.producers[0].inputs[1], _row_axis(group.producers[0]))
        return tuple(complete)

    def why_none(self, name: str) -> str:
        value = next((value for value in self._parent if value.name == name), None)
        if value is None:
            return "no operator whose channels are followed makes this value"
        root = self._root(value)
        for other, node in self._in_the_way.items():
            if self._root(other) is root:
                return (
                    f"its channels meet {node.op_type} {node.outputs[0].name!r}, behind which "
                    "removing them is not proven possible"
                )
        if any(self._root(other) is root for other in self._frozen):
            return "its channels are, or become, those of an input or output of the model"
        return "no layer both makes these channels and another one reads them"

    def _root(self, value: ir.Value) -> ir.Value:
        self._parent.setdefault(value, value)
        while self._parent[value] is not value:
            self._parent[value] = self._parent[self._parent[value]]
            value = self._parent[value]
        return value

    def _tie(self, first: ir.Value, second: ir.Value) -> None:
        one, other = self._root(first), self._root(second)
        self._parent[other] = one

    def _freeze(self, value: ir.Value) -> None:
        for part in (value, *self._parts.get(value, ())):
            self._root(part)
            self._frozen.add(part)

    def _note(self, value: ir.Value, role: str, item: object) -> None:
        self._root(value)
        self._held.setdefault(value, []).append((role, item))

    def _step(self, node: ir.Node) -> None:
        if any(value in self._parts for value in node.inputs if value is not None):
            if not self._joined(node):
                self._freeze_all(node)
            return
        rule = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        kept = node.op_type in KEEPING and len(node.outputs) == 1
        if kept and node.inputs[0] is not None and node.domain in ("", "ai.onnx", "com.microsoft"):
            self._tie(node.inputs[0], node.outputs[0])
        elif rule is None or not rule(self, node):
            self._freeze_all(node)

    def _freeze_all(self, node: ir.Node) -> None:
        for value in (*node.inputs, *node.outputs):
            if value is not None and array_of(value) is None:
                self._freeze(value)
                for part in (value, *self._parts.get(value, ())):
                    self._in_the_way.setdefault(part, node)

    def _joined(self, node: ir.Node) -> bool:
        """An operator that reads channels of several variables."""
        source = node.inputs[0]
        if node.domain not in ("", "ai.onnx"):
            return False
        if node.op_type == "Concat":
            return self.concat(node)
        others = [value for value in node.inputs[1:] if value is not None]
        if source is None or source not in self._parts:
            return False
        if any(array_of(value) is None for value in others):
            return False
        if node.op_type == "Conv" and (node.attributes.get_int("group", 1) or 1) == 1:
            return self._weighted(node, source, node.outputs[0])
        if node.op_type == "BatchNormalization" and not _is_training(node):
            for index in _STATISTICS:
                self._note_parts(source, "others", Cut(node, index, 0))
        elif len(node.outputs) != 1 or node.op_type not in KEEPING | {"Clip"}:
            return False
        self._pass_on(self._parts[source], node.outputs[0])
        return True

    def concat(self, node: ir.Node) -> bool:
        """Channels side by side; a variable each."""
        values = [value for value in node.inputs if value is not None]
        rank = rank_of(node.outputs[0])
        if not self._joins or rank is None or node.attributes.get_int("axis", 0) % rank != 1:
            return False
        parts = [part for value in values for part in self._parts.get(value, (value,))]
        if any(channels_of(part) is None or array_of(part) is not None for part in parts):
            return False
        self._pass_on(tuple(parts), node.outputs[0])
        return True

    def _pass_on(self, parts: tuple[ir.Value, ...], made: ir.Value) -> None:
        self._root(made)
        self._parts[made] = parts
        for part in parts:
            self._note(part, "joined", made)
        if made in self._frozen:
            self._freeze(made)

    def _note_parts(self, value: ir.Value, role: str, cut: Cut) -> None:
        """Note a cut for the variable of a value, or for each of those side by side in it."""
        offset = 0
        for part in self._parts.get(value, (value,)):
            self._note(part, role, replace(cut, offset=offset))
            offset += channels_of(part) or 0

    def conv(self, node: ir.Node) -> bool:
        source, made = node.inputs[0], node.outputs[0]
        groups = node.attributes.get_int("group", 1) or 1
        if source is None or not _constant_operands(node):
            return False
        if groups == 1:
            return self._weighted(node, source, made)
        weight = array_of(node.inputs[1])
        if weight is None or weight.shape[0] != groups or weight.shape[1] != 1:
            return False
        self._tie(source, made)
        self._note(made, "depthwise", node)
        for index in range(1, len(node.inputs)):
            self._cut_if_there(node, index, made)
        return True

    def gemm(self, node: ir.Node) -> bool:
        source = node.inputs[0]
        if source is None or node.attributes.get_int("transA", 0) or not _constant_operands(node):
            return False
        return self._weighted(node, source, node.outputs[0])

    def _weighted(self, node: ir.Node, source: ir.Value, made: ir.Value) -> bool:
        self._root(source)
        row = _row_axis(node)
        self._note_parts(source, "consumers", Cut(node, 1, 1 - row))
        self._note(made, "producers", node)
        self._note(made, "others", Cut(node, 1, row))
        self._cut_if_there(node, 2, made)
        return True

    def _cut_if_there(self, node: ir.Node, index: int, made: ir.Value) -> None:
        array = array_of(node.inputs[index]) if len(node.inputs) > index else None
        if array is not None and array.size > 1:
            axis = 0 if node.op_type == "Conv" else array.ndim - 1
            self._note(made, "others", Cut(node, index, axis))

    def batchnorm(self, node: ir.Node) -> bool:
        source = node.inputs[0]
        if source is None or _is_training(node):
            return False
        if any(array_of(node.inputs[index]) is None for index in _STATISTICS):
            return False
        self._tie(source, node.outputs[0])
        for index in _STATISTICS:
            self._note(node.outputs[0], "others", Cut(node, index, 0))
        return True

    def clip(self, node: ir.Node) -> bool:
        source = node.inputs[0]
        bounds = [value for value in node.inputs[1:] if value is not None]
        if source is None or any(array_of(value) is None for value in bounds):
            return False
        self._tie(source, node.outputs[0])
        return True

    def tying(self, node: ir.Node) -> bool:
        made = node.outputs[0]
        rank = rank_of(made)
        operands = [value for value in node.inputs if value is not None]
        dynamic = [value for value in operands if array_of(value) is None]
        if rank is None or rank < 2 or not dynamic:
            return False
        width = channels_of(made)
        if width is None or any(rank_of(v) != rank or channels_of(v) != width for v in dynamic):
            return False
        cuts: list[Cut] = []
        for index, value in enumerate(node.inputs):
            array = array_of(value)
            if array is None or array.size == 1:
                continue
            axis = array.ndim - (rank - 1)
            if axis >= 0 and array.shape[axis] == width:
                cuts.append(Cut(node, index, axis))
            elif axis >= 0 and array.shape[axis] != 1:
                return False
        for value in dynamic:
            self._tie(value, made)
        for cut in cuts:
            self._note(made, "others", cut)
        return True

    def pixel(self, node: ir.Node) -> bool:
        """Flatten, Squeeze, Reshape and the like, of one pixel a channel."""
        source, made = node.inputs[0], node.outputs[0]
        if source is None or not one_pixel(source):
            return False
        axis = node.attributes.get_int("axis", 1)
        if node.op_type == "Flatten" and axis != 1:
            return False
        if node.op_type == "Squeeze" and not squeezes_pixels(node):
            return False
        if node.op_type == "Reshape" and not self._reshape(node, source, made):
            return False
        self._tie(source, made)
        return True

    def _reshape(self, node: ir.Node, source: ir.Value, made: ir.Value) -> bool:
        target, width = array_of(node.inputs[1]), channels_of(source)
        if target is None or width is None or target.size < 2:
            return False
        if any(size != 1 for size in target[2:]) or keeps_batch(target, source) is False:
            return False
        if target[1] == -1 or (target[1] == 0 and not node.attributes.get_int("allowzero", 0)):
            return True
        if target[1] != width:
            return False
        self._note(made, "reshapes", Cut(node, 1, 1))
        return True

    def mean(self, node: ir.Node) -> bool:
        """ReduceMean over pixels."""
        source, made = node.inputs[0], node.outputs[0]
        rank = None if source is None else rank_of(source)
        found = array_of(node.inputs[1]) if len(node.inputs) > 1 else None
        axes = node.attributes.get_ints("axes") if found is None else [int(a) for a in found]
        if source is None or rank is None or not axes or any(a % rank < 2 for a in axes):
            return False
        self._tie(source, made)
        return True


_RULES: Mapping[str, Callable[[_Walk, ir.Node], bool]] = {
    "Conv": _Walk.conv,
    "Gemm": _Walk.gemm,
    "BatchNormalization": _Walk.batchnorm,
    "Clip": _Walk.clip,
    "Concat": _Walk.concat,
    "Flatten": _Walk.pixel,
    "Reshape": _Walk.pixel,
    "Squeeze": _Walk.pixel,
    "ReduceMean": _Walk.mean,
    **dict.fromkeys(TYING, _Walk.tying),
}


def _is_training(node: ir.Node) -> bool:
    return bool(node.attributes.get_int("training_mode", 0)) or len(node.outputs) != 1


def _row_axis(node: ir.Node) -> int:
    """The weight's axis of output channels; the other one of the first two is of inputs."""
    return 1 if node.op_type == "Gemm" and not node.attributes.get_int("transB", 0) else 0


def _constant_operands(node: ir.Node) -> bool:
    others = [value for value in node.inputs[1:] if value is not None]
    return bool(others) and all(array_of(value) is not None for value in others)


def _size(value: ir.Value | None, axis: int) -> int:
    array = array_of(value)
    return 0 if array is None else int(array.shape[axis])
