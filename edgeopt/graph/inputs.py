"""Inputs for a model that comes without data: random values of the right shapes and types."""

from collections.abc import Mapping

import numpy as np

from edgeopt.core.data import Array, Feed
from edgeopt.core.model import Model, TensorSpec
from edgeopt.errors import UsageError


def random_feeds(
    model: Model, count: int, *, shapes: Mapping[str, tuple[int, ...]], seed: int = 0
) -> tuple[Feed, ...]:
    """Seeded feeds: floats from a standard normal, integers 0 or 1, booleans true.

    A free leading axis is taken as the batch and becomes 1; integers stay small, since they are
    often indices into a table of unknown size.

    Raises:
        UsageError: Another axis is free and `shapes` does not give the input's shape.
    """
    generator = np.random.default_rng(seed)
    resolved = {spec.name: _shape(spec, shapes.get(spec.name)) for spec in model.inputs}
    return tuple(
        {spec.name: _values(spec, resolved[spec.name], generator) for spec in model.inputs}
        for _ in range(count)
    )


def _shape(spec: TensorSpec, given: tuple[int, ...] | None) -> tuple[int, ...]:
    if given is not None:
        return given
    sizes = [
        1 if axis == 0 and not _known(size) else size for axis, size in enumerate(spec.shape or ())
    ]
    if spec.shape is None or not all(_known(size) for size in sizes):
        raise UsageError(
            f"input {spec.name!r} has free axes: {list(spec.shape or ('?',))}",
            hint=f"say which to measure with: --shape {spec.name}=1x3x224x224, or give --data",
        )
    return tuple(int(size) for size in sizes if size is not None)


def _known(size: int | str | None) -> bool:
    return isinstance(size, int) and size > 0


def _values(spec: TensorSpec, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return np.ones(shape, dtype)
    return generator.integers(0, 2, shape).astype(dtype)
