"""Non-negative least squares around a prior: prices cannot be negative, and few trials are told.

    minimise  sum_i ((A u)_i - y_i)^2 / noise^2  +  sum_j ((u_j - 1) / prior)^2,   u >= 0

Row i of A is what each price would contribute to y_i were the prior right, so u = 1 everywhere is
the prior itself. Solved as one `scipy.optimize.nnls` of the stacked system.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls  # pyright: ignore[reportMissingTypeStubs,reportUnknownVariableType]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """A fitted non-negative linear model.

    Args:
        factors: Price over prior price [columns].
        covariance: Of the factors [columns, columns], the sign constraint left out.
        noise: Standard deviation of what the columns do not explain.
    """

    factors: Floats
    covariance: Floats
    noise: float

    def predict(self, row: Floats) -> tuple[float, float]:
        """Mean and spread for one row [columns] of contributions."""
        variance = float(row @ self.covariance @ row)
        return float(row @ self.factors), float(np.sqrt(variance + self.noise**2))


def fit(rows: Floats, values: Floats, *, prior: float, noise: float) -> Fit:
    """Fit contributions [rows, columns] to values [rows].

    Args:
        prior: Standard deviation of a factor around 1.
        noise: Standard deviation of a value that is assumed; what is left over is returned where
            it is larger.
    """
    columns = rows.shape[1]
    pull = np.eye(columns) / prior
    stacked = np.vstack([rows / noise, pull])
    wanted = np.concatenate([values / noise, np.full(columns, 1 / prior)])
    factors = np.asarray(nnls(stacked, wanted)[0], dtype=np.float64)
    left = rows @ factors - values
    spread = max(noise, float(np.sqrt(np.mean(left**2)))) if len(values) else noise
    inverse = np.linalg.inv(rows.T @ rows / spread**2 + pull.T @ pull)
    covariance = np.asarray(inverse, dtype=np.float64)
    return Fit(factors, covariance, spread)
