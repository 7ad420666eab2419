"""Activations, however they are spelled: what is computed of one value, element by element.

Which function it is, is not read from operators but seen in numbers: it is run on -8 to 8.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from edgeopt.graph.editor import array_of
from edgeopt.graph.runtime import RuntimeFailure, Session

POINTS: npt.NDArray[np.float64] = np.linspace(-8.0, 8.0, 401)
"""What functions are seen at."""
_ELEMENTWISE = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Neg", "Sqrt", "Exp", "Clip"),
        *("Erf", "Tanh", "Sigmoid", "HardSigmoid", "Softplus", "Relu"),
        *("HardSwish", "Swish", "Gelu", "FastGelu", "QuickGelu", "Mish", "Elu", "Celu"),
    }
)
_BENT = _ELEMENTWISE - {"Add", "Sub", "Mul", "Div", "Neg", "Pow", "Sqrt"}
"""Without one of them it is a straight line, a power or a root."""
_DOMAINS = frozenset({"", "com.microsoft"})
_NODES = 12
_SOURCE = "x"
_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE})


@dataclass(frozen=True, slots=True)
class Activation:
    """Nodes from one value to another.

    Args:
        source: What is read.
        result: What is made.
        nodes: In an order in which they can be computed.
    """

    source: ir.Value
    result: ir.Value
    nodes: tuple[ir.Node, ...]

    @property
    def is_watched(self) -> bool:
        """Whether something else reads what it computes on its way."""
        inside = set(self.nodes)
        return any(
            made is not self.result
            and (made.is_graph_output() or any(user not in inside for user, _ in made.uses()))
            for made in (node.outputs[0] for node in self.nodes)
        )

    @property
    def kinds(self) -> frozenset[str]:
        """Its operators."""
        return frozenset(node.op_type for node in self.nodes)


def is_elementwise(node: ir.Node) -> bool:
    """Whether a node may be a part of one."""
    return node.domain in _DOMAINS and node.op_type in _ELEMENTWISE and len(node.outputs) == 1


def ending_at(result: ir.Value) -> Iterator[Activation]:
    """All that end at a float value, shortest first; of operators that can bend a line."""
    node = result.producer()
    if node is None or not is_elementwise(node) or result.dtype not in _FLOATS:
        return
    for source in _before(node):
        nodes = _between(source, result)
        found = Activation(source, result, nodes)
        if nodes and found.kinds & _BENT:
            yield found


def starting_at(source: ir.Value) -> Iterator[Activation]:
    """All that start at a value, shortest first."""
    seen: dict[ir.Node, None] = {}
    waiting = [source]
    while waiting and len(seen) < _NODES:
        for user, _ in waiting.pop(0).uses():
            if user in seen or not is_elementwise(user):
                continue
            seen[user] = None
            waiting.append(user.outputs[0])
            yield from (one for one in ending_at(user.outputs[0]) if one.source is source)


def numbers(model: ir.Model, activation: Activation) -> npt.NDArray[np.float64] | None:
    """What it makes of `POINTS`; None where the runtime cannot compute it, or makes no numbers."""
    return _numbers(_alone(model, activation))


@lru_cache(maxsize=1024)
def _numbers(function: bytes) -> npt.NDArray[np.float64] | None:
    """Of a model of one activation: a net spells few of them, at many places."""
    held = onnx.load_model_from_string(function)
    dtype = ir.DataType(held.graph.input[0].type.tensor_type.elem_type).numpy()
    try:
        (made,) = Session(function).run({_SOURCE: POINTS.astype(dtype)}).values()
    except RuntimeFailure:
        return None
    found = made.astype(np.float64).reshape(-1)
    return found if np.isfinite(found).all() and found.shape == POINTS.shape else None


def _alone(model: ir.Model, found: Activation) -> bytes:
    """It as a model of its own, from and to a vector; the same for all that are spelled alike."""
    kind = int(found.result.dtype or ir.DataType.FLOAT)
    names = {found.source: _SOURCE}
    constants: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []
    for node in found.nodes:
        for value in node.inputs:
            if value is not None and value not in names and (held := array_of(value)) is not None:
                names[value] = f"v{len(names)}"
                constants.append(numpy_helper.from_array(held, names[value]))
        made = names.setdefault(node.outputs[0], f"v{len(names)}")
        proto = ir.to_proto(node)
        del proto.input[:], proto.output[:], proto.metadata_props[:]
        proto.name, proto.doc_string = made, ""
        proto.input.extend("" if value is None else names[value] for value in node.inputs)
        proto.output.append(made)
        nodes.append(proto)
    graph = helper.make_graph(
        nodes,
        "activation",
        [helper.make_tensor_value_info(_SOURCE, kind, [len(POINTS)])],
        [helper.make_empty_tensor_value_info(names[found.result])],
        constants,
    )
    opsets = [helper.make_opsetid(*opset) for opset in model.graph.opset_imports.items()]
    alone = helper.make_model(graph, opset_imports=opsets, ir_version=max(model.ir_version, 8))
    return alone.SerializeToString(deterministic=True)


def _before(node: ir.Node) -> list[ir.Value]:
    """Values that it is computed from, element by element, nearest first."""
    found: dict[ir.Value, None] = {}
    waiting = [node]
    while waiting and len(found) < _NODES:
        values = [value for value in _read(waiting.pop(0)) if value not in found]
        found |= dict.fromkeys(values)
        makers = (value.producer() for value in values)
        waiting += [maker for maker in makers if maker is not None and is_elementwise(maker)]
    return list(found)


def _between(source: ir.Value, result: ir.Value) -> tuple[ir.Node, ...]:
    """All nodes from one value to another; none where something else is read on the way."""
    done: dict[ir.Node, None] = {}

    def reached(value: ir.Value) -> bool:
        if value is source:
            return True
        node = value.producer()
        if node is None or not is_elementwise(node) or len(done) >= _NODES:
            return False
        if node in done:
            return True
        if not all(map(reached, _read(node))):
            return False
        done[node] = None
        return True

    return tuple(done) if reached(result) else ()


def _read(node: ir.Node) -> list[ir.Value]:
    """The inputs of an operator that are no single constant number."""
    values = [value for value in node.inputs if value is not None]
    return [value for value in values if (held := array_of(value)) is None or held.size != 1]
