"""What changed between two graphs and everything behind it, as a model of its own.

A candidate that differs from the float graph in one group needs to be run from that group on
only: what lies before it has the values that the float graph has.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from edgeopt.graph.write import to_proto


@dataclass(frozen=True, kw_only=True)
class Behind:
    """The part of a graph that is not computed as in another one.

    Args:
        model: A model of that part alone.
        inputs: Values that it takes from the unchanged part.
        outputs: Outputs of the whole graph that it makes; the others are as they were.
    """

    model: onnx.ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def behind(
    base: ir.Model, graph: ir.Model, known: Mapping[str, npt.NDArray[np.generic]]
) -> Behind | None:
    """What of `graph` differs from `base`, with everything that depends on it.

    Args:
        base: The graph whose values are known.
        graph: Made from it; unchanged constants are the same objects.
        known: Values of the base on one input: their types are needed.

    Returns:
        None where the part cannot be cut out: subgraphs, or a value that is not known.
    """
    nodes = list(graph.graph)
    if any(attribute.type is ir.AttributeType.GRAPH for attribute in _attributes(nodes)):
        return None
    tainted = _tainted(base, graph)
    kept = [node for node in nodes if any(v.name in tainted for v in node.outputs)]
    made = {v.name for node in kept for v in node.outputs}
    outputs = tuple(v.name for v in graph.graph.outputs if v.name in made and v.name)
    read = dict.fromkeys(v.name for node in kept for v in node.inputs if v is not None and v.name)
    held = graph.graph.initializers
    inputs = tuple(name for name in read if name and name not in made and name not in held)
    if any(name not in known for name in inputs):
        return None
    return Behind(
        model=_cut(graph, made, inputs, outputs, known) if outputs else onnx.ModelProto(),
        inputs=inputs,
        outputs=outputs,
    )


def _attributes(nodes: list[ir.Node]) -> list[ir.Attr]:
    return [attribute for node in nodes for attribute in node.attributes.values()]


def _signature(node: ir.Node) -> tuple[object, ...]:
    inputs = tuple(None if value is None else value.name for value in node.inputs)
    attributes = tuple(sorted((name, str(a.value)) for name, a in node.attributes.items()))
    return node.op_type, node.domain, inputs, tuple(v.name for v in node.outputs), attributes


def _tainted(base: ir.Model, graph: ir.Model) -> set[str | None]:
    """Names of values that are not what they are in the base."""
    same = {_signature(node) for node in base.graph}
    before = base.graph.initializers
    tainted: set[str | None] = {
        name
        for name, value in graph.graph.initializers.items()
        if name not in before or before[name].const_value is not value.const_value
    }
    for node in graph.graph:
        touched = any(value is not None and value.name in tainted for value in node.inputs)
        if touched or _signature(node) not in same:
            tainted |= {value.name for value in node.outputs}
    return tainted


def _cut(
    graph: ir.Model,
    made: set[str | None],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    known: Mapping[str, npt.NDArray[np.generic]],
) -> onnx.ModelProto:
    model = to_proto(graph)
    whole = model.graph
    nodes = [node for node in whole.node if any(name in made for name in node.output)]
    read = {name for node in nodes for name in node.input}
    ends = [info for info in whole.output if info.name in outputs]
    given = [
        onnx.helper.make_tensor_value_info(
            name,
            onnx.helper.np_dtype_to_tensor_dtype(known[name].dtype),
            [None] * known[name].ndim,
        )
        for name in inputs
    ]
    constants = [tensor for tensor in whole.initializer if tensor.name in read]
    part = onnx.helper.make_graph(nodes, "behind", given, ends, constants)
    return onnx.helper.make_model(
        part,
        opset_imports=list(model.opset_import),
        functions=list(model.functions),
        ir_version=model.ir_version,
    )
