"""`ConcreteShapes`: sizes that free dimensions have on real inputs, for any graph of a model.

Running every candidate to learn its shapes would cost more than building it. The normalised model
is run once; that gives each named free dimension its size, and edits carry the names along.
Recorded sizes always win: a pruned value has the name, and not the shape, that it had before.
"""

from collections.abc import Iterator, Mapping

import onnx_ir as ir

from edgeopt.core.data import Feed
from edgeopt.graph.runtime import observed_shapes

Shapes = Mapping[str, tuple[int, ...]]


class ConcreteShapes:
    """Sizes as one feed gives them.

    Args:
        normalized: The model as transforms meet it.
        feed: A real one; None where there is none: then nothing is added to what is recorded.

    Raises:
        RuntimeFailure: The model does not run on the feed.
    """

    def __init__(self, normalized: ir.Model, feed: Feed | None) -> None:
        self._observed = {} if feed is None else observed_shapes(normalized, feed)
        self._sizes: dict[str, int] = {}
        for value in _values(normalized.graph):
            for dimension, size in zip(value.shape or (), self._of_name(value), strict=False):
                if isinstance(dimension, ir.SymbolicDim) and dimension.value is not None:
                    self._sizes.setdefault(dimension.value, size)

    def of(self, graph: ir.Model) -> Shapes | None:
        """Shapes of the values of a graph made from the model; None without a feed."""
        if not self._observed:
            return None
        found = {value.name or "": self._of_value(value) for value in _values(graph.graph)}
        return {name: shape for name, shape in found.items() if name and shape is not None}

    def _of_name(self, value: ir.Value) -> tuple[int, ...]:
        return self._observed.get(value.name or "", ())

    def _of_value(self, value: ir.Value) -> tuple[int, ...] | None:
        observed = self._of_name(value)
        if value.shape is None:
            return None
        fits = len(observed) == len(value.shape)
        sizes: list[int] = []
        for axis, dimension in enumerate(value.shape):
            if isinstance(dimension, int):
                sizes.append(dimension)
            elif dimension.value in self._sizes:
                sizes.append(self._sizes[dimension.value])
            elif fits:
                sizes.append(observed[axis])
            else:
                return None
        return tuple(sizes)


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    for node in graph:
        yield from node.outputs
