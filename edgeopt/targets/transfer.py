"""Files to a device and back: bytes through processes of the agent, checked by digest."""

import contextlib
import hashlib
import json
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from edgeopt.errors import ConnectionLostError, DeviceError, StorageError
from edgeopt.targets.bootstrap import decoded
from edgeopt.targets.connection import Connection
from edgeopt.targets.segments import Blob, FilePlan, Plan

LARGEST = 2 * 1024**3
_CHUNK = 256 * 1024
_STALL_S = 120.0
_ATTEMPTS = 6
_MARK = b"edgeopt-transfer "
# A slow card writes a few megabytes a second; a slow processor hashes fifty.
_SLOWEST = 2e6


def human(count: float) -> str:
    """Bytes as people read them."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Files to and from one device.

    Args:
        ask: One request to the agent: verb, deadline, arguments.
        start: Starts another process of the agent: words, file for its stderr.
        connection: What carries it.
        retry: Called with a failure before a further attempt; raises it where it is final.
    """

    ask: Callable[[str, float, Mapping[str, Any]], Mapping[str, Any]]
    start: Callable[[Sequence[str], IO[bytes]], subprocess.Popen[bytes]]
    connection: Connection
    retry: Callable[[DeviceError], None]

    def put(self, plan: Plan) -> str:
        """Bring a file there; its path on the device. Parts that are there are not sent.

        Raises:
            ConnectionLostError: The device went away and did not come back in time.
            DeviceError: No space there, or what arrives is not what was sent.
        """
        blobs = {blob.digest: (file, blob) for file in plan.files for blob in file.blobs}
        arguments = {
            "key": plan.key,
            "files": [_described(each) for each in plan.files],
            "blobs": {digest: blob.size for digest, (_, blob) in blobs.items()},
        }
        deadline_s = 120.0 + 3 * sum(each.size for each in plan.files) / _SLOWEST
        attempts, before = 0, len(blobs) + 1
        lost: DeviceError | None = None
        while attempts < _ATTEMPTS:
            reply = self.ask("have", deadline_s, arguments)
            if not reply["ok"]:
                raise self._refused(reply["error"])
            if "place" in reply:
                return str(reply["place"])
            # An attempt that brought something is none in vain: a bad line gets there in the end.
            attempts += len(reply["missing"]) >= before
            before, lost = len(reply["missing"]), None
            try:
                self._send([blobs[digest] for digest in reply["missing"]])
            except DeviceError as error:
                lost = error
                self.retry(error)
        raise lost or self._error("the file does not arrive as it was sent, after several attempts")

    def _send(self, missing: Sequence[tuple[FilePlan, Blob]]) -> None:
        """Bytes of all missing blobs, in one go."""
        header = [[blob.digest, blob.size] for _, blob in missing]
        with self._process(["--receive"]) as (process, log, alive):
            stream = cast("IO[bytes]", process.stdin)
            # A receiver that gives up closes the pipe, and says why in its answer.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                stream.write(json.dumps(header).encode() + b"\n")
                for file, blob in missing:
                    for chunk in _bytes_of(file, blob):
                        stream.write(chunk)
                        alive()
                stream.flush()
                stream.close()
            answer = self._marked(process)
            self._finish(process, log, answer)

    def fetch(self, place: str, folder: Path, limit: int = LARGEST) -> Path:
        """Bring a file of the agent's to a folder on this host.

        Raises:
            ConnectionLostError: The device went away and did not come back in time.
            DeviceError: There is no such file there, or it is larger than the limit in bytes.
            StorageError: It cannot be written here.
        """
        for attempt in range(_ATTEMPTS):
            try:
                return self._fetch_once(place, folder, limit)
            except DeviceError as error:
                if attempt == _ATTEMPTS - 1:
                    raise
                self.retry(error)
        raise AssertionError("the last attempt returns or raises")

    def _fetch_once(self, place: str, folder: Path, limit: int) -> Path:
        inside = folder / uuid.uuid4().hex[:12]
        target = inside / Path(place).name
        with self._process(["--send", place, str(limit)]) as (process, log, alive):
            answer = self._marked(process)
            if answer is None or not answer["ok"]:
                self._finish(process, log, answer)
            left, digest = int(cast("Any", answer)["size"]), hashlib.sha256()
            try:
                inside.mkdir(parents=True)
                with target.open("wb") as stream:
                    while left and (chunk := _read(process, min(left, _CHUNK))):
                        stream.write(chunk)
                        digest.update(chunk)
                        left -= len(chunk)
                        alive()
            except OSError as error:
                raise StorageError(
                    f"a file of the device cannot be kept: {error.strerror or error}",
                    where=str(target),
                    hint="free space there",
                ) from error
            answer = self._marked(process)
            self._finish(process, log, answer)
            if left or cast("Any", answer)["digest"] != digest.hexdigest():
                raise self._lost(f"the file {place} changed on the way")
        return target

    @contextlib.contextmanager
    def _process(
        self, words: Sequence[str]
    ) -> Generator[tuple[subprocess.Popen[bytes], IO[bytes], Callable[[], None]]]:
        """A process of the agent; killed when nothing moves for long, and when left."""
        with tempfile.TemporaryFile() as log:
            process = self.start(words, log)
            watch = _Watch(process)
            try:
                yield process, log, watch.alive
            finally:
                watch.stop()
                with contextlib.suppress(OSError):
                    cast("IO[bytes]", process.stdin).close()
                process.kill()
                process.wait()
                cast("IO[bytes]", process.stdout).close()

    def _marked(self, process: subprocess.Popen[bytes]) -> Mapping[str, Any] | None:
        """The next answer, past whatever the login prints; None at the end of the output."""
        for line in iter(cast("IO[bytes]", process.stdout).readline, b""):
            _, mark, rest = line.partition(_MARK)
            if mark:
                return decoded(rest)
        return None

    def _finish(
        self, process: subprocess.Popen[bytes], log: IO[bytes], answer: Mapping[str, Any] | None
    ) -> None:
        """Raises unless the answer is good."""
        if answer is not None and answer["ok"]:
            return
        if answer is not None:
            raise self._refused(answer["error"])
        try:
            code = process.wait(_STALL_S)
        except subprocess.TimeoutExpired:
            raise self._lost("the transfer hangs") from None
        log.seek(0)
        words = log.read()[-1500:].decode("utf-8", "replace").strip()
        failure = self.connection.failure(code, words)
        if failure is not None:
            raise failure
        if code == -signal.SIGKILL:
            # Only our own watch kills it: the shared connection behind it may hang as well.
            self.connection.reset()
            raise self._lost(f"nothing moved for {_STALL_S:g} s")
        raise self._lost(
            f"the transfer was cut off (exit code {code})" + (f": {words}" * bool(words))
        )

    def _refused(self, error: Mapping[str, Any]) -> DeviceError:
        return DeviceError(
            str(error["text"]), where=self.connection.describe(), hint=str(error["hint"])
        )

    def _lost(self, what: str) -> DeviceError:
        return ConnectionLostError(
            what, where=self.connection.describe(), hint="is the device still on?"
        )

    def _error(self, what: str) -> DeviceError:
        return DeviceError(
            what, where=self.connection.describe(), hint="is its disk damaged? see its kernel log"
        )


class _Watch(threading.Thread):
    """Kills a process while nothing moves for long: a stuck pipe blocks its writer for ever."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._done = threading.Event()
        self._moved = time.monotonic()
        self.start()

    def alive(self) -> None:
        """Something moved."""
        self._moved = time.monotonic()

    def run(self) -> None:
        """Wait for the end, or for silence."""
        while not self._done.wait(1.0):
            if time.monotonic() - self._moved > _STALL_S:
                self._process.kill()
                return

    def stop(self) -> None:
        """Nothing is watched any more."""
        self._done.set()


def _described(file: FilePlan) -> dict[str, Any]:
    return {"name": file.name, "size": file.size, "digest": file.digest, "parts": file.parts}


def _bytes_of(file: FilePlan, blob: Blob) -> Iterator[bytes]:
    with file.path.open("rb") as stream:
        for begin, end in blob.spans:
            stream.seek(begin)
            left = end - begin
            while left and (chunk := stream.read(min(left, _CHUNK))):
                yield chunk
                left -= len(chunk)


def _read(process: subprocess.Popen[bytes], count: int) -> bytes:
    return cast("IO[bytes]", process.stdout).read(count)
