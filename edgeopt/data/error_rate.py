"""What the character and the word error rate have in common; the plug-ins say what a unit is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Array
from edgeopt.core.protocols import Arrays
from edgeopt.data.outputs import decision, pick, picked
from edgeopt.data.ratio import Ratio
from edgeopt.data.texts import decode, edit_distance
from edgeopt.errors import DataError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRate(Ratio):
    """One minus the error rate: 1 is without errors; below 0 is possible with many insertions.

    Evidence, one row a sample: length minus errors, length. With `exact`: 1 or 0, and 1.

    Args:
        charset: A text a class, with or without an entry for the blank; a text stands for its
            characters. Not needed where the model puts out strings.
        blank: The class that says nothing.
        output: Name of the output; the first by default.
        axis: Where a float output has its classes.
        collapse: Whether repeated classes count once (CTC).
        exact: Count whole texts that are right instead.
        ignore_case: Compare in lower case.
    """

    charset: Sequence[str] = ()
    blank: int = 0
    output: str = ""
    axis: int = -1
    collapse: bool = True
    exact: bool = False
    ignore_case: bool = False
    needs_target: bool = True
    needs_reference: bool = False

    def units(self, text: str) -> Sequence[str]:
        """What is counted: characters here."""
        return text

    def evidence(self, outputs: Arrays, target: Array | None, reference: Arrays | None) -> Floats:
        """One row.

        Raises:
            DataError: The label is no text, or the charset does not fit the output.
        """
        wanted = self._label(target)
        found = decode(
            pick(outputs, self.output),
            self.charset,
            blank=self.blank,
            axis=self.axis,
            collapse=self.collapse,
        )
        if self.ignore_case:
            wanted, found = wanted.lower(), found.lower()
        if self.exact:
            return np.array([[float(wanted == found), 1.0]])
        units = self.units(wanted)
        errors = edit_distance(self.units(found), units)
        return np.array([[len(units) - errors, len(units)]], dtype=np.float64)

    def _label(self, target: Array | None) -> str:
        if target is None or target.dtype.kind not in "US" or target.size != 1:
            kind = "none" if target is None else f"{target.dtype} {list(target.shape)}"
            raise DataError(f"the label is not a text ({kind})", hint="labels are strings here")
        return str(target.astype(str).item())

    def right(self, evidence: Floats) -> Floats:
        """Minus the errors of each row."""
        return evidence[:, 0] - evidence[:, 1]

    def reduction(self, outputs: Arrays, target: Array | None) -> Mapping[str, str]:
        """The most probable class of each step: decoding is greedy."""
        said = decision(pick(outputs, self.output), axis=self.axis, threshold=None)
        return {picked(outputs, self.output): said}

    def chance(self, evidence: Floats) -> float:
        """Guessing reads nothing."""
        return 0.0
