"""The operator set that runs fastest, where the standard's converter can and the runtime agrees.

That is the highest one, but for graphs with an operator whose newer versions run slower.
"""

from collections.abc import Iterator, Mapping

import onnx
import onnx_ir as ir
from onnx import defs, helper, shape_inference, version_converter

from edgeopt.core.data import Feed
from edgeopt.errors import ModelError
from edgeopt.graph import files
from edgeopt.graph.equivalence import Reference
from edgeopt.graph.runtime import RuntimeFailure
from edgeopt.graph.shapes import inferred, skeleton

STEPS = (21, 20, 19, 18, 17, 16, 15, 14, 13)
"""Versions worth trying below the ceiling, best first."""
SLOWER_FROM = {"AveragePool": 19}
"""Versions from which an operator of ONNX Runtime's CPU provider is a plain loop.

Average pools of opset 19 may be dilated, and that kernel knows no vectors: it takes 4 to 8 times as
long where no blocked layout surrounds the pool (`benchmarks/opsets.py`, which finds no other).
"""

_UNCONVERTED = (
    ModelError,
    RuntimeError,
    ValueError,
    shape_inference.InferenceError,
    version_converter.ConvertError,
)
Types = Mapping[str, onnx.ValueInfoProto]


def fastest_opset(graph: ir.Model, ceiling: int, feed: Feed) -> tuple[ir.Model, str]:
    """The graph at the highest version up to the ceiling that computes the same, none slower.

    Args:
        graph: Unchanged.
        ceiling: Highest default operator set to try.
        feed: The outputs are compared on it; a conversion that cannot be compared is not taken.
            A branch that it does not enter is converted on the converter's word.

    Returns:
        A new graph, or the given one where no version works; and a note on why it is not at the
        version that it should be at, empty where it is.
    """
    current = graph.opset_imports.get("", 0)
    highest = min(ceiling, defs.onnx_opset_version())
    top = _fastest(graph, max(current, highest))
    if top >= current:
        top = max(current, min(top, highest))
    if not current or current == top:
        return graph, ""
    try:
        reference = Reference.of(graph, [feed])
    except RuntimeFailure as error:
        return graph, f"opset stays {current}: no inputs at hand to compare with ({error.what})"
    reason = ""
    for version in dict.fromkeys([top, *(step for step in STEPS if current < step < top)]):
        try:
            made = _converted(graph, version)
            difference = reference.compare(made)
        except _UNCONVERTED as error:
            reason = reason or " ".join(str(error).split())[:200]
            continue
        if difference.ok:
            return made, f"opset {version}, not {top}: {reason}" if reason else ""
        reason = reason or difference.reason
    return graph, f"opset stays {current}: {reason}"


def _fastest(graph: ir.Model, top: int) -> int:
    """The highest version up to the top at which no operator of the graph gets slower."""
    met = {SLOWER_FROM.get(node.op_type, top + 1) for node in graph.graph.all_nodes() if _old(node)}
    return min([top, *(version - 1 for version in met)])


def _old(node: ir.Node) -> bool:
    """Whether a node says nothing that only the slower versions of its operator can say."""
    dilations = node.attributes.get("dilations")
    return dilations is None or set(dilations.as_ints()) <= {1}


def _converted(graph: ir.Model, version: int) -> ir.Model:
    """The converter's nodes with everything else as it was: it drops metadata and big weights."""
    light = skeleton(graph)
    if any(True for _ in graph.graph.subgraphs()):
        types = {**inferred(graph), **_weights(graph)}
        _convert_bodies(light.graph, light, version, types)
    given = [info.name for info in graph.graph.inputs]
    result = ir.from_proto(version_converter.convert_version(light, version))
    for value in list(result.graph.inputs):
        held = graph.graph.initializers.get(value.name or "")
        if value.name in given or held is None:
            continue
        result.graph.inputs.remove(value)
        value.const_value = held.const_value
        result.graph.register_initializer(value)
    _take_over(result, graph)
    return result


def _take_over(result: ir.Model, graph: ir.Model) -> None:
    result.ir_version = max(graph.ir_version, 10 if result.opset_imports[""] > 20 else 8)
    result.producer_name, result.producer_version = graph.producer_name, graph.producer_version
    result.domain, result.model_version = graph.domain, graph.model_version
    result.doc_string = graph.doc_string
    result.metadata_props.update(graph.metadata_props)
    result.graph.name, result.graph.doc_string = graph.graph.name, graph.graph.doc_string
    for domain, version in graph.opset_imports.items():
        if domain:
            result.opset_imports[domain] = version
    pairs = (*zip(result.graph.inputs, graph.graph.inputs, strict=True),)
    for new, old in (*pairs, *zip(result.graph.outputs, graph.graph.outputs, strict=True)):
        new.type, new.shape, new.doc_string = old.type, old.shape, old.doc_string


def _weights(graph: ir.Model) -> dict[str, onnx.ValueInfoProto]:
    """Types and shapes of all constants by name."""
    held = (
        (n, v.const_value)
        for g in (graph.graph, *graph.graph.subgraphs())
        for n, v in g.initializers.items()
    )
    return {
        name: helper.make_tensor_value_info(name, tensor.dtype.value, tensor.shape.numpy())
        for name, tensor in held
        if tensor is not None
    }


def _convert_bodies(
    graph: onnx.GraphProto, model: onnx.ModelProto, version: int, types: Types
) -> None:
    """Raise the bodies in a graph, inner ones first, in place: the converter leaves them alone."""
    for node in graph.node:
        for body in files.subgraphs([node]):
            _convert_bodies(body, model, version, types)
            body.CopyFrom(_converted_body(body, model, version, types))


def _converted_body(
    body: onnx.GraphProto, model: onnx.ModelProto, version: int, types: Types
) -> onnx.GraphProto:
    """A body at another version, converted as a model that is given what the body sees."""
    given = [info.name for info in body.input]
    own = {*given, *(tensor.name for tensor in body.initializer)}
    own |= {name for node in body.node for name in node.output}
    outside = dict.fromkeys(name for name in _read(body) if name not in own)
    if not outside.keys() <= types.keys():
        raise ModelError(f"nothing is known about the values that {body.name!r} reads")
    alone = onnx.ModelProto()
    alone.CopyFrom(model)
    alone.graph.CopyFrom(body)
    alone.graph.input.extend(types[name] for name in outside)
    made = version_converter.convert_version(alone, version).graph
    kept = [info for info in made.input if info.name in given]
    del made.input[:]
    made.input.extend(sorted(kept, key=lambda info: given.index(info.name)))
    return made


def _read(graph: onnx.GraphProto) -> Iterator[str]:
    """Names that a graph and the bodies in it read, those of their outputs included."""
    for node in graph.node:
        yield from (name for name in node.input if name)
        for body in files.subgraphs([node]):
            inner = {info.name for info in body.input} | {t.name for t in body.initializer}
            inner |= {name for each in body.node for name in each.output}
            yield from (name for name in _read(body) if name not in inner)
    yield from (info.name for info in graph.output)
