"""Share of positions at which the model decides as the baseline does: what is left without labels.

Evidence, one row a sample: positions that agree, positions.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Array
from edgeopt.core.protocols import Arrays
from edgeopt.data.outputs import argmax, decision, pick, picked
from edgeopt.data.ratio import Ratio
from edgeopt.errors import DataError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement(Ratio):
    """Agreement with the baseline: equal integers or texts, equal classes, or the same side.

    Args:
        output: Name of the output; the first by default.
        axis: Where a float output has its classes: by default axis 1 of an image-like output
            [1, classes, height, width], else the last.
        threshold: Which side a single value is on.
    """

    output: str = ""
    axis: int | None = None
    threshold: float = 0.5
    needs_target: bool = False
    needs_reference: bool = True

    def evidence(self, outputs: Arrays, target: Array | None, reference: Arrays | None) -> Floats:
        """One row. A position with a number that is none does not agree.

        Raises:
            DataError: The two outputs have different shapes.
        """
        mine, theirs = pick(outputs, self.output), pick(reference or {}, self.output)
        if mine.shape != theirs.shape:
            raise DataError(
                f"the output has shape {list(mine.shape)}, the baseline's {list(theirs.shape)}"
            )
        said, wanted = self._decisions(mine), self._decisions(theirs)
        same = said == wanted
        if mine.dtype.kind == "f":
            same &= said >= 0
        return np.array([[np.sum(same), same.size]], dtype=np.float64)

    def _decisions(self, output: Array) -> Array:
        if output.dtype.kind != "f":
            return output
        axis = self._axis(output)
        if not output.ndim or output.shape[axis] == 1:
            return np.where(np.isnan(output), -1, (output > self.threshold).astype(np.int64))
        return argmax(output, axis)

    def _axis(self, output: Array) -> int:
        return self.axis if self.axis is not None else (1 if output.ndim == 4 else -1)

    def reduction(self, outputs: Arrays, target: Array | None) -> Mapping[str, str]:
        """The classes, or the sides."""
        output = pick(outputs, self.output)
        axis = self._axis(output)
        single = not output.ndim or output.shape[axis] == 1
        said = decision(output, axis=axis, threshold=self.threshold if single else None)
        return {picked(outputs, self.output): said}

    def chance(self, evidence: Floats) -> None:
        """Means nothing here: the baseline agrees with itself."""


PLUGIN = Agreement
