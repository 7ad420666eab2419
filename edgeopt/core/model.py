"""`Model`: an ONNX file as a value. The graph is never in it; `graph.read` opens it."""

from dataclasses import dataclass
from pathlib import Path

Dimension = int | str | None
"""A size, the name of a free dimension, or None where the file gives neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One input or output of a model: its name, numpy dtype name and shape."""

    name: str
    dtype: str
    shape: tuple[Dimension, ...] | None

    @property
    def rank(self) -> int | None:
        """Number of axes; None where the file does not say."""
        return None if self.shape is None else len(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model file: where it is, what it is, and what it takes and gives.

    Args:
        path: The `.onnx` file; external data lies beside it.
        digest: Of the file and every external data file, in the order of their names.
        opset: Version of the default operator set.
        inputs: Without initializers.
        outputs: In the file's order.
        size_bytes: The file and its external data.
    """

    path: Path
    digest: str
    opset: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    size_bytes: int
