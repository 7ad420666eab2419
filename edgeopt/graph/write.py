"""Write a graph as a file: aside and renamed, complete or not at all."""

import errno
import hashlib
import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import onnx
import onnx_ir as ir
from google.protobuf.message import EncodeError
from onnx_ir import external_data

from edgeopt.core import digest as digests
from edgeopt.core.model import Model
from edgeopt.errors import ModelError, StorageError
from edgeopt.graph.read import describe

EXTERNAL_ABOVE_BYTES = 1_800_000_000
"""Weights beyond this go into a file beside the model: protobuf ends at 2 GiB."""

_EXTERNAL_TENSOR_BYTES = 1024
_STANDARD = ("", "ai.onnx")
SHARED_SIZE = "SHARED_SIZE"
"""Denotation of sizes that a transform proved equal to others: recorded, since no runtime would."""


def to_proto(graph: ir.Model) -> onnx.ModelProto:
    """The graph as one self-contained message, external tensors read in; the graph is unchanged."""
    return ir.to_proto(_self_contained(graph))


def stored_proto(graph: ir.Model) -> onnx.ModelProto:
    """`to_proto` as files and sessions have it: without shapes that every runtime infers itself.

    They are bytes to ship, and they change what is fused: where sizes are free, ONNX Runtime
    trusts recorded ones that it would not have derived, and on its processor provider the
    SkipLayerNormalization that follows is slower than Add and LayerNormalization. Outputs of
    operators outside the standard keep theirs, since nothing tells them otherwise, and so do values
    with a `SHARED_SIZE`, which a transform was asked to tell.
    """
    return leave_out_shapes(to_proto(graph))


def leave_out_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Drop what is recorded about outputs of standard operators, in place; the same message."""
    parts = [model.graph]
    while parts:
        part = parts.pop()
        kept = {name for node in part.node if node.domain not in _STANDARD for name in node.output}
        infos = [info for info in part.value_info if info.name in kept or _is_told(info)]
        del part.value_info[:]
        part.value_info.extend(infos)
        for attribute in (attribute for node in part.node for attribute in node.attribute):
            parts += [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
    return model


def _is_told(info: onnx.ValueInfoProto) -> bool:
    return any(size.denotation == SHARED_SIZE for size in info.type.tensor_type.shape.dim)


def copy_of(graph: ir.Model) -> ir.Model:
    """A sorted copy of a graph; tensors are shared with it, since nobody changes them in place."""
    try:
        return graph.clone()
    except RuntimeError:
        # An unsorted graph cannot be cloned, but its serialised form can hold any order.
        copy = ir.from_proto(ir.to_proto(graph))
    copy.graph.sort()
    for old, new in zip(_graphs(graph), _graphs(copy), strict=True):
        for name, value in old.initializers.items():
            new.initializers[name].const_value = value.const_value
    return copy


def to_bytes(graph: ir.Model) -> bytes:
    """The graph as the bytes of a self-contained file; equal graphs give equal bytes."""
    return serialized(stored_proto(graph))


def serialized(model: onnx.ModelProto) -> bytes:
    """The bytes of a self-contained file.

    Raises:
        ModelError: They would be more than the 2 GiB that protobuf can hold.
    """
    try:
        return model.SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as error:
        raise ModelError(
            "the model and its weights are larger than 2 GiB, which one message cannot hold",
            hint="leave this step out; what is written to files keeps weights beside the model",
        ) from error


def weight_bytes(graph: ir.Model) -> int:
    """Size of all initializers, those of subgraphs included."""
    return sum(
        value.const_value.nbytes
        for part in _graphs(graph)
        for value in part.initializers.values()
        if value.const_value is not None
    )


def write_model(
    graph: ir.Model,
    path: Path,
    *,
    external: bool | None = None,
    limit_bytes: int = EXTERNAL_ABOVE_BYTES,
) -> Model:
    """Write the graph to `path`, replacing what is there.

    Args:
        graph: Unchanged.
        path: Its folder is created where needed.
        external: Whether weights go into a data file beside the model (named after the model
            and the data's digest); None decides by their size.
        limit_bytes: Weights beyond this go outside where `external` does not decide.

    Raises:
        StorageError: The disk is full or the folder cannot be written; nothing is left behind.
    """
    outside = weight_bytes(graph) > limit_bytes if external is None else external
    with _storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return _write_with_data(graph, path) if outside else _write_whole(graph, path)


def write_aside(path: Path, data: bytes) -> None:
    """Write bytes to a temporary file in the same folder and rename it into place."""
    with _aside(path) as stream:
        stream.write(data)


@contextmanager
def _aside(path: Path) -> Generator[BinaryIO]:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        # mkstemp gives 0600; a model is as readable as any file that its user makes.
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _write_whole(graph: ir.Model, path: Path) -> Model:
    model = stored_proto(graph)
    data = model.SerializeToString(deterministic=True)
    write_aside(path, data)
    return describe(model, path, digest=digests.of_bytes(data), size_bytes=len(data))


def _write_with_data(graph: ir.Model, path: Path) -> Model:
    copy = copy_of(graph)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.data.")
    aside = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            places, digest = _write_weights(copy, stream)
        if not places:
            aside.unlink()
            return _write_whole(graph, path)
        data = path.with_name(f"{path.stem}.{digest[:12]}.data")
        for value, (offset, length) in places.items():
            value.const_value = _reference(value, data.name, offset, length)
        model = leave_out_shapes(ir.to_proto(copy))
        content = model.SerializeToString(deterministic=True)
        aside.chmod(0o644)
        aside.replace(data)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    write_aside(path, content)
    parts = [digests.of_bytes(content), "sha256:" + digest]
    return describe(
        model,
        path,
        digest=digests.of_text("\n".join(parts)),
        size_bytes=len(content) + data.stat().st_size,
    )


def _write_weights(
    graph: ir.Model, stream: BinaryIO
) -> tuple[dict[ir.Value, tuple[int, int]], str]:
    """Write the large weights one after another; returns where each lies, and the digest."""
    digest = hashlib.sha256()
    places: dict[ir.Value, tuple[int, int]] = {}
    offset = 0
    for part in _graphs(graph):
        for value in part.initializers.values():
            tensor = value.const_value
            if tensor is None or tensor.nbytes < _EXTERNAL_TENSOR_BYTES:
                continue
            data = tensor.tobytes()
            stream.write(data)
            digest.update(data)
            places[value] = (offset, len(data))
            offset += len(data)
    return places, digest.hexdigest()


def _reference(value: ir.Value, location: str, offset: int, length: int) -> ir.ExternalTensor:
    tensor = value.const_value
    if tensor is None or value.name is None:
        raise ValueError(f"{value.name!r} is no named constant")
    return ir.ExternalTensor(
        location,
        offset,
        length,
        tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        name=value.name,
    )


def _graphs(graph: ir.Model) -> Iterator[ir.Graph]:
    yield graph.graph
    yield from graph.graph.subgraphs()


def _self_contained(graph: ir.Model) -> ir.Model:
    """The graph itself, or a copy with its external tensors in memory where it has any."""
    if not any(_external_places(graph)):
        return graph
    copy = copy_of(graph)
    for place in list(_external_places(copy)):
        if isinstance(place, ir.Value):
            place.const_value = _loaded(place.const_value)
        else:
            node, name = place
            node.attributes[name] = ir.AttrTensor(name, _loaded(node.attributes[name].value))
    return copy


def _external_places(graph: ir.Model) -> Iterator[ir.Value | tuple[ir.Node, str]]:
    """Initializers, and attributes of nodes, whose tensor lies in another file."""
    for part in _graphs(graph):
        for value in part.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                yield value
        for node in part:
            for name, attribute in node.attributes.items():
                if isinstance(attribute.value, ir.ExternalTensor):
                    yield node, name


def _loaded(tensor: Any) -> ir.TensorProtocol:
    return external_data.convert_tensors_from_external([tensor])[0]


@contextmanager
def _storage_errors(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        reasons = {
            errno.ENOSPC: ("the disk is full", "free some space, or write elsewhere"),
            errno.EDQUOT: ("the disk quota is used up", "free some space, or write elsewhere"),
            errno.EROFS: ("the file system is read-only", "choose another folder"),
            errno.EACCES: ("the folder may not be written", "choose another folder"),
            errno.EPERM: ("the folder may not be written", "choose another folder"),
        }
        reason, hint = reasons.get(
            error.errno or 0, (error.strerror or str(error), "choose another folder")
        )
        raise StorageError(
            f"the model cannot be written: {reason}", where=str(path), hint=hint
        ) from error
