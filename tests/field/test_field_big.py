"""Models beyond 2 GB, the limit of protobuf: rows 13 and 14 of the public issues."""

import gc
import resource
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.errors import ModelError
from edgeopt.graph.check import check
from edgeopt.graph.cost import static_cost
from edgeopt.graph.light import light_proto
from edgeopt.graph.read import open_graph, read_model
from edgeopt.graph.runtime import Session, observe, session_of
from edgeopt.graph.write import EXTERNAL_ABOVE_BYTES, to_bytes, weight_bytes, write_model
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.transforms.quantize.static_qdq import PLUGIN as STATIC
from edgeopt.transforms.replay import Workshop
from tests.field.as_user import (
    LEVELS,
    built,
    integers,
    ratio_db,
    space_of,
    usual_offer,
)

SIZE = 14_000
NEEDED_BYTES = 14_000_000_000


def _products(*, constants: bool) -> onnx.ModelProto:
    """Three products with their matrices as initializers, or as Constant nodes."""
    b = Builder()
    value = "x"
    for index in range(3):
        made = "y" if index == 2 else f"product{index}"
        value = b.node("MatMul", [value, b.weight(f"w{index}", 64, 64)], made)
    if constants:
        nodes = [
            helper.make_node("Constant", [], [tensor.name], value=tensor)
            for tensor in b.initializers
        ]
        b.nodes, b.initializers = [*nodes, *b.nodes], []
    return b.model([("x", "float32", ("N", 64))], [("y", "float32", ("N", 64))])


@pytest.mark.parametrize("constants", [False, True], ids=["initializers", "Constant nodes"])
def test_weights_beyond_the_limit_lie_outside(constants: bool, tmp_path: Path) -> None:
    """ORT 7017, 17944: beyond the limit weights go into a file beside the model, integers too."""
    model = _products(constants=constants)
    feeds = graphs.random_feeds(model, 4, seed=3)
    space = space_of(model, tmp_path)
    expected = [Session(model.SerializeToString()).run(feed)["y"] for feed in feeds]
    for recipe in (space.empty(), integers(space)):
        graph = built(space, recipe)
        path = tmp_path / "out" / f"{len(recipe.actions)}.onnx"
        written = write_model(graph, path, limit_bytes=4096)
        assert written == read_model(path)
        assert (path.stat().st_size < 8192) == (not constants or bool(recipe.actions))
        for level in LEVELS:
            session = Session(path, RuntimeSettings(optimization=level))
            assert ratio_db(expected, [session.run(feed)["y"] for feed in feeds]) > 25


def test_calibration_beyond_the_limit() -> None:
    """ORT 11072: values are observed without a message that holds the weights."""
    graph = graphs.as_graph(_products(constants=False))
    feeds = graphs.random_feeds(_products(constants=False), 3)
    names = ["product0", "w1", "y"]
    for level in LEVELS:
        settings = RuntimeSettings(optimization=level)
        whole = observe(graph, names, feeds, settings=settings)
        apart = observe(graph, names, feeds, settings=settings, limit_bytes=4096)
        for one, other in zip(whole, apart, strict=True):
            assert all(np.array_equal(one[name], other[name]) for name in names)
        made, light = (session_of(graph, settings, limit_bytes=limit) for limit in (10**9, 4096))
        assert np.array_equal(made.run(feeds[0])["y"], light.run(feeds[0])["y"])


def test_weights_stay_out_of_the_message() -> None:
    """ORT 7017: what is named only and what is left make up the whole; small constants stay."""
    graph = graphs.as_graph(_products(constants=False))
    whole, nothing = light_proto(graph)
    light, weights = light_proto(graph, 4096)
    assert not nothing
    assert set(weights) == {"w0", "w1", "w2"}
    assert light.ByteSize() + sum(array.nbytes for array in weights.values()) >= whole.ByteSize()
    assert light.ByteSize() < 2048


@pytest.mark.slow
def test_two_gigabytes(tmp_path: Path) -> None:
    """ORT 7017: a model of 2.4 GB is read, calibrated, quantized, written and run."""
    free = shutil.disk_usage(tmp_path).free
    available = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable")
    )
    if min(free, available) < NEEDED_BYTES:
        pytest.skip(f"needs {NEEDED_BYTES / 1e9:.0f} GB of free memory and disk")
    path = _write_big(tmp_path)
    model = read_model(path)
    assert model.size_bytes > EXTERNAL_ABOVE_BYTES
    feeds: list[Feed] = [
        {"x": np.random.default_rng(index).normal(size=(1, SIZE)).astype(np.float32)}
        for index in range(3)
    ]
    floats = open_graph(model)
    workshop = Workshop(
        model,
        evidence=evidence_of(onnx.ModelProto(), ArtifactStore(tmp_path), feeds),
        opset_ceiling=21,
        feed=feeds[0],
        data_digest="sha256:data",
    )
    listed = STATIC.sites(workshop.normalized, usual_offer())
    actions = {action.site: action for action in reversed(listed)}.values()
    assert len(actions) == 3
    made = workshop.build(workshop.recipe(actions)).graph
    check(made)
    assert weight_bytes(made) < weight_bytes(floats) / 3
    assert static_cost(floats)["size_bytes"] > EXTERNAL_ABOVE_BYTES
    with pytest.raises(ModelError, match="2 GiB"):
        to_bytes(floats)
    out = tmp_path / "out.onnx"
    write_model(made, out)
    expected = Session(path).run(feeds[2])["y"]
    gc.collect()
    assert ratio_db([expected], [Session(out).run(feeds[2])["y"]]) > 25
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < NEEDED_BYTES


def _write_big(folder: Path) -> Path:
    nodes, weights, value = [], [], "x"
    for index in range(3):
        generator = np.random.default_rng(index)
        rows = generator.standard_normal((SIZE, SIZE), dtype=np.float32)
        (rows / np.float32(np.sqrt(SIZE))).tofile(folder / f"w{index}.bin")
        tensor = TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT, dims=[SIZE, SIZE])
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=f"w{index}.bin")
        weights.append(tensor)
        made = "y" if index == 2 else f"product{index}"
        nodes.append(helper.make_node("MatMul", [value, f"w{index}"], [made], made))
        value = made
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", SIZE]) for name in ("x", "y")
    ]
    graph = helper.make_graph(nodes, "big", infos[:1], infos[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    path = folder / "big.onnx"
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path.write_bytes(made.SerializeToString())
    return path
