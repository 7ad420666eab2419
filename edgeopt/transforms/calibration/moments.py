"""`Moments`: sums and products of channels over samples, in memory that samples do not grow."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
WIDEST = 1536
"""Channels of which all products are kept: 19 MB."""
_ROWS = 2048
"""Places of one sample that are counted at most."""
_PENDING = 512
"""Places of several small samples whose products are one: of wide axes adding costs more."""
KEPT_BYTES = 256_000_000
"""What all moments together may take."""
Wanted = tuple[str, int]
"""A value's name and an axis of it."""


@dataclass(slots=True, kw_only=True)
class Moments:
    """Of the channels of one value along one axis.

    Args:
        count: Elements a channel.
        total: Sums [channels].
        square: Sums of squares [channels].
        products: Sums of products of two channels [channels, channels]; None where they are not
            asked for, or the axis is too wide.
    """

    count: int
    total: Floats
    square: Floats
    products: Floats | None
    _pending: list[npt.NDArray[np.float32]] = field(
        default_factory=list[npt.NDArray[np.float32]], repr=False
    )

    @staticmethod
    def empty(channels: int, *, products: bool) -> "Moments":
        """Before the first sample."""
        kept = products and channels <= WIDEST
        return Moments(
            count=0,
            total=np.zeros(channels),
            square=np.zeros(channels),
            products=np.zeros((channels, channels)) if kept else None,
        )

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        products = 0 if self.products is None else self.products.nbytes
        return self.total.nbytes + self.square.nbytes + products

    def serves(self, *, products: bool) -> bool:
        """Whether it holds what is asked for; of too wide axes, and of none, there is no more."""
        return not products or self.products is not None or not 0 < len(self.total) <= WIDEST

    def add(self, array: npt.NDArray[Any], axis: int) -> None:
        """Take in one sample; of large ones evenly spaced places."""
        rows = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
        # An odd step: even ones would meet the same columns of most maps again and again.
        step = 1 if len(rows) <= _ROWS else -(-len(rows) // _ROWS) | 1
        some = np.ascontiguousarray(rows[::step], np.float32)
        self.count += len(some)
        self.total += some.sum(axis=0, dtype=np.float64)
        self.square += np.einsum("ij,ij->j", some, some, dtype=np.float64)
        if self.products is not None:
            self._pending.append(some)
            if sum(len(each) for each in self._pending) >= _PENDING:
                self.settle()

    def settle(self) -> None:
        """After the last sample: bring the products up to date."""
        if self.products is not None and self._pending:
            rows = self._pending[0] if len(self._pending) == 1 else np.concatenate(self._pending)
            self.products += rows.T @ rows
        self._pending.clear()


@dataclass
class MomentStore:
    """Moments by digest of the value and axis; the latest stay, as far as memory allows."""

    held: OrderedDict[Wanted, Moments] = field(default_factory=OrderedDict[Wanted, Moments])

    def of(
        self,
        wanted: Sequence[Wanted],
        keys: Mapping[str, str],
        observe: Callable[[Sequence[str]], Iterable[Mapping[str, npt.NDArray[Any]]]],
        *,
        products: bool,
    ) -> dict[Wanted, Moments]:
        """Those that samples show, looked at where they are not known.

        Args:
            wanted: Names and axes.
            keys: Name to digest.
            observe: From names to their values, sample after sample.
            products: Whether products of two channels are asked for.
        """
        known = [(name, axis) for name, axis in wanted if name in keys]
        missing = [one for one in known if not self._serves(keys[one[0]], one[1], products)]
        if missing:
            self._look(missing, keys, observe, products)
        found = {(name, axis): self.held[keys[name], axis] for name, axis in known}
        for name, axis in known:
            self.held.move_to_end((keys[name], axis))
        while len(self.held) > len(known) and self._bytes() > KEPT_BYTES:
            self.held.popitem(last=False)
        return {one: moments for one, moments in found.items() if moments.count}

    def _look(
        self,
        missing: Sequence[Wanted],
        keys: Mapping[str, str],
        observe: Callable[[Sequence[str]], Iterable[Mapping[str, npt.NDArray[Any]]]],
        products: bool,
    ) -> None:
        seen: dict[Wanted, Moments] = {}
        ragged: set[Wanted] = set()
        for values in observe(list(dict.fromkeys(name for name, _ in missing))):
            for name, axis in missing:
                array = values.get(name)
                if array is None or array.ndim <= axis:
                    continue
                size = array.shape[axis]
                one = seen.setdefault((name, axis), Moments.empty(size, products=products))
                if len(one.total) == size:
                    one.add(array, axis)
                else:
                    ragged.add((name, axis))
        for name, axis in missing:
            none = Moments.empty(0, products=products)
            one = none if (name, axis) in ragged else seen.get((name, axis), none)
            one.settle()
            self.held[keys[name], axis] = one

    def _serves(self, key: str, axis: int, products: bool) -> bool:
        held = self.held.get((key, axis))
        return held is not None and held.serves(products=products)

    def _bytes(self) -> int:
        return sum(one.nbytes for one in self.held.values())
