"""Mean cosine between an embedding and what it should be: the label's, else the baseline's.

Evidence, one row a sample: cosine, 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Array
from edgeopt.core.protocols import Arrays
from edgeopt.data.outputs import pick, picked
from edgeopt.data.ratio import Ratio
from edgeopt.errors import DataError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine(Ratio):
    """Cosine of flattened outputs.

    Args:
        output: Name of the output; the first by default.
        target: Whether the labels are embeddings to compare with; else the baseline's outputs.
    """

    output: str = ""
    target: bool = False
    needs_target: bool = False
    needs_reference: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "needs_target", self.target)
        object.__setattr__(self, "needs_reference", not self.target)

    def evidence(self, outputs: Arrays, target: Array | None, reference: Arrays | None) -> Floats:
        """One row; 0 where a number is none, or one of the two is zero and the other is not.

        Raises:
            DataError: The two have different sizes.
        """
        found = pick(outputs, self.output)
        wanted = target if self.target else pick(reference or {}, self.output)
        if wanted is None or wanted.dtype.kind not in "fiub" or found.size != wanted.size:
            shape = None if wanted is None else list(wanted.shape)
            raise DataError(
                f"an output of shape {list(found.shape)} cannot be compared with {shape}",
                hint="embeddings must have the same number of values",
            )
        return np.array([[cosine(found, wanted), 1.0]])

    def right(self, evidence: Floats) -> Floats:
        """The cosine itself, to four digits: rounding noise loses nothing."""
        return np.round(evidence[:, 0], 4)

    def reduction(self, outputs: Arrays, target: Array | None) -> Mapping[str, str]:
        """Its one output, in full."""
        return {picked(outputs, self.output): "full"}

    def chance(self, evidence: Floats) -> float | None:
        """Directions in many dimensions are orthogonal; 0 only where labels are the reference."""
        return 0.0 if self.target else None


def cosine(left: Array, right: Array) -> float:
    """Cosine of two arrays as vectors, in double precision."""
    a, b = left.ravel().astype(np.float64), right.ravel().astype(np.float64)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return 0.0
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    if lengths == 0:
        return float(not a.any() and not b.any())
    return float(np.clip(a @ b / lengths, -1.0, 1.0))


PLUGIN = Cosine
