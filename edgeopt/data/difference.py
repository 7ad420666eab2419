"""How the outputs of one file differ between two machines: in value, and in what they decide."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from edgeopt.core.data import Array
from edgeopt.core.protocols import Arrays
from edgeopt.data.reduction import decided


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDifference:
    """One output of one file on two machines.

    Args:
        largest: Largest absolute difference; infinite where the one has a number and the other
            none, or shapes differ; 0 without values.
        mean: Mean absolute difference.
        span: From the smallest to the largest value on the first machine.
        magnitude: Largest absolute value there.
        values: Numbers compared.
        flipped: Decisions that differ.
        decisions: Decisions compared; 0 where the output decides nothing.
    """

    largest: float = 0.0
    mean: float = 0.0
    span: float = 0.0
    magnitude: float = 0.0
    values: int = 0
    flipped: int = 0
    decisions: int = 0

    @property
    def flipped_share(self) -> float | None:
        """Share of the decisions that differ; None where nothing is decided."""
        return self.flipped / self.decisions if self.decisions else None

    @property
    def text(self) -> str:
        """`at most 0.031 (0.4 % of the range), mean 0.002; 1 of 64 decisions differ`."""
        words: list[str] = []
        if not np.isfinite(self.largest):
            words.append("shapes differ, or one has a number where the other has none")
        elif self.values and not self.largest:
            words.append("no value differs")
        elif self.values:
            share = f" ({100 * self.largest / self.span:.2g} % of the range)" if self.span else ""
            words.append(f"at most {self.largest:.3g}{share}, mean {self.mean:.2g}")
        if self.decisions:
            verb = "differs" if self.flipped == 1 else "differ"
            words.append(f"{self.flipped} of {self.decisions} decisions {verb}")
        return "; ".join(words) or "nothing was compared"


def difference(
    host: Iterable[Arrays], board: Iterable[Arrays], reductions: Mapping[str, str]
) -> dict[str, OutputDifference]:
    """Difference by output name over samples that stand in the same order.

    Args:
        host: Outputs of the first machine, sample by sample.
        board: Of the second.
        reductions: What an output decides, as `reduction` says it; outputs to be dropped are
            left out.
    """
    running = Running(reductions)
    for one, other in zip(host, board, strict=True):
        running.add(one, other)
    return running.result()


@dataclass(slots=True)
class _Sums:
    largest: float = 0.0
    total: float = 0.0
    low: float = np.inf
    high: float = -np.inf
    values: int = 0
    flipped: int = 0
    decisions: int = 0


@dataclass(slots=True)
class Running:
    """Differences that are added up sample by sample, so that no outputs need to be kept.

    Args:
        reductions: As for `difference`.
    """

    reductions: Mapping[str, str]
    _sums: dict[str, _Sums] = field(default_factory=dict[str, _Sums])

    def add(self, host: Arrays, board: Arrays, *, values: bool = True) -> None:
        """One more sample.

        Args:
            host: Its outputs on the first machine.
            board: On the second.
            values: Whether the second's are whole, so that values can be compared.
        """
        for name, what in self.reductions.items():
            if what != "drop" and name in host and name in board:
                sums = self._sums.setdefault(name, _Sums())
                _add(sums, np.asarray(host[name]), np.asarray(board[name]), what, values=values)

    def result(self) -> dict[str, OutputDifference]:
        """By output name."""
        return {name: _result(sums) for name, sums in self._sums.items()}


def _add(sums: _Sums, host: Array, board: Array, what: str, *, values: bool) -> None:
    if host.shape != board.shape:
        sums.largest = float("inf")
        sums.flipped += max(host.size, 1)
        sums.decisions += max(host.size, 1)
        return
    said, heard = decided(host, what), decided(board, what)
    if said is not None and heard is not None:
        sums.decisions += said.size
        sums.flipped += int(np.count_nonzero(said != heard))
    if not values or host.dtype.kind != "f":
        return
    finite = np.isfinite(host)
    same = np.array_equal(host[~finite], board[~finite], equal_nan=True)
    if not same or not np.isfinite(board[finite]).all():
        sums.largest = float("inf")
        return
    left, right = host[finite].astype(np.float64), board[finite].astype(np.float64)
    if left.size:
        apart = np.abs(left - right)
        sums.largest = max(sums.largest, float(apart.max()))
        sums.total += float(apart.sum())
        sums.low, sums.high = min(sums.low, float(left.min())), max(sums.high, float(left.max()))
        sums.values += left.size


def _result(sums: _Sums) -> OutputDifference:
    known = sums.values > 0
    return OutputDifference(
        largest=sums.largest,
        mean=sums.total / sums.values if known else 0.0,
        span=sums.high - sums.low if known else 0.0,
        magnitude=max(abs(sums.low), abs(sums.high)) if known else 0.0,
        values=sums.values,
        flipped=sums.flipped,
        decisions=sums.decisions,
    )
