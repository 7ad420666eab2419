"""Raise a graph's operator set where the standard's converter can and the runtime agrees."""

import onnx_ir as ir
from onnx import defs, version_converter

from edgeopt.core.data import Feed
from edgeopt.errors import ModelError
from edgeopt.graph.equivalence import Reference
from edgeopt.graph.runtime import RuntimeFailure
from edgeopt.graph.shapes import skeleton

STEPS = (21, 20, 19, 18, 17, 16, 15, 14, 13)
"""Versions worth trying below the ceiling, best first."""

# After version 13 these only gained types, or inputs and attributes with neutral defaults.
_ONLY_TYPES = frozenset(
    (
        *("Cast", "Constant", "ConstantOfShape", "Equal", "Flatten", "Identity", "If", "Loop"),
        *("Pad", "Reshape", "Scan", "Shape", "Size", "Squeeze", "Transpose", "Unsqueeze", "Where"),
    )
)


def raise_opset(graph: ir.Model, ceiling: int, feed: Feed) -> tuple[ir.Model, str]:
    """The graph at the highest version up to the ceiling that computes the same.

    Args:
        graph: Unchanged.
        ceiling: Highest default operator set to try.
        feed: The outputs are compared on it; a conversion that cannot be compared is not taken.

    Returns:
        A new graph, or the given one where no version works; and a note on why it is not at the
        ceiling, empty where it is.
    """
    current = graph.opset_imports.get("", 0)
    top = min(ceiling, defs.onnx_opset_version())
    if not current or current >= top:
        return graph, ""
    try:
        reference = Reference.of(graph, [feed])
    except RuntimeFailure as error:
        return graph, f"opset stays {current}: no inputs at hand to compare with ({error.what})"
    reason = ""
    for version in dict.fromkeys([top, *(step for step in STEPS if current < step < top)]):
        try:
            raised = _converted(graph, version)
            difference = reference.compare(raised)
        except (ModelError, RuntimeError, ValueError, version_converter.ConvertError) as error:
            reason = reason or " ".join(str(error).split())[:200]
            continue
        if difference.ok:
            return raised, f"opset raised to {version}, not {top}: {reason}" if reason else ""
        reason = reason or difference.reason
    return graph, f"opset stays {current}: {reason}"


def _converted(graph: ir.Model, version: int) -> ir.Model:
    """The converter's nodes with everything else as it was: it drops metadata and big weights."""
    if _has_subgraph(graph):
        # The converter leaves subgraphs at the old version, which is wrong wherever they hold
        # an operator that changed; it is safe when none did.
        _refuse_changed(graph, version)
    light = skeleton(graph)
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


def _has_subgraph(graph: ir.Model) -> bool:
    return any(True for _ in graph.graph.subgraphs())


def _refuse_changed(graph: ir.Model, version: int) -> None:
    current = graph.opset_imports[""]
    for part in graph.graph.subgraphs():
        for node in part:
            if node.domain or (current >= 13 and node.op_type in _ONLY_TYPES):
                continue
            since = defs.get_schema(node.op_type, current).since_version
            if defs.get_schema(node.op_type, version).since_version != since:
                raise ModelError(
                    f"{node.op_type} inside a subgraph changes between {current} and {version}"
                )
