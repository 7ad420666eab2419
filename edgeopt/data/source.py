"""`Source`: all samples that a reader found, before they are split. `Reader`: what finds them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Array, Feed
from edgeopt.core.model import Model
from edgeopt.data.options import DataOptions

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Samples by position.

    Args:
        count: How many.
        stored: The arrays of a sample as they lie in memory; what identity is computed from.
        feed: What the runtime takes for a sample; decodes on access where something is encoded.
        target: One row a sample; None without labels.
        group: One integer a sample; None where every sample stands alone.
        notes: What was done to the data that a reader of results must know (casts).
        metric_options: What the reader knows for the metric, such as class names.
    """

    count: int
    stored: Callable[[int], Feed]
    feed: Callable[[int], Feed]
    target: Array | None = None
    group: Array | None = None
    notes: tuple[str, ...] = ()
    metric_options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@runtime_checkable
class Reader(Protocol):
    """A plug-in of `data/readers/<name>.py`, as its module-level `PLUGIN`."""

    def accepts(self, spec: str) -> bool:
        """Whether this specification is for this reader, judged without reading much."""
        ...

    def declared(self, spec: str) -> Mapping[str, Any]:
        """What the data says about itself (keys of `DataOptions`); empty where nothing.

        Raises:
            DataError: The description cannot be read.
        """
        ...

    def read(self, spec: str, model: Model, options: DataOptions) -> Source:
        """All samples, checked against the model's inputs.

        Raises:
            DataError: The data cannot be read or does not meet the model; says where.
        """
        ...


@dataclass(frozen=True, slots=True)
class LazyFeeds(Sequence[Feed]):
    """Some positions of a source, in any order; nothing is copied or decoded before access.

    Args:
        at: The feed at a position of the source.
        positions: Which, in order.
    """

    at: Callable[[int], Feed]
    positions: Integers

    def __len__(self) -> int:
        return len(self.positions)

    @overload
    def __getitem__(self, index: int) -> Feed: ...
    @overload
    def __getitem__(self, index: slice) -> "LazyFeeds": ...
    def __getitem__(self, index: int | slice) -> "Feed | LazyFeeds":
        if isinstance(index, slice):
            return LazyFeeds(self.at, self.positions[index])
        return self.at(int(self.positions[index]))
