"""Which values are looked at together, so that one sample's values fit into a given memory.

A value that is looked at cannot share its memory with others while a sample runs. Models whose
values together exceed the budget are run in several passes, each over some of them.
"""

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from edgeopt.core.data import Feed

BUDGET_BYTES = 200_000_000


def passes(
    graph: ir.Graph, names: Sequence[str], feed: Feed, budget_bytes: int = BUDGET_BYTES
) -> list[list[str]]:
    """Names in order, in as few passes as the budget allows.

    Args:
        graph: With shapes as far as they are known.
        names: Of values of the main graph.
        feed: Gives free dimensions their size; a value without a shape counts as the largest.
        budget_bytes: Of the values of one pass together, float32; a larger one has its own pass.
    """
    sizes = _sizes(graph, feed)
    largest = max(sizes.values(), default=0)
    found: list[list[str]] = []
    held = 0
    for name in names:
        size = 4 * sizes.get(name, largest)
        if not found or held + size > budget_bytes:
            found.append([])
            held = 0
        found[-1].append(name)
        held += size
    return found


def _sizes(graph: ir.Graph, feed: Feed) -> dict[str, int]:
    free = _free_dimensions(graph, feed)
    values = [*graph.inputs, *(output for node in graph for output in node.outputs)]
    found: dict[str, int] = {}
    for value in values:
        if value.name and value.shape is not None:
            size = _elements(value.shape, free)
            if size is not None:
                found[value.name] = size
    return found


def _free_dimensions(graph: ir.Graph, feed: Feed) -> dict[str, int]:
    found: dict[str, int] = {}
    for value in graph.inputs:
        array = feed.get(value.name or "")
        if array is None or value.shape is None:
            continue
        for dimension, size in zip(value.shape, array.shape, strict=False):
            if isinstance(dimension, ir.SymbolicDim) and dimension.value is not None:
                found[dimension.value] = size
    return found


def _elements(shape: ir.Shape, free: Mapping[str, int]) -> int | None:
    size = 1
    for dimension in shape:
        known = dimension if isinstance(dimension, int) else free.get(dimension.value or "")
        if known is None:
            return None
        size *= known
    return size
