"""A Gaussian process over integer codes: additive around a prior, with a residual that is not.

    y(row) = prior(row) + w . x(row) + g(row) + noise

x(row) holds the alternatives that are on, the pairs that are both on, and how many of each kind
are on; w has one prior spread a column; g has the kernel exp(-H / length), H the number of choices
in which two rows differ. It is Bayesian ridge where g vanishes. How far the prior is trusted, how
large g and the noise are, is chosen on a small grid by the marginal likelihood (Rasmussen and
Williams 2006, section 5.4); g is allowed only once there are enough rows to tell it from noise.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from edgeopt.core.action import Choice
from edgeopt.search.codes import Codes

Floats = npt.NDArray[np.float64]
_TRUST = (0.3, 1.0, 3.0)
"""Factors on the prior spreads of the weights."""
_RESIDUAL = (0.0, 0.5, 1.0)
"""Amplitude of g, as a share of what the prior leaves over."""
_NOISE = (0.05, 0.2, 0.6)
"""Noise, as a share of the same; never below the floor."""
_ROWS_FOR_RESIDUAL = 40
_MOST_ROWS = 400
_JITTER = 1e-10


class Columns:
    """Rows of codes as columns of a linear model.

    Args:
        choices: Of the space.
        pairs: Choices whose alternatives may cost something together.
    """

    def __init__(self, choices: Sequence[Choice], pairs: Sequence[tuple[int, int]]) -> None:
        self.places = tuple((i, k) for i, c in enumerate(choices) for k in range(1, len(c)))
        self.pairs = tuple(pairs)
        kinds = [kind_of(choices[i], k) for i, k in self.places]
        self.kinds = tuple(dict.fromkeys(kinds))
        member = [[float(kind == one) for one in self.kinds] for kind in kinds]
        self._member = np.array(member, dtype=np.float64).reshape(len(kinds), len(self.kinds))
        self.counts = self._member.sum(axis=0)
        self._share = 1.0 / np.maximum(self.counts, 1.0)
        self._choice = np.array([i for i, _ in self.places], dtype=np.int64)
        self._code = np.array([k for _, k in self.places], dtype=np.int64)

    def of(self, rows: Sequence[Codes]) -> Floats:
        """[rows, columns]: places, pairs, then for each kind the share of its places that is on."""
        if not rows:
            return np.zeros((0, len(self.places) + len(self.pairs) + len(self.kinds)))
        codes = as_array(rows)
        on = (codes[:, self._choice] == self._code).astype(np.float64)
        both = np.zeros((len(rows), len(self.pairs)))
        for n, (i, j) in enumerate(self.pairs):
            both[:, n] = (codes[:, i] > 0) & (codes[:, j] > 0)
        return np.hstack([on, both, on @ self._member * self._share])

    def shared(self, kinds: Floats) -> Floats:
        """What the weights of the kinds give to each place [places]."""
        return np.asarray(self._member @ (kinds * self._share), dtype=np.float64)


def kind_of(choice: Choice, code: int) -> tuple[str, str]:
    """What an alternative is believed to have in common with those of other choices.

    The family and the method; widths, which are labelled by numbers, have their place in the list.
    """
    method = choice.labels[code].partition(",")[0]
    return choice.family, str(code) if method.partition("/")[0].isdecimal() else method


def as_array(rows: Sequence[Codes]) -> npt.NDArray[np.int64]:
    """[rows, choices]; for no rows one that fits any width."""
    if not rows:
        return np.zeros((0, 0), dtype=np.int64)
    return np.array(rows, dtype=np.int64).reshape(len(rows), -1)


@dataclass(frozen=True)
class Prior:
    """What is believed before any row: of each column the weight and its spread."""

    weights: Floats
    spreads: Floats


@dataclass(frozen=True)
class _Scales:
    trust: float
    residual: float
    noise: float
    length: float


class Process:
    """Fitted to some rows; predicts others.

    Args:
        columns: Of the same space.
        prior: Weights and spreads.
        rows, values: What was measured; the latest ones where there are very many.
        floor: Least standard deviation of the noise.
    """

    def __init__(
        self,
        columns: Columns,
        prior: Prior,
        rows: Sequence[Codes],
        values: Sequence[float],
        *,
        floor: float,
    ) -> None:
        self._columns, self._prior = columns, prior
        self._rows = as_array(rows[-_MOST_ROWS:])
        self._design = columns.of(rows[-_MOST_ROWS:])
        self._left = np.array(values[-_MOST_ROWS:]) - self._design @ prior.weights
        self.evidence = -math.inf
        if not len(self._left):
            self._scales = _Scales(1.0, 0.0, floor, 1.0)
            self.evidence = 0.0
            return
        self._choose(floor)

    @property
    def noise(self) -> float:
        """Standard deviation of one measurement around what is predicted."""
        return self._scales.noise

    @property
    def residual(self) -> float:
        """Amplitude of what is not additive; 0 while it is not told from noise."""
        return self._scales.residual

    def predict(self, rows: Sequence[Codes]) -> tuple[Floats, Floats]:
        """Means and spreads [rows] of what would be measured without noise."""
        design = self._columns.of(rows)
        weighted = design * (self._scales.trust * self._prior.spreads) ** 2
        mean = design @ self._prior.weights
        variance = (weighted * design).sum(axis=1) + self._scales.residual**2
        if len(self._left):
            cross = weighted @ self._design.T + self._nonlinear(as_array(rows))
            mean = mean + cross @ self._alpha
            solved = _behind(self._factor, cross.T)
            variance = variance - (solved**2).sum(axis=0)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def weights(self, generator: np.random.Generator | None = None) -> Floats:
        """Weights of the additive part [columns]: the mean, or one drawn from the posterior.

        A draw from the prior is corrected by what the rows say (Matheron's rule).
        """
        spreads = self._scales.trust * self._prior.spreads
        drawn = np.zeros(len(spreads))
        if generator is not None:
            drawn = spreads * generator.standard_normal(len(spreads))
        start = self._prior.weights + drawn
        if not len(self._left):
            return start
        left = self._left - self._design @ drawn
        if generator is not None:
            left = left - self._scales.noise * generator.standard_normal(len(left))
        return start + spreads**2 * (self._design.T @ self._solve(left))

    def deviations(
        self, rows: Sequence[Codes], count: int, generator: np.random.Generator
    ) -> Floats:
        """Draws [count, rows] of how far the truth lies from what is predicted, in its spreads.

        Rows that share alternatives err together. Of what is not additive each row has its own.
        Matheron's rule, as `weights`.
        """
        design = self._columns.of(rows)
        spreads = self._scales.trust * self._prior.spreads
        drawn = spreads * generator.standard_normal((count, len(spreads)))
        variance = ((design * spreads) ** 2).sum(axis=1)
        if len(self._left):
            seen = drawn @ self._design.T + self._unexplained(count, generator)
            drawn = drawn - spreads**2 * (self._solve(seen.T).T @ self._design)
            known = _behind(self._factor, self._design @ (design * spreads**2).T)
            variance = variance - (known**2).sum(axis=0)
        whole = self.predict(rows)[1]
        own = np.sqrt(np.maximum(whole**2 - variance, 0.0))
        found = drawn @ design.T + own * generator.standard_normal((count, len(rows)))
        return np.asarray(found / np.maximum(whole, _JITTER), dtype=np.float64)

    def _unexplained(self, count: int, generator: np.random.Generator) -> Floats:
        """Draws [count, measured rows] of what is not additive, and of the noise."""
        noise = self._scales.noise * generator.standard_normal((count, len(self._left)))
        if not self._scales.residual:
            return noise
        near = self._nonlinear(self._rows)
        near[np.diag_indices_from(near)] += _JITTER
        rough = generator.standard_normal(noise.shape) @ np.linalg.cholesky(near).T
        return np.asarray(noise + rough, dtype=np.float64)

    def _choose(self, floor: float) -> None:
        linear = (self._design * self._prior.spreads**2) @ self._design.T
        power = math.sqrt(float(np.mean(self._left**2)))
        length = max(2.0, self._rows.shape[1] / 6)
        near = np.exp(-_differing(self._rows, self._rows) / length)
        shares = _RESIDUAL if len(self._left) >= _ROWS_FOR_RESIDUAL else _RESIDUAL[:1]
        noises = sorted({max(floor, share * power) for share in _NOISE})
        for trust, share, noise in itertools.product(_TRUST, shares, noises):
            scales = _Scales(trust, share * power, noise, length)
            kernel = trust**2 * linear + scales.residual**2 * near
            kernel[np.diag_indices_from(kernel)] += noise**2 + _JITTER
            factor = np.asarray(np.linalg.cholesky(kernel), dtype=np.float64)
            half = _behind(factor, self._left)
            evidence = float(-0.5 * half @ half - np.log(np.diag(factor)).sum())
            if evidence > self.evidence:
                self.evidence, self._scales, self._factor = evidence, scales, factor
        self._alpha = self._solve(self._left)

    def _solve(self, values: Floats) -> Floats:
        return _behind(self._factor, _behind(self._factor, values), transposed=True)

    def _nonlinear(self, rows: npt.NDArray[np.int64]) -> Floats:
        if not self._scales.residual:
            return np.zeros((len(rows), len(self._rows)))
        near = np.exp(-_differing(rows, self._rows) / self._scales.length)
        return self._scales.residual**2 * near


def _differing(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> Floats:
    """Choices in which rows differ [first, second]."""
    return (first[:, None, :] != second[None, :, :]).sum(axis=2).astype(np.float64)


def _behind(factor: Any, values: Any, *, transposed: bool = False) -> Floats:
    """Solves for a lower triangular matrix, or for its transpose."""
    found: Any = solve_triangular(
        factor, values, lower=True, trans=int(transposed), check_finite=False
    )
    return np.asarray(found, dtype=np.float64)
