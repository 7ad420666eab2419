"""A file in parts that other files may share: a model is cut at the bounds of its large weights.

Candidates of one model have most weights in common. Each large weight becomes a blob of its own,
named by its digest, and what lies between them one more; the device puts the file together again
and checks its digest. Field numbers are those of onnx.proto3; no library reads the graph here.
"""

import hashlib
import json
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgeopt.errors import DeviceError

LARGE = 16 * 1024
# So that a lost connection costs no more than this.
PIECE = 16 * 1024 * 1024

_MODEL, _GRAPH, _NODE, _ATTRIBUTE, _SPARSE, _FUNCTION, _TENSOR, _ENTRY = range(8)
_INSIDE = {
    _MODEL: {7: _GRAPH, 25: _FUNCTION},
    _GRAPH: {1: _NODE, 5: _TENSOR, 15: _SPARSE},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH, 22: _SPARSE, 23: _SPARSE},
    _SPARSE: {1: _TENSOR, 2: _TENSOR},
    _FUNCTION: {7: _NODE},
    _TENSOR: {13: _ENTRY},
}
_DATA = frozenset({4, 5, 7, 9, 10, 11})
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """Bytes of a file that are kept under their digest.

    Args:
        digest: SHA-256 in hexadecimal digits.
        spans: Where they lie in the file, in order: begin and end.
    """

    digest: str
    spans: tuple[Span, ...]

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(end - begin for begin, end in self.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    """One file in parts.

    Args:
        path: On this host.
        name: Relative to the folder on the device.
        digest: SHA-256 of all of it.
        size: In bytes.
        blobs: Different blobs that it consists of.
        parts: (digest, offset in the blob, bytes), in the order of the file.
    """

    path: Path
    name: str
    digest: str
    size: int
    blobs: tuple[Blob, ...]
    parts: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A file and the external data that it names.

    Args:
        key: What its folder on the device is called.
        files: The file itself comes first.
    """

    key: str
    files: tuple[FilePlan, ...]


def plan(path: Path) -> Plan:
    """A file in parts.

    External data outside of the model's folder, or that is not there, is left out: the runtime
    on the device then says what is missing.

    Raises:
        DeviceError: It cannot be read.
    """
    try:
        large, outside = _scan(path) if path.suffix == ".onnx" else ([], {})
        files = [_file_plan(path, path.name, large)]
        for location in sorted(outside):
            data = path.parent / location
            if _is_inside(location) and data.is_file():
                files.append(_file_plan(data, location, outside[location]))
    except OSError as error:
        raise DeviceError(
            f"the file cannot be read: {error.strerror or error}",
            where=str(path),
            hint="build it again",
        ) from error
    named = json.dumps([[each.name, each.digest] for each in files])
    return Plan(key=hashlib.sha256(named.encode()).hexdigest(), files=tuple(files))


def _is_inside(location: str) -> bool:
    place = Path(location)
    return bool(location) and not place.is_absolute() and ".." not in place.parts


def _file_plan(path: Path, name: str, large: list[Span]) -> FilePlan:
    size = path.stat().st_size
    data = path.read_bytes() if size < LARGE else None
    with path.open("rb") as stream:
        view = data if data is not None else mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        rest = hashlib.sha256()
        whole = hashlib.sha256()
        cuts = list(_cuts(large, size))
        for begin, end, alone in cuts:
            piece = view[begin:end]
            whole.update(piece)
            if not alone:
                rest.update(piece)
        between = Blob(digest=rest.hexdigest(), spans=tuple((b, e) for b, e, a in cuts if not a))
        blobs = {between.digest: between} if between.size or not size else {}
        parts: list[tuple[str, int, int]] = []
        offset = 0
        for begin, end, alone in cuts:
            if alone:
                digest = hashlib.sha256(view[begin:end]).hexdigest()
                blobs.setdefault(digest, Blob(digest=digest, spans=((begin, end),)))
                parts.append((digest, 0, end - begin))
            else:
                parts.append((between.digest, offset, end - begin))
                offset += end - begin
        if isinstance(view, mmap.mmap):
            view.close()
    return FilePlan(
        path=path,
        name=name,
        digest=whole.hexdigest(),
        size=size,
        blobs=tuple(blobs.values()),
        parts=tuple(parts),
    )


def _cuts(large: list[Span], size: int) -> Iterator[tuple[int, int, bool]]:
    """(begin, end, whether it is a blob of its own) over the whole file.

    A file without large weights is all `between`, but in pieces where it is long.
    """
    spans = [(b, e) for b, e in _disjoint(large) if e <= size]
    position = 0
    for begin, end in [*spans, (size, size)]:
        long = begin - position > PIECE
        for at in range(position, begin, PIECE):
            yield at, min(at + PIECE, begin), long
        for at in range(begin, end, PIECE):
            yield at, min(at + PIECE, end), True
        position = end


def _disjoint(spans: list[Span]) -> Iterator[Span]:
    """In order, without those that overlap an earlier one."""
    position = 0
    for begin, end in sorted(spans):
        if begin >= position:
            yield begin, end
            position = end


def _scan(path: Path) -> tuple[list[Span], dict[str, list[Span]]]:
    """Large weights inside the file, and those in external files, by location.

    What is no model has none: it is sent as it is, and the runtime there says what is wrong.
    """
    if path.stat().st_size == 0:
        return [], {}
    large: list[Span] = []
    outside: dict[str, list[Span]] = {}
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        waiting: list[tuple[int, int, int]] = [(_MODEL, 0, len(data))]
        try:
            while waiting:
                kind, begin, end = waiting.pop()
                entries: dict[str, str] = {}
                for number, start, stop in _fields(data, begin, end):
                    inside = _INSIDE[kind].get(number)
                    if inside == _ENTRY:
                        key, value = _entry(data, start, stop)
                        entries[key] = value
                    elif inside is not None:
                        waiting.append((inside, start, stop))
                    elif kind == _TENSOR and number in _DATA and stop - start >= LARGE:
                        large.append((start, stop))
                if "location" in entries:
                    spans = outside.setdefault(entries["location"], [])
                    offset, length = int(entries.get("offset", 0)), int(entries.get("length", 0))
                    if length >= LARGE:
                        spans.append((offset, offset + length))
        except (IndexError, ValueError):
            return [], {}
    return large, outside


def _entry(data: mmap.mmap, begin: int, end: int) -> tuple[str, str]:
    found = {number: data[start:stop].decode() for number, start, stop in _fields(data, begin, end)}
    return found.get(1, ""), found.get(2, "")


def _fields(data: mmap.mmap, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(number, begin, end) of every length-delimited field of a message.

    Raises:
        ValueError: It is no message.
        IndexError: It ends in the middle.
    """
    position = begin
    while position < end:
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == _VARINT:
            _, position = _varint(data, position)
        elif kind == _FIXED64:
            position += 8
        elif kind == _FIXED32:
            position += 4
        elif kind == _BYTES:
            length, position = _varint(data, position)
            if position + length > end:
                raise ValueError("a field is longer than its message")
            yield tag >> 3, position, position + length
            position += length
        else:
            raise ValueError("no such kind of field")


def _varint(data: mmap.mmap, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 127) << shift
        position += 1
        if byte < 128:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
