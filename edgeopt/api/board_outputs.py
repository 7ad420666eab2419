"""Outputs of a device, sample after sample: batches go there, what is needed comes back."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Array, Feed, Part
from edgeopt.core.protocols import Arrays, Target
from edgeopt.data.evaluate import begins_group
from edgeopt.data.reduction import restored
from edgeopt.errors import DeviceError
from edgeopt.graph.runtime import RuntimeFailure
from edgeopt.measure.feeds import write_feeds
from edgeopt.measure.jobs import CandidateError, Device, settings_of

BATCH_BYTES = 32 * 2**20
"""Of feeds in one file, and of outputs in one reply."""
FIRST_BATCH = 16
"""Samples of the first batch of a model: its pace is not known yet."""
BATCH_S = 60.0
"""Device time of a batch, once the pace is known."""
DEADLINE_S = 600.0


class BoardOutputs:
    """Runs models over samples on a device.

    Args:
        target: The device.
        folder: Where batches are written; each is removed once it was used.
        settings: Of the sessions there.
        quiet: Held while the device works; None where nothing competes with it.
    """

    def __init__(
        self,
        target: Target,
        folder: Path,
        settings: RuntimeSettings,
        quiet: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.target = target
        self.settings = settings
        self._folder = folder
        self._device = Device(
            target=target,
            quiet=nullcontext() if quiet is None else quiet,
            deadline_s=DEADLINE_S,
        )
        self._lock = threading.Lock()

    def run(
        self,
        model: Path,
        part: Part,
        *,
        reductions: Mapping[str, str],
        bytes_each: int,
        state: Mapping[str, str],
        settings: RuntimeSettings | None = None,
    ) -> Iterator[Arrays]:
        """Outputs of every sample of a part, in order; decisions are restored as outputs.

        Args:
            model: The file.
            part: Its samples.
            reductions: Output to what is sent of it.
            bytes_each: Size of what is sent of a sample.
            state: Output to input; a batch then holds whole groups.
            settings: Of the session, where they are not the usual ones.

        Raises:
            RuntimeFailure: The device's runtime does not load or run the model.
            DeviceError: The device fails.
        """
        place = self.target.put(model)
        most = max(1, BATCH_BYTES // max(bytes_each, 1))
        pace_s = 0.0
        batches = _Batches(part, whole_groups=bool(state), limit=min(FIRST_BATCH, most))
        for first, feeds in batches:
            groups = None if part.group is None else part.group[first : first + len(feeds)]
            start = time.monotonic()
            yield from self._batch(
                place,
                feeds,
                reductions=dict(reductions),
                state=dict(state),
                groups=None if groups is None or not state else [int(each) for each in groups],
                settings=settings_of(settings or self.settings),
            )
            pace_s = max((time.monotonic() - start) / len(feeds), 1e-6)
            batches.limit = max(1, min(most, int(BATCH_S / pace_s)))

    def _batch(
        self,
        model: str,
        feeds: list[Feed],
        *,
        reductions: Mapping[str, str],
        state: Mapping[str, str],
        groups: list[int] | None,
        settings: Mapping[str, Any],
    ) -> list[Arrays]:
        """One job. Its outputs are in memory before the next one removes their file."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock, TemporaryDirectory(dir=self._folder, prefix="batch-") as folder:
            path = Path(folder) / "feeds.npz"
            write_feeds(feeds, path)
            reply = self._ask(
                model=model,
                feeds=self.target.put(path),
                settings=settings,
                state=state,
                groups=groups,
                reduce=reductions,
            )
            path = self.target.fetch(str(reply["outputs"]))
            return _read(path, len(feeds), reductions, reply)

    def _ask(self, **arguments: Any) -> Mapping[str, Any]:
        try:
            return self._device.ask("infer", **arguments)
        except CandidateError as error:
            raise RuntimeFailure(error.failure.reason, where=self.target.name) from error


class _Batches:
    """Samples of a part in lists, each within a number and a size that may change meanwhile."""

    def __init__(self, part: Part, *, whole_groups: bool, limit: int) -> None:
        self._part = part
        self._whole_groups = whole_groups
        self.limit = limit

    def __iter__(self) -> Iterator[tuple[int, list[Feed]]]:
        first, held, size = 0, list[Feed](), 0
        for index in range(len(self._part)):
            feed = self._part.feeds[index]
            bytes_here = sum(array.nbytes for array in feed.values())
            full = len(held) >= self.limit or size + bytes_here > BATCH_BYTES
            may_end = not self._whole_groups or begins_group(self._part, index)
            if held and full and may_end:
                yield first, held
                first, held, size = index, [], 0
            held.append(feed)
            size += bytes_here
        if held:
            yield first, held


def _read(
    path: Path, count: int, reductions: Mapping[str, str], reply: Mapping[str, Any]
) -> list[Arrays]:
    """The samples of a reply's file.

    Raises:
        DeviceError: Samples are missing.
    """
    samples: list[dict[str, Array]] = [{} for _ in range(count)]
    shapes: Mapping[str, Any] = reply.get("shapes") or {}
    with np.load(path, allow_pickle=False) as stored:
        for key in stored.files:
            number, _, name = key.partition("/")
            index, what = int(number), reductions.get(name, "full")
            sent = stored[key]
            shape = tuple(shapes[name][index]) if name in shapes else sent.shape
            samples[index][name] = restored(sent, what, shape)
    wanted = any(what != "drop" for what in reductions.values()) or not reductions
    if int(reply["samples"]) != count or (wanted and not all(samples)):
        raise DeviceError(
            f"outputs of {count} samples were asked for, {reply['samples']} came back",
            where=str(path),
            hint="run the same command again",
        )
    return [dict(sample) for sample in samples]
