"""`Statistics`: what transforms may know from the calibration part, each found out once.

Calibration is one streaming pass: one sample's values are in memory at a time, and of a value
only its running minimum and maximum are kept. A float graph is calibrated once for all its
values, so that every candidate built from it shares the result.
"""

import hashlib
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.data import Feed, Part
from edgeopt.core.protocols import Artifacts
from edgeopt.graph.runtime import observe
from edgeopt.transforms.base import Range

Array = npt.NDArray[Any]
_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, None)


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
    """

    def __init__(
        self,
        part: Part | None,
        artifacts: Artifacts,
        *,
        state: Mapping[str, str] | None = None,
        limit: int = 256,
    ) -> None:
        self._part = part.take(limit) if part is not None else None
        self._artifacts = artifacts
        self._state = dict(state or {})
        self._calibrated: dict[str, _Calibrated] = {}
        self._tensor_digests: dict[int, tuple[Any, bytes]] = {}
        self._means: dict[tuple[Any, ...], Mapping[str, npt.NDArray[np.float64]]] = {}
        self._reference: ir.Model | None = None
        self._float_digest = ""

    @property
    def reference(self) -> ir.Model | None:
        """The float graph of the build under way."""
        return self._reference

    def remember_float(self, model: ir.Model) -> None:
        """Take a graph as `reference`; whoever calls does not change it any more."""
        if model is not self._reference:
            self._reference = model
            self._float_digest = self._digest(model)

    def ranges(
        self, model: ir.Model, names: Sequence[str], digest: str | None
    ) -> tuple[Mapping[str, Range], str]:
        """Ranges of values of a float graph, and the digest of the artifact that holds them.

        Args:
            model: The float graph.
            names: Values that are needed; those that no sample showed are missing in the result.
            digest: Of stored ranges, which are used where they hold all the names.
        """
        stored = None if digest is None else self._stored(digest)
        if digest is not None and stored is not None and all(name in stored for name in names):
            return {name: stored[name] for name in names}, digest
        if self._part is None:
            return {}, ""
        key = self._digest(model)
        if key not in self._calibrated:
            self._calibrated[key] = self._calibrate(model)
        found = self._calibrated[key]
        held = {name: found.ranges[name] for name in names if name in found.ranges}
        return held, found.digest

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
        for found in itertools.islice(self._observed(model, names), limit):
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

    def feeds(self, count: int) -> Sequence[Feed]:
        """The first calibration feeds."""
        return () if self._part is None else self._part.feeds[:count]

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

    def _calibrate(self, model: ir.Model) -> _Calibrated:
        names = [value.name for value in _float_values(model.graph) if value.name]
        lows: dict[str, float] = {}
        highs: dict[str, float] = {}
        for found in self._observed(model, names):
            for name, array in found.items():
                low, high = float(array.min()), float(array.max())
                lows[name] = min(lows.get(name, low), low)
                highs[name] = max(highs.get(name, high), high)
        finite = [name for name in lows if np.isfinite(lows[name]) and np.isfinite(highs[name])]
        digest = self.keep(
            {
                "names": np.array(finite, dtype=np.str_),
                "low": np.array([lows[name] for name in finite]),
                "high": np.array([highs[name] for name in finite]),
            }
        )
        ranges = {name: Range(low=lows[name], high=highs[name]) for name in finite}
        return _Calibrated(ranges, digest)

    def _observed(self, model: ir.Model, names: Sequence[str]) -> Iterator[dict[str, Array]]:
        """Float values of every sample, one after the other; empty and absent ones left out."""
        state: dict[str, Array] = {}
        asked = [*names, *self._state]
        wanted = set(names)
        for found in observe(model, asked, self._chained(state)):
            state.update({self._state[output]: found[output] for output in self._state})
            yield {
                name: array
                for name, array in found.items()
                if name in wanted and _is_float(array) and array.size
            }

    def _chained(self, state: Mapping[str, Array]) -> Iterator[Feed]:
        """Samples, with the state that the sample before left behind within a group."""
        if self._part is None:
            return
        groups = self._part.group
        for index, feed in enumerate(self._part.feeds):
            goes_on = index > 0 and groups is not None and groups[index] == groups[index - 1]
            yield {**feed, **state} if goes_on else feed

    def _digest(self, model: ir.Model) -> str:
        """What the values of a graph depend on: its nodes and its constants."""
        if model is self._reference and self._float_digest:
            return self._float_digest
        state = hashlib.sha256()
        for value in model.graph.initializers.values():
            state.update(f"{value.name}=".encode() + self._tensor(value.const_value))
        for node in model.graph:
            state.update(self._described(node))
        return "sha256:" + state.hexdigest()

    def _described(self, node: ir.Node) -> bytes:
        inputs = [None if value is None else value.name for value in node.inputs]
        outputs = [value.name for value in node.outputs]
        head = f"{node.domain}:{node.op_type}{inputs}{outputs}".encode()
        for name, attribute in node.attributes.items():
            content = attribute.value
            if attribute.type is ir.AttributeType.TENSOR:
                head += name.encode() + self._tensor(content)
            elif attribute.type is ir.AttributeType.GRAPH:
                inner = cast("ir.Graph", content)
                head += b"".join(self._described(part) for part in inner)
                held = inner.initializers.values()
                head += b"".join(self._tensor(value.const_value) for value in held)
            else:
                head += f"{name}={content!r}".encode()
        return head

    def _tensor(self, tensor: Any) -> bytes:
        """Digest of a tensor's content; tensors are immutable and shared, so once each."""
        held = self._tensor_digests.get(id(tensor))
        if held is None or held[0] is not tensor:
            content = b"" if tensor is None else tensor.tobytes() + str(tensor.dtype).encode()
            held = (tensor, hashlib.sha256(content).digest())
            self._tensor_digests[id(tensor)] = held
        return held[1]


def _float_values(graph: ir.Graph) -> Iterable[ir.Value]:
    """Values that may be float activations: inputs and results of nodes."""
    values = [*graph.inputs, *(output for node in graph for output in node.outputs)]
    return [value for value in values if value.dtype in _FLOATS and not value.is_initializer()]


def _is_float(array: Any) -> bool:
    return isinstance(array, np.ndarray) and cast("Array", array).dtype.kind == "f"
