"""What the agent sends back of outputs: reduced there, and no more files than needed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgeopt.measure.feeds import write_feeds
from edgeopt.targets.local import LocalTarget
from edgeopt.testing import graphs
from edgeopt.testing.target_exam import SETTINGS

ROWS = np.array([[1.0, 3.0, 2.0], [5.0, -1.0, np.nan]], np.float32)


@pytest.fixture(scope="module")
def target() -> Iterator[LocalTarget]:
    with LocalTarget() as made:
        yield made


def _identity(folder: Path) -> Path:
    """Two outputs: the input, and its negative."""
    make = helper.make_tensor_value_info
    infos = [make(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y", "z")]
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return graphs.write(model, folder)


def _infer(target: LocalTarget, folder: Path, reduce: dict[str, str]) -> Any:
    write_feeds([{"x": ROWS}, {"x": -ROWS}], folder / "feeds.npz")
    return target.request(
        "infer",
        deadline_s=60,
        model=target.put(_identity(folder)),
        feeds=target.put(folder / "feeds.npz"),
        settings=dict(SETTINGS),
        reduce=reduce,
    )


@pytest.mark.parametrize(
    ("what", "sent"),
    [
        ("argmax:1", np.array([1, -1], np.int16)),
        ("argmax:-2", np.array([1, 0, -1], np.int16)),
        ("above:2.5", np.array([[0, 1, 0], [1, 0, -1]], np.int8)),
        ("float16", ROWS.astype(np.float16)),
        ("full", ROWS),
    ],
)
def test_an_output_is_reduced_on_the_device(
    target: LocalTarget, tmp_path: Path, what: str, sent: Any
) -> None:
    """In the fewest bytes; the other output is not sent, and full shapes are told."""
    reply = _infer(target, tmp_path, {"y": what, "z": "drop"})
    assert reply["ok"], reply
    with np.load(reply["outputs"]) as stored:
        assert set(stored.files) == {"0/y", "1/y"}
        assert stored["0/y"].dtype == sent.dtype
        assert np.array_equal(stored["0/y"], sent, equal_nan=sent.dtype.kind == "f")
    decided = what.startswith(("argmax", "above"))
    assert reply["shapes"] == ({"y": [[2, 3], [2, 3]]} if decided else {})


@pytest.mark.parametrize(
    ("reduce", "said"),
    [
        ({"y": "median"}, "cannot reduce"),
        ({"y": "argmax:2"}, "no such axis"),
        ({"y": "argmax:x"}, "argmax:x"),
        ({"q": "full"}, "no output q"),
    ],
)
def test_what_it_cannot_do_is_refused(
    target: LocalTarget, tmp_path: Path, reduce: dict[str, str], said: str
) -> None:
    """A request that makes no sense is no failure of the model."""
    reply = _infer(target, tmp_path, reduce)
    assert (reply["ok"], reply["error"]["code"]) == (False, "bad_request")
    assert said in reply["error"]["text"]


def test_old_outputs_do_not_pile_up(target: LocalTarget, tmp_path: Path) -> None:
    """The file of the last reply stays, and the one before it."""
    places = [Path(_infer(target, tmp_path, {})["outputs"]) for _ in range(4)]
    assert [place.exists() for place in places] == [False, False, True, True]
