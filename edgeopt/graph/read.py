"""Open a model file: as a value (`read_model`), or as a graph to work on (`open_graph`)."""

from collections.abc import Iterable
from pathlib import Path

import onnx
import onnx_ir as ir
from onnx import helper
from onnx_ir import external_data

from edgeopt.core import digest as digests
from edgeopt.core.model import Dimension, Model, TensorSpec
from edgeopt.graph import files
from edgeopt.graph.wellformed import check_wellformed


def read_model(path: Path, *, custom_ops: bool = False) -> Model:
    """What a model file is, without keeping its graph.

    Args:
        path: The `.onnx` file.
        custom_ops: Accept operators of unknown domains.

    Raises:
        ModelError: The file cannot be used; the message says why and what to do.
    """
    model = _load(path, custom_ops=custom_ops)
    data = files.external_files(model, path.parent)
    parts = [digests.of_file(file) for file in (path, *data)]
    return describe(
        model,
        path,
        digest=parts[0] if len(parts) == 1 else digests.of_text("\n".join(parts)),
        size_bytes=sum(file.stat().st_size for file in (path, *data)),
    )


def open_graph(model: Model | Path, *, custom_ops: bool = False) -> ir.Model:
    """The graph of a model file: a new one every call, topologically sorted.

    External tensors stay in their files and can be read whatever the working directory is.

    Raises:
        ModelError: As `read_model`.
    """
    path = model.path if isinstance(model, Model) else model
    graph = ir.from_proto(_load(path, custom_ops=custom_ops))
    external_data.set_base_dir(  # pyright: ignore[reportUnknownMemberType]
        graph.graph, path.parent.resolve()
    )
    sort(graph)
    return graph


def sort(graph: ir.Model) -> None:
    """Bring all nodes, also those of functions and subgraphs, into an order of execution."""
    graph.graph.sort()
    for function in graph.functions.values():
        function.sort()


def describe(model: onnx.ModelProto, path: Path, *, digest: str, size_bytes: int) -> Model:
    """The value of a model that lies at `path`."""
    held = {tensor.name for tensor in model.graph.initializer}
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    return Model(
        path=path,
        digest=digest,
        opset=opsets.get("", opsets.get("ai.onnx", 0)),
        inputs=_specs(info for info in model.graph.input if info.name not in held),
        outputs=_specs(model.graph.output),
        size_bytes=size_bytes,
    )


def _load(path: Path, *, custom_ops: bool) -> onnx.ModelProto:
    model = files.load(path)
    check_wellformed(model, where=str(path), custom_ops=custom_ops)
    return model


def _specs(infos: Iterable[onnx.ValueInfoProto]) -> tuple[TensorSpec, ...]:
    return tuple(_spec(info) for info in infos)


def _spec(info: onnx.ValueInfoProto) -> TensorSpec:
    if not info.type.HasField("tensor_type"):
        kind = str(info.type.WhichOneof("value") or "unknown").removesuffix("_type")
        return TensorSpec(name=info.name, dtype=kind, shape=None)
    tensor = info.type.tensor_type
    return TensorSpec(
        name=info.name,
        dtype=_dtype(tensor.elem_type),
        shape=tuple(map(_dimension, tensor.shape.dim)) if tensor.HasField("shape") else None,
    )


def _dtype(code: int) -> str:
    if code == onnx.TensorProto.UNDEFINED:
        return "unknown"
    return helper.tensor_dtype_to_np_dtype(code).name


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> Dimension:
    # Exporters write -1, where they mean a free dimension.
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None
