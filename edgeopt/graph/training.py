"""Operators that were exported as they work while a model learns, not while it is used."""

from collections.abc import Iterator

import onnx_ir as ir

from edgeopt.graph.editor import array_of


def in_training_mode(graph: ir.Model) -> Iterator[str]:
    """One sentence a node whose result depends on the batch, or on chance.

    Nothing can fold such a normalization, and the runtime's own optimizations compute something
    else than the runtime without them.
    """
    for node in graph.graph.all_nodes():
        if node.domain:
            continue
        if node.op_type == "BatchNormalization" and node.attributes.get_int("training_mode", 0):
            yield _sentence(node, "its result depends on the other samples of the batch")
        if node.op_type == "Dropout" and len(node.inputs) > 2:
            mode = array_of(node.inputs[2])
            if mode is not None and mode.any():
                yield _sentence(node, "its result is random")


def _sentence(node: ir.Node, consequence: str) -> str:
    return (
        f"{node.op_type} {node.name!r} is in training mode: {consequence}; "
        "export the model in evaluation mode"
    )
