"""From bytes on disk to a checked `onnx.ModelProto`, or to a sentence about why not.

The one place that knows how a file that is no model looks. It answers with `ModelError`, never
with a protobuf trace.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
from google.protobuf.message import DecodeError

from edgeopt.errors import ModelError

_LFS = b"version https://git-lfs.github.com/spec/"
_FOREIGN = (
    (0, b"PK\x03\x04", "a zip archive (a PyTorch checkpoint or a Keras file?)"),
    (0, b"\x89HDF", "an HDF5 file (a Keras model?)"),
    (0, b"\x1f\x8b", "compressed with gzip"),
    (0, b"\x80\x02", "a Python pickle (a PyTorch checkpoint?)"),
    (4, b"TFL3", "a TensorFlow Lite model"),
    (4, b"ORTM", "a model in the runtime's own ORT format"),
)
_EXPORT = "export the model to ONNX first, for example with torch.onnx.export"


def load(path: Path) -> onnx.ModelProto:
    """The file's model; external data stays outside, but is there and in the model's folder.

    Raises:
        ModelError: No such file, or no ONNX model in it, or its external data cannot be used.
    """
    data = read_bytes(path)
    _refuse_foreign(path, data)
    model = parse(data, where=str(path))
    for tensor in external_tensors(model):
        _check_external(path, tensor)
    return model


def read_bytes(path: Path) -> bytes:
    """The file's bytes.

    Raises:
        ModelError: It is missing, a folder, empty or unreadable.
    """
    if path.is_dir():
        raise ModelError("this is a folder, not a model", where=str(path), hint=_folder_hint(path))
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ModelError("there is no such file", where=str(path), hint="check the path") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ModelError(
            f"the file cannot be read: {reason}", where=str(path), hint="check its permissions"
        ) from error
    if not data:
        raise ModelError(
            "the file is empty", where=str(path), hint="an export or a download stopped early"
        )
    return data


def parse(data: bytes, *, where: str = "") -> onnx.ModelProto:
    """The model in these bytes.

    Raises:
        ModelError: They are no ONNX model, or only the beginning of one.
    """
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        if data[:1] == b"\x08":
            raise ModelError(
                f"the model is truncated or damaged: its {len(data)} bytes end inside a field",
                where=where,
                hint="copy or export it again, and compare the sizes",
            ) from error
        raise ModelError("this is not an ONNX model", where=where, hint=_EXPORT) from error
    if not model.HasField("graph") or model.ir_version <= 0:
        raise ModelError("this is not an ONNX model: it has no graph", where=where, hint=_EXPORT)
    return model


def graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The main graph and every subgraph, outer ones first."""
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting += subgraphs(graph.node)
    for function in model.functions:
        waiting = subgraphs(function.node)
        while waiting:
            graph = waiting.pop()
            yield graph
            waiting += subgraphs(graph.node)


def subgraphs(nodes: Iterable[onnx.NodeProto]) -> list[onnx.GraphProto]:
    """The graphs that hang directly on these nodes."""
    found: list[onnx.GraphProto] = []
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found.append(attribute.g)
            found.extend(attribute.graphs)
    return found


def external_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor whose data lies in another file."""
    nodes = [node for function in model.functions for node in function.node]
    for graph in graphs(model):
        nodes += graph.node
        yield from (t for t in graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL)
    for node in nodes:
        for attribute in node.attribute:
            for tensor in (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors):
                if tensor.data_location == onnx.TensorProto.EXTERNAL:
                    yield tensor


def external_fields(tensor: onnx.TensorProto) -> dict[str, str]:
    """`location`, `offset` and `length` of an external tensor, as the file spells them."""
    return {entry.key: entry.value for entry in tensor.external_data}


def external_files(model: onnx.ModelProto, folder: Path) -> list[Path]:
    """The external data files of a model in that folder, by name, each once."""
    names = {external_fields(tensor).get("location", "") for tensor in external_tensors(model)}
    return [folder / name for name in sorted(names)]


def _check_external(path: Path, tensor: onnx.TensorProto) -> None:
    fields = external_fields(tensor)
    location = fields.get("location", "")
    if _escapes(location):
        raise ModelError(
            f"the external data of {tensor.name!r} lies outside of the model's folder:"
            f" {location!r}",
            where=str(path),
            hint="put the data file beside the model, and save the model again with a relative"
            " location",
        )
    file = path.parent / location
    if not file.is_file():
        raise ModelError(
            f"the external data of {tensor.name!r} is missing: there is no {location!r} beside"
            " the model",
            where=str(path),
            hint="copy the data file along with the model",
        )
    needed = int(fields.get("offset") or 0) + int(fields.get("length") or 0)
    size = file.stat().st_size
    if size < needed:
        raise ModelError(
            f"the external data {location!r} is truncated: {tensor.name!r} needs {needed} bytes,"
            f" the file has {size}",
            where=str(path),
            hint="copy the data file again",
        )


def _escapes(location: str) -> bool:
    """Whether a location is empty, absolute, or leaves its folder on any step."""
    windows = PureWindowsPath(location)
    if not location or location.startswith("/") or windows.drive or windows.root:
        return True
    depth = 0
    for part in PurePosixPath(location.replace("\\", "/")).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return depth < 1


def _refuse_foreign(path: Path, data: bytes) -> None:
    if data.startswith(_LFS):
        raise ModelError(
            "this is a Git LFS pointer, not the model itself",
            where=str(path),
            hint="run: git lfs pull",
        )
    for offset, magic, name in _FOREIGN:
        if data[offset : offset + len(magic)] == magic:
            raise ModelError(f"this is {name}, not ONNX", where=str(path), hint=_EXPORT)
    if _is_text(data[:1024]):
        raise ModelError(
            "this is a text file, not an ONNX model",
            where=str(path),
            hint="if it was downloaded, look into it: it may be an error page",
        )


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        # The cut at 1024 bytes may fall into the middle of a character.
        if error.start < len(head) - 3:
            return False
        text = head[: error.start].decode("utf-8")
    return all(character.isprintable() or character in "\r\n\t\f" for character in text)


def _folder_hint(path: Path) -> str:
    found = sorted(path.glob("*.onnx"))
    return f"did you mean {found[0]}?" if found else "give the .onnx file inside it"
