"""Shape inference that neither copies the weights nor freezes what the model leaves free."""

from collections.abc import Iterable, Iterator, Mapping

import onnx
import onnx_ir as ir
from onnx import shape_inference

from edgeopt.errors import ModelError
from edgeopt.graph.stand_ins import stand_in
from edgeopt.graph.write import copy_of, to_proto

_BIG_BYTES = 1024


def skeleton(graph: ir.Model, *, keep_shapes: bool = True) -> onnx.ModelProto:
    """The graph without its large weights (they become inputs), for tools that need no values."""
    copy = copy_of(graph)
    held = set(copy.graph.inputs)
    for part in (copy.graph, *copy.graph.subgraphs()):
        for value in list(part.initializers.values()):
            tensor = value.const_value
            if part is copy.graph and tensor is not None and tensor.nbytes > _BIG_BYTES:
                part.initializers.pop(value.name or "")
                value.shape = ir.Shape(tensor.shape.numpy())
                value.type = ir.TensorType(tensor.dtype)
                value.const_value = None
                if value not in held:
                    part.inputs.append(value)
    model = to_proto(copy)
    if not keep_shapes:
        _forget_shapes(model.graph)
    return model


def infer_shapes(graph: ir.Model, shapes: Mapping[str, tuple[int, ...]] | None = None) -> None:
    """Record inferred types and shapes on the graph's values, in place.

    What stood there is replaced by what inference finds, and kept where it finds nothing (an
    operator that the onnx package does not know). Free dimensions stay free.

    Args:
        graph: Changed in place: only shapes and types. Value names must be unique.
        shapes: Concrete shapes of inputs; the inferred shapes are then concrete too.

    Raises:
        ModelError: Two operators contradict each other.
    """
    found = inferred(graph, shapes)
    for value in _values(graph.graph):
        info = found.get(value.name or "")
        if info is None:
            continue
        read = ir.from_proto(info)
        value.type = read.type if read.type is not None else value.type
        value.shape = read.shape if read.shape is not None else value.shape


def inferred(
    graph: ir.Model, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> dict[str, onnx.ValueInfoProto]:
    """Name to what shape inference says about a value; the graph is unchanged.

    Raises:
        ModelError: Two operators contradict each other.
    """
    model = skeleton(graph, keep_shapes=False)
    stand_in(model)
    for info in model.graph.input:
        if shapes and info.name in shapes:
            _set_shape(info, shapes[info.name])
    if shapes:
        _forget_dimensions(model.graph.output)
    try:
        result = shape_inference.infer_shapes(model, data_prop=True)
    except (shape_inference.InferenceError, RuntimeError) as error:
        raise ModelError(
            f"shape inference fails: {' '.join(str(error).split())[:300]}",
            hint="the model contradicts itself: export it again",
        ) from error
    found: dict[str, onnx.ValueInfoProto] = {}
    for part in _graphs(result.graph):
        for info in (*part.value_info, *part.output, *part.input):
            found[info.name] = info
    return found


def known_shapes(
    graph: ir.Model, shapes: Mapping[str, tuple[int, ...]] | None = None, *, free: int = 1
) -> dict[str, tuple[int, ...]]:
    """Concrete shapes by value name: the given ones, else the recorded ones.

    Free dimensions become `free`. Where an edit left values without a shape, shapes are
    inferred from the inputs; what cannot be inferred is absent.
    """
    given = dict(shapes or {})
    recorded = {v.name: _concrete(v.shape, free) for v in _values(graph.graph) if v.name}
    if any(shape is None and name not in given for name, shape in recorded.items()):
        starts = {
            v.name: given.get(v.name) or _concrete(v.shape, free) or ()
            for v in graph.graph.inputs
            if v.name and (v.name in given or v.shape is not None)
        }
        for name, info in inferred(graph, starts).items():
            shape = _concrete(ir.from_proto(info).shape, free)
            if recorded.get(name) is None and shape is not None:
                recorded[name] = shape
    return {**{n: s for n, s in recorded.items() if s is not None}, **given}


def _concrete(shape: ir.ShapeProtocol | None, free: int) -> tuple[int, ...] | None:
    if shape is None:
        return None
    return tuple(size if isinstance(size, int) and size >= 0 else free for size in shape)


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    for part in (graph, *graph.subgraphs()):
        yield from part.inputs
        for value in part.initializers.values():
            if not value.is_graph_input():
                yield value
        for node in part:
            yield from node.outputs


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _graphs(inner)


def _forget_shapes(graph: onnx.GraphProto) -> None:
    """Drop what is recorded about intermediate values, so that nothing stale takes part."""
    for part in _graphs(graph):
        del part.value_info[:]
        if part is not graph:
            _forget_dimensions(part.output)


def _forget_dimensions(infos: Iterable[onnx.ValueInfoProto]) -> None:
    for info in infos:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")


def _set_shape(info: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    tensor = info.type.tensor_type
    tensor.ClearField("shape")
    # An empty shape message says "a scalar"; none at all says "unknown".
    tensor.shape.SetInParent()
    for size in shape:
        tensor.shape.dim.add().dim_value = size
