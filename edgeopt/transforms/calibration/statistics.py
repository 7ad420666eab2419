"""`Statistics`: what transforms may know from the calibration part, each found out once.

Calibration is one streaming pass: one sample's values are in memory at a time, and of a value
only an `Observation`. All range methods read the same observations. A value that was seen in
one graph is known in every other that computes it in the same way, so that a candidate whose
graph differs in one place is calibrated behind that place only.
"""

import hashlib
import io
import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.data import Feed, Part
from edgeopt.core.protocols import Artifacts
from edgeopt.graph.runtime import observe
from edgeopt.transforms.base import Range
from edgeopt.transforms.calibration.archive import Archive
from edgeopt.transforms.calibration.identity import Identity
from edgeopt.transforms.calibration.methods import method_of, plain
from edgeopt.transforms.calibration.moments import Moments, MomentStore
from edgeopt.transforms.calibration.observation import Channels, Observation
from edgeopt.transforms.calibration.passes import BUDGET_BYTES, passes

T = TypeVar("T")
Array = npt.NDArray[Any]
_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, None)
_MOMENT_SAMPLES = 128
_KEPT = 4096
"""Observations in memory, about 20 kB each."""
_ONCE_KEPT = 32


@dataclass(frozen=True, slots=True)
class _Calibrated:
    ranges: Mapping[str, Range]
    digest: str


class Statistics:
    """Evidence from the calibration part; implements `transforms.base.Evidence`.

    Args:
        part: Calibration samples; None without data, then nothing is known of any value.
        artifacts: Where ranges and repaired weights are kept.
        state: Output name to input name, where outputs of one sample feed the next of its group.
        limit: At most so many samples are used.
        broad: Calibration samples under the data's own augmentations, for `+broad` ranges; at
            most `limit` of them are used. None: such ranges are those of the part alone.
        kept: Folder in which observations outlive the process; None keeps none.
        data_digest: Of the data set; names the files in `kept`.
        budget_bytes: Of one sample's values that are looked at in one pass.
        kind: What the samples are; empty where that is not known.
        progress: Told how far something is that takes minutes.
        patience_s: Asked how long it may take now, by the clock.
    """

    def __init__(
        self,
        part: Part | None,
        artifacts: Artifacts,
        *,
        state: Mapping[str, str] | None = None,
        limit: int = 256,
        broad: Part | None = None,
        kept: Path | None = None,
        data_digest: str = "",
        budget_bytes: int = BUDGET_BYTES,
        kind: str = "",
        progress: Callable[[str], None] | None = None,
        patience_s: Callable[[], float] | None = None,
    ) -> None:
        self.kind = kind
        self._patience_s = patience_s
        self._part = part.take(limit) if part is not None else None
        self._whole = part, broad
        self._broad = broad.take(limit) if broad is not None else None
        self._artifacts = artifacts
        self._state = dict(state or {})
        self._budget_bytes = budget_bytes
        self._progress = progress
        self._kept = kept if data_digest else None
        self._archive = Archive(kept if data_digest else None)
        self._data = f"{data_digest} {len(self._part or ())} {len(self._broad or ())}"
        self._calibrated: dict[tuple[str, str], _Calibrated] = {}
        self._identity = Identity()
        self._seen: OrderedDict[tuple[str, str], Observation] = OrderedDict()
        self._means: dict[tuple[Any, ...], Mapping[str, npt.NDArray[np.float64]]] = {}
        self._moments = MomentStore()
        self._once: OrderedDict[tuple[str, str], Any] = OrderedDict()
        self._reference: ir.Model | None = None
        self._float_keys: dict[str, str] = {}
        self._float_digest = ""

    @property
    def reference(self) -> ir.Model | None:
        """The float graph of the build under way."""
        return self._reference

    @property
    def unfinished(self) -> Path | None:
        """Folder for what is not done yet; None where nothing outlives the process."""
        return None if self._kept is None else self._kept / "unfinished"

    @property
    def patience_s(self) -> float:
        """Seconds by the clock for what takes minutes; endless where nobody waits."""
        return math.inf if self._patience_s is None else self._patience_s()

    def tell(self, text: str) -> None:
        """Say how far something is."""
        if self._progress is not None:
            self._progress(text)

    @property
    def known(self) -> int:
        """How many values there are observations of, over all graphs."""
        return len(self._seen)

    def remember_float(self, model: ir.Model) -> None:
        """Take a graph as `reference`; whoever calls does not change it any more."""
        if model is not self._reference:
            self._reference = model
            self._float_keys = self._identity.of_values(model.graph)
            self._float_digest = _digest(self._float_keys)

    def ranges(
        self,
        model: ir.Model,
        names: Sequence[str],
        digest: str | None,
        *,
        method: str = "minmax",
    ) -> tuple[Mapping[str, Range], str]:
        """Ranges of values of a float graph, and the digest of the artifact that holds them.

        Args:
            model: The float graph.
            names: Values that are needed; those that no sample showed are missing in the result.
            digest: Of stored ranges, which are used where they hold all the names.
            method: One of `calibration.methods.METHODS`, or with `+broad` behind it.

        Raises:
            UsageError: There is no such method.
        """
        stored = None if digest is None else self._stored(digest)
        if digest is not None and stored is not None and all(name in stored for name in names):
            return {name: stored[name] for name in names}, digest
        if self._part is None:
            return {}, ""
        key = _digest(self._keys(model)), method
        if key not in self._calibrated:
            self._calibrated[key] = self._calibrate(model, method)
        found = self._calibrated[key]
        held = {name: found.ranges[name] for name in names if name in found.ranges}
        return held, found.digest

    def channels(
        self, model: ir.Model, names: Sequence[str], *, axis: int = 1
    ) -> Mapping[str, Channels]:
        """Per-channel figures of values of a float graph over the calibration part.

        Args:
            model: The float graph.
            names: Values; those without channels on the axis, or whose number of channels
                differs from sample to sample, are missing in the result.
            axis: 1, or -1.
        """
        if self._part is None:
            return {}
        seen = self._observations(model, "part")
        found: dict[str, Channels] = {}
        for name in names:
            kept = None if name not in seen else seen[name].channels.get(axis)
            if kept is not None:
                found[name] = kept
        return found

    def means(
        self,
        model: ir.Model,
        names: Sequence[str],
        *,
        axis: int = 1,
        limit: int | None = None,
    ) -> Mapping[str, npt.NDArray[np.float64]]:
        """Mean a channel [channels] of values, over the first samples and all other axes."""
        key = (self._float_digest, axis, limit, tuple(names))
        if model is self._reference and key in self._means:
            return self._means[key]
        sums: dict[str, npt.NDArray[np.float64]] = {}
        counts: dict[str, int] = {}
        for found in itertools.islice(self._observed(model, names, self._part), limit):
            for name, array in found.items():
                channel = axis % array.ndim
                others = tuple(index for index in range(array.ndim) if index != channel)
                total = array.sum(axis=others, dtype=np.float64)
                sums[name] = sums[name] + total if name in sums else total
                counts[name] = counts.get(name, 0) + array.size // max(total.size, 1)
        means = {name: total / max(counts[name], 1) for name, total in sums.items()}
        if model is self._reference:
            self._means[key] = means
        return means

    def moments(
        self, model: ir.Model, wanted: Sequence[tuple[str, int]], *, products: bool
    ) -> Mapping[tuple[str, int], Moments]:
        """Sums, and sums of products, of channels along an axis each, over the first samples."""
        if self._part is None:
            return {}
        part = self._part.take(_MOMENT_SAMPLES)

        def seen(names: Sequence[str]) -> Iterator[dict[str, Array]]:
            for some in passes(model.graph, names, part.feeds[0], self._budget_bytes):
                yield from self._observed(model, some, part)

        return self._moments.of(wanted, self._keys(model), seen, products=products)

    def once(self, model: ir.Model, what: str, make: Callable[[], T]) -> T:
        """What `make` finds out about a float graph, of the latest few graphs."""
        key = what, _digest(self._keys(model))
        if key not in self._once:
            self._once[key] = make()
        self._once.move_to_end(key)
        found: T = self._once[key]
        while len(self._once) > _ONCE_KEPT:
            self._once.popitem(last=False)
        return found

    def feeds(self, count: int) -> Sequence[Feed]:
        """The first calibration feeds."""
        part = self._whole[0]
        return () if part is None else part.feeds[:count]

    def broad(self, count: int) -> Sequence[Feed]:
        """The first calibration feeds under the data's own augmentations."""
        part = self._whole[1]
        return () if part is None else part.feeds[:count]

    def keep(self, arrays: Mapping[str, Array]) -> str:
        """Store arrays as one artifact (npz); returns its digest."""
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **arrays)
        return self._artifacts.store(stream.getvalue(), ".npz")

    def recall(self, digest: str) -> Mapping[str, Array] | None:
        """The arrays of an artifact; None where it is not stored."""
        path = self._artifacts.path(digest)
        if path is None:
            return None
        with np.load(path, allow_pickle=False) as held:
            return {name: held[name] for name in held.files}

    def _stored(self, digest: str) -> Mapping[str, Range] | None:
        for known in self._calibrated.values():
            if known.digest == digest:
                return known.ranges
        arrays = self.recall(digest)
        if arrays is None:
            return None
        rows = zip(arrays["names"], arrays["low"], arrays["high"], strict=True)
        return {str(name): Range(low=float(low), high=float(high)) for name, low, high in rows}

    def _calibrate(self, model: ir.Model, method: str) -> _Calibrated:
        name, broad = plain(method)
        find = method_of(name)
        seen = self._observations(model, "part")
        if broad and self._broad is not None:
            more = self._observations(model, "broad")
            seen = {key: one.merged(more[key]) for key, one in seen.items() if key in more}
        ranges = {key: find(one) for key, one in seen.items() if one.finite}
        digest = self.keep(
            {
                "names": np.array(list(ranges), dtype=np.str_),
                "low": np.array([found.low for found in ranges.values()]),
                "high": np.array([found.high for found in ranges.values()]),
            }
        )
        return _Calibrated(ranges, digest)

    def _observations(self, model: ir.Model, source: str) -> dict[str, Observation]:
        """Observations of all float values of a graph, from the part or from the broad one."""
        keys = self._keys(model)
        names = [value.name for value in _float_values(model.graph) if value.name]
        if any((source, keys[name]) not in self._seen for name in names):
            self._look(model, source, {name: keys[name] for name in names})
        found: dict[str, Observation] = {}
        for name in names:
            held = self._seen[source, keys[name]]
            self._seen.move_to_end((source, keys[name]))
            if held.samples:
                found[name] = held
        while len(self._seen) > max(_KEPT, 2 * len(names)):
            self._seen.popitem(last=False)
        return found

    def _look(self, model: ir.Model, source: str, keys: Mapping[str, str]) -> None:
        """See to it that all the values are known: from the archive, else from the samples."""
        content = f"{self._data} {source} {_digest(keys)}"
        name = hashlib.sha256(content.encode()).hexdigest()
        for key, one in self._archive.load(name).items():
            self._seen.setdefault((source, key), one)
        missing = {key: value for value, key in keys.items() if (source, key) not in self._seen}
        if not missing:
            return
        part = self._part if source == "part" else self._broad
        assert part is not None, "the caller asks for parts that are there"
        found = {key: Observation() for key in missing}
        for some in passes(model.graph, list(missing.values()), part.feeds[0], self._budget_bytes):
            for values in self._observed(model, some, part):
                for value, array in values.items():
                    found[keys[value]].add(array)
        self._seen |= {(source, key): one for key, one in found.items()}
        self._archive.store(name, {key: self._seen[source, key] for key in keys.values()})

    def _observed(
        self, model: ir.Model, names: Sequence[str], part: Part | None
    ) -> Iterator[dict[str, Array]]:
        """Float values of every sample, one after the other; empty and absent ones left out."""
        state: dict[str, Array] = {}
        asked = [*names, *self._state]
        wanted = set(names)
        for found in observe(model, asked, _chained(part, state)):
            state.update({self._state[output]: found[output] for output in self._state})
            yield {
                name: array
                for name, array in found.items()
                if name in wanted and _is_float(array) and array.size
            }

    def _keys(self, model: ir.Model) -> dict[str, str]:
        """Name to digest of all values of a graph."""
        if model is self._reference:
            return self._float_keys
        return self._identity.of_values(model.graph)


def _chained(part: Part | None, state: Mapping[str, Array]) -> Iterator[Feed]:
    """Samples, with the state that the sample before left behind within a group."""
    if part is None:
        return
    groups = part.group
    for index, feed in enumerate(part.feeds):
        goes_on = index > 0 and groups is not None and groups[index] == groups[index - 1]
        yield {**feed, **state} if goes_on else feed


def _digest(keys: Mapping[str, str]) -> str:
    """Of a graph: the names of its values and what they depend on."""
    content = "\n".join(f"{name}={key}" for name, key in keys.items())
    return "sha256:" + hashlib.sha256(content.encode()).hexdigest()


def _float_values(graph: ir.Graph) -> Iterable[ir.Value]:
    """Values that may be float activations: inputs and results of nodes."""
    values = [*graph.inputs, *(output for node in graph for output in node.outputs)]
    return [value for value in values if value.dtype in _FLOATS and not value.is_initializer()]


def _is_float(array: Any) -> bool:
    return isinstance(array, np.ndarray) and cast("Array", array).dtype.kind == "f"
