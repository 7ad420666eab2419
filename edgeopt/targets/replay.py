"""`replay`: a session recorded with any target, played back without a device.

A recording is a JSON-lines file, one exchange a line, and beside it a folder `<name>.files` with
the files that replies pointed to. Files in requests are named by their content, so that a
recording holds wherever the files lie.
"""

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from edgeopt.core import digest as digests
from edgeopt.core.closing import Closing
from edgeopt.core.protocols import Target
from edgeopt.errors import DeviceError

_RETURNED_FILES = ("outputs",)


def _named_by_content(arguments: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, Any]:
    """Arguments with the device's paths replaced by the digests of the files."""
    return {
        key: known.get(value, value) if isinstance(value, str) else value
        for key, value in arguments.items()
    }


def _files(recording: Path) -> Path:
    return recording.with_name(recording.name + ".files")


class RecordingTarget(Closing):
    """Passes everything on to a target and writes the exchanges down.

    Args:
        target: The live device; closed with this.
        recording: The JSON-lines file; written anew.
    """

    def __init__(self, target: Target, recording: Path) -> None:
        self._target = target
        self._recording = recording
        self._known: dict[str, str] = {}
        recording.parent.mkdir(parents=True, exist_ok=True)
        self._stream = recording.open("w", encoding="utf-8")
        self._write({"name": target.name})

    @property
    def name(self) -> str:
        """The recorded device's name."""
        return self._target.name

    def put(self, path: Path) -> str:
        """Make the file available on the device, and remember its content."""
        place = self._target.put(path)
        self._known[place] = digests.of_file(path)
        return place

    def fetch(self, place: str) -> Path:
        """The device's file, as the target brings it."""
        return self._target.fetch(place)

    def request(self, verb: str, *, deadline_s: float, **arguments: Any) -> Mapping[str, Any]:
        """One job, written down with its reply."""
        start = time.monotonic()
        reply = self._target.request(verb, deadline_s=deadline_s, **arguments)
        seconds = round(time.monotonic() - start, 3)
        kept = {key: value for key, value in reply.items() if key != "id"}
        for key in _RETURNED_FILES:
            if key in kept:
                kept[key] = self._keep(self._target.fetch(kept[key]))
        sent = _named_by_content(arguments, self._known)
        self._write({"verb": verb, "arguments": sent, "reply": kept, "seconds": seconds})
        return reply

    def _keep(self, path: Path) -> str:
        name = digests.short(digests.of_file(path)) + path.suffix
        folder = _files(self._recording)
        folder.mkdir(exist_ok=True)
        shutil.copyfile(path, folder / name)
        return name

    def _write(self, document: Mapping[str, Any]) -> None:
        self._stream.write(json.dumps(document, sort_keys=True) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """End the recording and the target."""
        self._stream.close()
        self._target.close()


class ReplayTarget(Closing):
    """Answers from a recording. Equal requests get their replies in the recorded order.

    Args:
        recording: The file that a `RecordingTarget` wrote.
        pace: How many times the recorded duration a reply takes; 0 answers at once. A paced
            replay is a board that needs its time and none of this host's, and it gives its last
            reply to a request again when that was recorded less often.

    Raises:
        DeviceError: The recording cannot be read.
    """

    def __init__(self, recording: Path, *, pace: float = 0.0) -> None:
        self._recording = recording
        self._pace = pace
        try:
            lines: list[Any] = [json.loads(line) for line in recording.read_text().splitlines()]
            self._name = str(lines[0]["name"])
        except (OSError, ValueError, IndexError, KeyError) as error:
            raise DeviceError(
                f"the recording cannot be read: {error}",
                where=str(recording),
                hint="record the session again",
            ) from error
        self._waiting: dict[str, list[dict[str, Any]]] = {}
        for line in cast("list[dict[str, Any]]", lines[1:]):
            key = self._key(line["verb"], line["arguments"])
            self._waiting.setdefault(key, []).append(line)

    @staticmethod
    def _key(verb: str, arguments: Mapping[str, Any]) -> str:
        return json.dumps([verb, arguments], sort_keys=True)

    @property
    def name(self) -> str:
        """The recorded device's name."""
        return self._name

    def put(self, path: Path) -> str:
        """The file's digest: what stands in the recording for it."""
        return digests.of_file(path)

    def fetch(self, place: str) -> Path:
        """The recorded file."""
        return Path(place)

    def request(self, verb: str, *, deadline_s: float, **arguments: Any) -> Mapping[str, Any]:
        """The recorded reply of an equal request; a deadline plays no part.

        Raises:
            DeviceError: No such request was recorded, or it was asked more often than then.
        """
        waiting = self._waiting.get(self._key(verb, arguments))
        if not waiting:
            raise DeviceError(
                f"the recording has no (further) reply to this {verb}",
                where=str(self._recording),
                hint="record the session again: the request or a file in it has changed",
            )
        line = waiting[0] if self._pace and len(waiting) == 1 else waiting.pop(0)
        time.sleep(self._pace * line.get("seconds", 0.0))
        reply = line["reply"]
        folder = _files(self._recording)
        found = {k: str(folder / reply[k]) for k in _RETURNED_FILES if k in reply}
        return {**reply, **found}

    def close(self) -> None:
        """Nothing is open."""


PLUGIN = ReplayTarget
