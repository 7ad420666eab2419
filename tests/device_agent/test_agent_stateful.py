"""What the agent does with outputs, state, external data and mixed shapes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeopt.measure.feeds import write_feeds
from edgeopt.targets.local import LocalTarget
from edgeopt.testing import graphs
from edgeopt.testing.target_exam import SETTINGS


@pytest.fixture(scope="module")
def target() -> Iterator[LocalTarget]:
    with LocalTarget() as made:
        yield made


def accumulator(folder: Path) -> Path:
    """total = x + state: the simplest model with a state."""
    names = ("x", "state", "total")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in names]
    node = helper.make_node("Add", ["x", "state"], ["total"])
    graph = helper.make_graph([node], "g", infos[:2], infos[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return graphs.write(model, folder)


def test_state_is_carried_within_a_group(target: LocalTarget, tmp_path: Path) -> None:
    """An output feeds the next sample of its group; a new group starts from its own feed."""
    one = np.ones(1, np.float32)
    write_feeds([{"x": one, "state": 0 * one} for _ in range(4)], tmp_path / "feeds.npz")
    reply = target.request(
        "infer",
        deadline_s=60,
        model=target.put(accumulator(tmp_path)),
        feeds=str(tmp_path / "feeds.npz"),
        settings=dict(SETTINGS),
        state={"total": "state"},
        groups=[0, 0, 0, 1],
    )
    with np.load(reply["outputs"]) as stored:
        assert [float(stored[f"{n}/total"][0]) for n in range(4)] == [1, 2, 3, 1]


def test_external_data_counts_as_size(target: LocalTarget, tmp_path: Path) -> None:
    """The size of a model is the file and the data files that it names."""
    model = graphs.gemm_chain()
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    path = tmp_path / "model.onnx"
    onnx.save_model(
        model, str(path), save_as_external_data=True, location="w.bin", size_threshold=0
    )
    (tmp_path / "unrelated.bin").write_bytes(b"x" * 1000)
    write_feeds(graphs.random_feeds(graphs.gemm_chain()), tmp_path / "feeds.npz")
    reply = target.request(
        "footprint",
        deadline_s=60,
        model=target.put(path),
        feeds=str(tmp_path / "feeds.npz"),
        settings=dict(SETTINGS),
    )
    expected = path.stat().st_size + (tmp_path / "w.bin").stat().st_size
    assert reply["size_bytes"] == expected


def test_profile_names_nodes_and_types(target: LocalTarget, tmp_path: Path) -> None:
    """Every executed node with its operator, domain, provider and element types, in order."""
    model = graphs.conv_chain()
    write_feeds(graphs.random_feeds(model), tmp_path / "feeds.npz")
    reply: Any = target.request(
        "profile",
        deadline_s=60,
        model=target.put(graphs.write(model, tmp_path)),
        feeds=str(tmp_path / "feeds.npz"),
        settings=dict(SETTINGS, optimization="off"),
        runs=3,
    )
    operators = [node["op"] for node in reply["nodes"]]
    assert operators == [node.op_type for node in model.graph.node]
    assert {node["provider"] for node in reply["nodes"]} == {"CPUExecutionProvider"}
    assert reply["nodes"][0]["inputs"][0] == "float"
    assert all(node["domain"] == "" and node["time_s"] >= 0 for node in reply["nodes"])


def test_peak_memory_follows_the_weights(target: LocalTarget, tmp_path: Path) -> None:
    """A model with 40 MB more weights has a peak at least 30 MB higher."""
    peaks = []
    for name, width in (("small", 8), ("large", 3200)):
        model = graphs.gemm_chain((width, width, 4))
        write_feeds(graphs.random_feeds(model), tmp_path / "feeds.npz")
        reply = target.request(
            "footprint",
            deadline_s=60,
            model=target.put(graphs.write(model, tmp_path, f"{name}.onnx")),
            feeds=str(tmp_path / "feeds.npz"),
            settings=dict(SETTINGS),
        )
        peaks.append(reply["peak_memory_bytes"])
    assert peaks[1] - peaks[0] > 30e6
