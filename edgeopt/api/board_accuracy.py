"""Accuracy on a device: the host's outputs where the two were shown to agree, else the device's.

Scoring thousands of samples on a board takes long. So the first samples of the search part are
run there, and where the device computes what the host computes, the host's evidence counts, and
the value says so. Otherwise samples are streamed to the device in batches, reduced there to what
the metric reads, and judged here.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgeopt.api.accuracy import Accuracy, PairedAccuracy
from edgeopt.api.board_agreement import SAMPLES, Agreement, Compared, agree
from edgeopt.api.board_outputs import BoardOutputs
from edgeopt.api.once import Once
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed, Part
from edgeopt.core.protocols import Arrays, Target
from edgeopt.data.evaluate import Fed, Scored, begins_group, score_part
from edgeopt.data.reduction import common, reduction
from edgeopt.graph.runtime import Session

WHOLE_BYTES = 64 * 2**20
"""Of whole outputs that are fetched to compare values; of other samples decisions are."""
RETURN_BYTES = 2**30
"""Of outputs of one model on one part: more is not fetched, fewer samples are scored instead."""
_LOOKED_AT = 8
_FLOAT16_LIMIT = 3e4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Needs:
    """What the metric reads of the given model's outputs.

    Args:
        reductions: Output to what is sent of it.
        whole: The same without any reduction.
        bytes_each: Of the reduced outputs of a sample.
        whole_bytes_each: Of the whole ones.
        magnitude: Largest absolute value seen.
    """

    reductions: Mapping[str, str]
    whole: Mapping[str, str]
    bytes_each: int
    whole_bytes_each: int
    magnitude: float


class BoardAccuracy(PairedAccuracy):
    """Scores models as one device computes them; stands in for `Accuracy`.

    Drops are against the given model on that device: it is checked like every other. Threads may
    share it, and several may share one `Accuracy`.

    Args:
        accuracy: Of the host.
        target: The device.
        folder: Where batches are written.
        settings: Of the sessions on the device.
        quiet: Held while the device works; None where nothing competes with it.
    """

    def __init__(
        self,
        accuracy: Accuracy,
        target: Target,
        folder: Path,
        settings: RuntimeSettings,
        *,
        quiet: AbstractContextManager[Any] | None = None,
    ) -> None:
        super().__init__(
            accuracy.data, accuracy.metric, accuracy.name, accuracy.probes, accuracy.model
        )
        self._host = accuracy
        self._board = BoardOutputs(target, folder, settings, quiet)
        self._agreements: Once[tuple[str, str], Agreement] = Once()
        self._scores: Once[tuple[str, str, int, str], Scored] = Once()
        self._needs: Once[str, _Needs] = Once()

    def baseline(self, part: Part) -> Scored:
        """Evidence of the user's own file on a part, as the device computes it."""
        return self._scored(self.model, part, self._host.digest, None)

    def evidence(
        self, model: Path, part: Part, digest: str, settings: RuntimeSettings | None = None
    ) -> Scored:
        """Evidence of a built model on a part; the same bytes are scored once.

        Args:
            model: The file.
            part: Which samples.
            digest: Of the file.
            settings: Of its session on the device, where they are not the usual ones.

        Raises:
            RuntimeFailure: Host or device do not run the model.
            DeviceError: The device fails.
            DataError: Label and outputs do not fit each other.
        """
        return self._scored(model, part, digest, settings)

    def agreement(
        self, model: Path, digest: str, settings: RuntimeSettings | None = None
    ) -> Agreement:
        """Whether the device computes what the host computes; found out once a file.

        Raises:
            RuntimeFailure: Host or device do not run the model.
            DeviceError: The device fails.
        """
        key = digest, self._numerics(settings)
        return self._agreements.get(key, lambda: self._compared(model, settings))

    def agreement_with_host(self, digest: str, settings: RuntimeSettings | None = None) -> str:
        """How a scored file's outputs differ from the host's, in words; empty where unknown."""
        found = self._agreements.known((digest, self._numerics(settings)))
        return "" if found is None else found.text

    def base_of(self, scored: Scored, part: Part) -> Scored:
        """The baseline's evidence on the samples that were scored."""
        return self.baseline(part.take(scored.samples) if scored.samples else part)

    def _numerics(self, settings: RuntimeSettings | None) -> str:
        """The settings that outputs depend on; threads change the order of a sum at most."""
        given = settings or self._board.settings
        only = RuntimeSettings(
            provider=given.provider, optimization=given.optimization, options=given.options
        )
        return only.text

    def _scored(
        self, model: Path, part: Part, digest: str, settings: RuntimeSettings | None
    ) -> Scored:
        key = digest, part.name, len(part), self._numerics(settings)
        return self._scores.get(key, lambda: self._evidence(model, part, digest, settings))

    def _evidence(
        self, model: Path, part: Part, digest: str, settings: RuntimeSettings | None
    ) -> Scored:
        found = self.agreement(model, digest, settings)
        if found.ok:
            host = self._host
            given = digest == host.digest
            own = host.baseline(part) if given else host.evidence(model, part, digest)
            return replace(own, origin=found.origin)
        return self._on_the_device(model, part, settings, found.origin)

    def _on_the_device(
        self, model: Path, part: Part, settings: RuntimeSettings | None, origin: str
    ) -> Scored:
        """Evidence from the device's outputs; state is kept there, so none is fed here."""
        needs = self._needs.get("", self._looked_at)
        reductions, bytes_each = needs.reductions, needs.bytes_each
        if bytes_each * len(part) > RETURN_BYTES and needs.magnitude < _FLOAT16_LIMIT:
            halved = {k: "float16" if v == "full" else v for k, v in reductions.items()}
            reductions, bytes_each = halved, max(1, bytes_each // 2)
            origin = f"{origin} in float16"
        taken = part.take(max(1, RETURN_BYTES // bytes_each)) if bytes_each else part

        def outputs(file: Path, of: RuntimeSettings | None) -> Iterator[Arrays]:
            return self._board.run(
                file,
                taken,
                reductions=reductions,
                bytes_each=bytes_each,
                state=self.data.state,
                settings=of,
            )

        mine = outputs(model, settings)
        beside = outputs(self.model, None) if self.metric.needs_reference else None
        found = score_part(
            taken,
            lambda _: next(mine),
            self.metric,
            reference=None if beside is None else lambda _: next(beside),
        )
        return replace(found, origin=origin)

    def _compared(self, model: Path, settings: RuntimeSettings | None) -> Agreement:
        needs = self._needs.get("", self._looked_at)
        valued = min(SAMPLES, max(1, WHOLE_BYTES // max(needs.whole_bytes_each, 1)))
        count = valued if self.data.state else SAMPLES
        part = _first(self.data.search, count)
        compared = Compared(
            part=part,
            metric=self.metric,
            reductions=needs.reductions,
            state=self.data.state,
            settings=self._host.settings,
            valued=valued,
        )
        beside = self._first_outputs(self.model, part, valued, None)
        return agree(
            compared,
            model,
            self._first_outputs(model, part, valued, settings),
            self.model,
            beside if self.metric.needs_reference else None,
        )

    def _first_outputs(
        self, model: Path, part: Part, valued: int, settings: RuntimeSettings | None
    ) -> Iterator[Arrays]:
        """Whole outputs of some samples, then what the metric reads of the others."""
        needs = self._needs.get("", self._looked_at)
        halves = (
            (_first(part, valued), needs.whole, needs.whole_bytes_each),
            (_without_first(part, valued), needs.reductions, needs.bytes_each),
        )
        for half, reductions, bytes_each in halves:
            if len(half):
                yield from self._board.run(
                    model,
                    half,
                    reductions=reductions,
                    bytes_each=bytes_each,
                    state=self.data.state,
                    settings=settings,
                )

    def _looked_at(self) -> _Needs:
        """What the metric reads, found out on some samples of the given model on the host."""
        part = _first(self.data.search, _LOOKED_AT)
        running = Fed(Session(self.model, self._host.settings).run, self.data.state)
        found: Mapping[str, str] | None = None
        sizes = [(0, 0)]
        magnitude = 0.0
        for index in range(len(part)):
            outputs = running(part.feeds[index], begins=begins_group(part, index))
            target = None if part.target is None else np.asarray(part.target[index])
            said = reduction(self.metric, outputs, target)
            found = said if found is None else common(found, said)
            sizes.append(_sizes(outputs, said))
            magnitude = max([magnitude, *(_largest(outputs[n]) for n in said if said[n] == "full")])
        reductions = found or {}
        return _Needs(
            reductions=reductions,
            whole={n: "drop" if what == "drop" else "full" for n, what in reductions.items()},
            bytes_each=max(size for size, _ in sizes),
            whole_bytes_each=max(size for _, size in sizes),
            magnitude=magnitude,
        )


def _sizes(outputs: Arrays, said: Mapping[str, str]) -> tuple[int, int]:
    """Bytes of a sample's outputs as they are sent, and whole; what is dropped counts in none."""
    sent = whole = 0
    for name, what in said.items():
        if what == "drop":
            continue
        array = np.asarray(outputs[name])
        whole += array.nbytes
        kind, _, axis = what.partition(":")
        if kind == "argmax":
            sent += 4 * (array.size // max(array.shape[int(axis)], 1))
        else:
            sent += array.size if kind == "above" else array.nbytes
    return sent, whole


def _largest(output: Any) -> float:
    array = np.asarray(output)
    if array.dtype.kind != "f":
        return 0.0
    return float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array)))


def _first(part: Part, count: int) -> Part:
    """The first samples, also where a group is cut: state starts at a group's beginning."""
    return _slice(part, slice(0, count))


def _without_first(part: Part, count: int) -> Part:
    return _slice(part, slice(count, len(part)))


def _slice(part: Part, which: slice) -> Part:
    feeds: list[Feed] = [part.feeds[index] for index in range(len(part))[which]]
    return replace(
        part,
        feeds=feeds,
        target=None if part.target is None else part.target[which],
        group=None if part.group is None else part.group[which],
    )
