"""How closely outputs follow the given model's own, without labels: one minus noise over signal.

    value = mean over samples of max(0, 1 - N / S),  N = sum (y - y0)^2,  S = sum y0^2

where y0 are the given model's outputs and y the candidate's, over all positions of one output;
N / S is the reciprocal of the signal-to-noise ratio SNR = 10 log10(S / N), in decibels. The value
has no unit and lies in 0..1: 1 is equal, 0.99 (one point of drop) is 20 dB, 0.9 is 10 dB, 0.999 is
30 dB. Outputs are compared as the model puts them out: behind a Softmax the likely classes weigh
most, and an output with a large constant part hides what varies.

Evidence, one row a sample: max(0, 1 - N / S), 1.
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
class Fidelity(Ratio):
    """One minus noise power over signal power against the given model's outputs.

    Args:
        output: Name of the output; the first by default.
    """

    output: str = ""
    needs_target: bool = False
    needs_reference: bool = True

    def evidence(self, outputs: Arrays, target: Array | None, reference: Arrays | None) -> Floats:
        """One row; 0 where a number is none.

        Raises:
            DataError: The two outputs have different shapes, or hold no numbers.
        """
        found, wanted = pick(outputs, self.output), pick(reference or {}, self.output)
        if found.shape != wanted.shape or {found.dtype.kind, wanted.dtype.kind} & set("USO"):
            raise DataError(
                f"an output of shape {list(found.shape)} ({found.dtype}) cannot be compared with "
                f"the given model's {list(wanted.shape)} ({wanted.dtype})",
                hint="the metric option output names the output to compare",
            )
        return np.array([[fidelity(found, wanted), 1.0]])

    def right(self, evidence: Floats) -> Floats:
        """The fidelity itself, to four digits (40 dB): rounding noise loses nothing."""
        return np.round(evidence[:, 0], 4)

    def disturbed(self, evidence: Floats, noise: Floats) -> Floats:
        """Evidence with noise of these amplitudes, relative to the signal's, on top of its own."""
        amplitude = np.sqrt(1.0 - evidence[:, 0]) + np.abs(noise)
        found = evidence.copy()
        found[:, 0] = np.maximum(0.0, 1.0 - amplitude**2)
        return found

    def reduction(self, outputs: Arrays, target: Array | None) -> Mapping[str, str]:
        """Its one output, in full."""
        return {picked(outputs, self.output): "full"}

    def chance(self, evidence: Floats) -> None:
        """Means nothing here: the given model equals itself."""


def fidelity(found: Array, wanted: Array) -> float:
    """max(0, 1 - N / S) of two arrays of one shape; of a silent reference 1 where both are silent.

    Infinities and what is not a number count as noise without bound, wherever they stand.
    """
    y, y0 = found.astype(np.float64).ravel(), wanted.astype(np.float64).ravel()
    if not (np.isfinite(y).all() and np.isfinite(y0).all()):
        return 0.0
    largest = float(np.abs(y0).max(initial=0.0))
    if largest == 0:
        return float(not y.any())
    with np.errstate(over="ignore"):
        noise, signal = np.sum(((y - y0) / largest) ** 2), np.sum((y0 / largest) ** 2)
    return float(max(0.0, 1.0 - noise / signal))


PLUGIN = Fidelity
