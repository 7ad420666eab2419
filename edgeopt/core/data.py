"""`DataSet`: labelled samples in three disjoint parts, and the shift probes beside them.

A sample is a *feed*: what the runtime takes for one inference, by input name, batch axis
included. Parts hold feeds as a sequence, so that a reader may decode them on access.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Feed = Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some samples of a data set, in order.

    Args:
        name: `calibration`, `search`, `test`, or a probe's name.
        feeds: One feed a sample.
        target: What the metric compares with, one row a sample; None without labels.
        group: One integer a sample: samples of one group belong together (frames of one
            recording) and are never split over parts; intervals resample whole groups.
    """

    name: str
    feeds: Sequence[Feed]
    target: Array | None = None
    group: Array | None = None

    def __len__(self) -> int:
        return len(self.feeds)

    def take(self, count: int) -> "Part":
        """The first samples: whole groups, at least `count` samples where there are so many."""
        if count >= len(self):
            return self
        end = count
        if self.group is not None:
            while end < len(self) and self.group[end] == self.group[end - 1]:
                end += 1
        return Part(
            name=self.name,
            feeds=self.feeds[:end],
            target=None if self.target is None else self.target[:end],
            group=None if self.group is None else self.group[:end],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """Samples by what they may be used for.

    Args:
        digest: Of all samples, targets and the way they are split.
        calibration: Statistics and repairs come from here; never scored.
        search: Accuracy that steers the search and stands in the front.
        test: Shown beside it, never used to select.
        probes: The test samples under built-in or user-given shifts.
        state: Output name to input name: the output of one sample feeds the next one of its group.
        metric_options: Options of the metric that belong to the data (class names, a charset).
        metric: The metric that the data or the user names; empty where neither does.
        notes: What a reader of results must know about the data, one sentence each.
        broad: Calibration samples under the built-in shifts, for ranges that hold on them too;
            None where none fits. Without targets.
        kind: What the input that is shifted holds: `image`, `audio`, `features` or `tokens`; empty
            where that is not known.
        guards: Search samples under the built-in shifts: what steers a search away from what the
            probes would refuse, so that these never select.
    """

    digest: str
    calibration: Part
    search: Part
    test: Part
    probes: tuple[Part, ...] = ()
    state: Mapping[str, str] = field(default_factory=dict[str, str])
    metric_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    metric: str = ""
    notes: tuple[str, ...] = ()
    broad: Part | None = None
    guards: tuple[Part, ...] = ()
    kind: str = ""

    @property
    def labelled(self) -> bool:
        """Whether targets are known."""
        return self.search.target is not None


def stack(rows: Sequence[Array]) -> Array:
    """Rows of equal width as one array [rows, width]; [0, 0] where there is none."""
    return np.concatenate(rows, axis=0) if rows else np.zeros((0, 0))
