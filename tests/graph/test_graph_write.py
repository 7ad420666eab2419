"""Writing models: complete or not at all, and never touching the graph."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeopt.errors import StorageError
from edgeopt.graph.light import file_bytes, light_proto
from edgeopt.graph.read import open_graph, read_model
from edgeopt.graph.runtime import Session, optimized
from edgeopt.graph.shapes import infer_shapes
from edgeopt.graph.write import stored_proto, to_bytes, to_proto, write_model
from edgeopt.testing import graphs

ALL = (
    graphs.conv_chain,
    graphs.mobilenet_block,
    graphs.if_model,
    graphs.segmentation_argmax,
    graphs.lstm,
)


@pytest.mark.parametrize("build", ALL)
@pytest.mark.parametrize("external", [False, True])
def test_what_is_written_is_read_back(build, external: bool, tmp_path: Path) -> None:
    """The written value equals the read one, the graph is unchanged, the outputs are equal."""
    graph = graphs.as_graph(build())
    before = to_bytes(graph)
    written = write_model(graph, tmp_path / "deep" / "m.onnx", external=external)
    assert to_bytes(graph) == before
    assert read_model(written.path) == written
    assert to_bytes(open_graph(written)) == before
    feed = graphs.random_feeds(build())[0]
    expected = Session(before).run(feed)
    found = Session(written.path).run(feed)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_external_data_stays_valid_when_the_folder_moves(tmp_path: Path) -> None:
    """Locations are relative: model and data may be moved together."""
    written = write_model(
        graphs.as_graph(graphs.conv_chain()), tmp_path / "a/m.onnx", external=True
    )
    (tmp_path / "a").rename(tmp_path / "b")
    assert read_model(tmp_path / "b" / "m.onnx").digest == written.digest


def test_a_graph_with_external_data_becomes_self_contained(tmp_path: Path) -> None:
    """Writing without external data reads the weights in, wherever they lie."""
    first = write_model(graphs.as_graph(graphs.conv_chain()), tmp_path / "a/m.onnx", external=True)
    second = write_model(open_graph(first), tmp_path / "b/m.onnx")
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["m.onnx"]
    assert second.path.read_bytes() == to_bytes(graphs.as_graph(graphs.conv_chain()))


def test_large_weights_go_outside_by_themselves(tmp_path: Path) -> None:
    """Above the limit the data file appears without being asked for."""
    write_model(graphs.as_graph(graphs.conv_chain()), tmp_path / "m.onnx", limit_bytes=100)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".data", ".onnx"]


def test_writing_over_a_file_replaces_it(tmp_path: Path) -> None:
    """The second model wins, and no temporary file is left."""
    write_model(graphs.as_graph(graphs.conv_chain()), tmp_path / "m.onnx")
    second = write_model(graphs.as_graph(graphs.residual()), tmp_path / "m.onnx")
    assert read_model(tmp_path / "m.onnx") == second
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("external", [False, True])
def test_a_folder_that_cannot_be_written_is_a_sentence(external: bool, tmp_path: Path) -> None:
    """A file where the folder should be: exit code 3, nothing half written."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError) as caught:
        write_model(
            graphs.as_graph(graphs.conv_chain()), tmp_path / "file" / "m.onnx", external=external
        )
    assert caught.value.exit_code == 3
    assert caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system of the kernel")
def test_a_place_that_takes_no_files_is_a_sentence() -> None:
    """A folder of the kernel takes no files, not even from root: exit code 3."""
    with pytest.raises(StorageError) as caught:
        write_model(graphs.as_graph(graphs.conv_chain()), Path("/proc/self/m.onnx"))
    assert caught.value.exit_code == 3


@pytest.mark.skipif(os.name != "posix", reason="file size limits are POSIX")
def test_a_write_that_stops_half_way_leaves_the_old_model(tmp_path: Path) -> None:
    """A limit on file sizes stops the write in its middle: the old file is intact, alone."""
    import resource
    import signal

    old = write_model(graphs.as_graph(graphs.gemm_chain()), tmp_path / "m.onnx")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, limits[1]))
    try:
        for external in (False, True):
            with pytest.raises(StorageError):
                write_model(
                    graphs.as_graph(graphs.conv_chain()), tmp_path / "m.onnx", external=external
                )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert read_model(tmp_path / "m.onnx") == old
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_equal_graphs_give_equal_bytes() -> None:
    """Serialisation is deterministic."""
    graph = graphs.as_graph(graphs.residual())
    assert to_bytes(graph) == to_bytes(graph) == to_bytes(graphs.as_graph(graphs.residual()))


_NESTED = """<ir_version: 8, opset_import: ["" : 17, "other" : 1]>
g (float[B, 4] x, bool c) => (float[B, 4] y) {
    a = Relu (x)
    b = other.Anything (a)
    d = If (c) <
        then_branch = t () => (t_y) { t_a = Neg (b)  t_b = other.Thing (t_a)  t_y = Abs (t_b) },
        else_branch = e () => (e_y) { e_a = Exp (b)  e_y = Abs (e_a) }
    >
    y = Sigmoid (d)
}"""


def _recorded(model: onnx.ModelProto) -> set[str]:
    inner = [a.g for node in model.graph.node for a in node.attribute if a.HasField("g")]
    return {info.name for graph in (model.graph, *inner) for info in graph.value_info}


def test_only_what_no_runtime_can_infer_is_recorded(tmp_path: Path) -> None:
    """Outputs of operators outside the standard keep their shapes, in bodies too; every way to
    store the graph agrees, and the graph itself keeps all."""
    proto = onnx.parser.parse_model(_NESTED)
    for name in ("a", "b", "d"):
        proto.graph.value_info.append(
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["B", 4])
        )
    then = next(a.g for a in proto.graph.node[2].attribute if a.name == "then_branch")
    for name in ("t_a", "t_b"):
        then.value_info.append(
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["B", 4])
        )
    graph = graphs.as_graph(proto)
    assert _recorded(to_proto(graph)) >= {"a", "b", "d", "t_a", "t_b"}
    assert _recorded(stored_proto(graph)) == {"b", "t_b"}
    assert _recorded(light_proto(graph, 0)[0]) == {"b", "t_b"}
    for external in (False, True):
        path = write_model(graph, tmp_path / f"{external}.onnx", external=external).path
        assert _recorded(onnx.load(path)) == {"b", "t_b"}
    assert file_bytes(graph) == len(to_bytes(graph)) == (tmp_path / "False.onnx").stat().st_size
    assert _recorded(to_proto(graph)) >= {"a", "b", "d", "t_a", "t_b"}


_RESIDUAL = """<ir_version: 8, opset_import: ["" : 17]>
g (int64[N, S] i, float[N, S, 1] m) => (float[N, S, 16] y)
<float[10, 16] table, float[16, 16] w, float[16] scale, float[16] bias> {
    e = Gather (table, i)
    r = MatMul (e, w)
    k = Mul (r, m)
    s = Add (k, e)
    y = LayerNormalization <axis = -1> (s, scale, bias)
}"""


def test_what_is_written_is_lowered_as_without_recorded_shapes() -> None:
    """With recorded free sizes the runtime fuses what it would not fuse, and that is slower."""
    proto = onnx.parser.parse_model(_RESIDUAL)
    rng = np.random.default_rng(0)
    sizes = {"table": (10, 16), "w": (16, 16), "scale": (16,), "bias": (16,)}
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(rng.normal(size=size).astype(np.float32), name)
        for name, size in sizes.items()
    )
    del proto.graph.value_info[:]
    graph = graphs.as_graph(proto)
    infer_shapes(graph)

    def lowered(model: onnx.ModelProto) -> list[str]:
        return sorted(node.op_type for node in optimized(model, "all").graph.node)

    assert lowered(stored_proto(graph)) == lowered(proto)
    assert "SkipLayerNormalization" in lowered(to_proto(graph))
