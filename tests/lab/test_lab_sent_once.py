"""What crosses the wire: a model is sent once, and weights that candidates share are too."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeopt.measure.feeds import write_feeds
from edgeopt.testing.target_exam import SETTINGS
from tests.lab.board import Board, Reach

pytestmark = pytest.mark.lab

MEGABYTE = 1 << 20


def layers(folder: Path, name: str, seeds: list[int], side: int) -> Path:
    """A chain of square matrix products, each with the weights of its seed."""
    weights, nodes, value = [], [], "x"
    for place, seed in enumerate(seeds):
        matrix = np.random.default_rng(seed).standard_normal((side, side), np.float32)
        weights.append(numpy_helper.from_array(matrix / side, f"w{place}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{place}"], [f"v{place}"]))
        value = f"v{place}"
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, side])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, [1, side])],
        weights,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, str(folder / name))
    return folder / name


def sent_once(reach: Reach, board: Board, folder: Path, side: int) -> None:
    """Assert what is sent of a model, of the same again, and of one that shares four fifths."""
    first = layers(folder, "first.onnx", [1, 2, 3, 4, 5], side)
    second = layers(folder, "second.onnx", [1, 2, 3, 4, 6], side)
    size, layer = first.stat().st_size, side * side * 4
    feeds = folder / "feeds.npz"
    write_feeds([{"x": np.ones((1, side), np.float32)}], feeds)
    target = reach(board.entry)
    samples = target.put(feeds)

    def sent(path: Path) -> tuple[str, int]:
        before = board.wire.sent
        place = target.put(path)
        return place, board.wire.sent - before

    place, once = sent(first)
    assert 0.9 * size < once < 1.1 * size + MEGABYTE / 4
    again, nothing = sent(first)
    assert again == place
    assert nothing < MEGABYTE / 8
    other, changed = sent(second)
    assert other != place
    assert 0.9 * layer < changed < 1.1 * layer + MEGABYTE / 4, "one layer of five is new"
    for model in (place, other):
        reply = target.request(
            "footprint", deadline_s=300, model=model, feeds=samples, settings=dict(SETTINGS)
        )
        assert reply["ok"], reply
    target.close()
    anew = reach(board.entry)
    before = board.wire.sent
    assert anew.put(first) == place
    assert board.wire.sent - before < MEGABYTE / 8, "another session finds it there"
    anew.close()
    assert board.quiet()


def test_shared_weights(reach: Reach, board: Board, tmp_path: Path) -> None:
    """5 MB, then a candidate with one new layer: only that layer is sent."""
    sent_once(reach, board, tmp_path, 512)


@pytest.mark.slow
def test_hundred_megabytes(reach: Reach, board: Board, tmp_path: Path) -> None:
    """100 MB, then a candidate with one new layer: only 20 MB are sent."""
    sent_once(reach, board, tmp_path, 2290)


def test_damaged_on_the_way(reach: Reach, board: Board, tmp_path: Path) -> None:
    """A blob that was damaged on the board's disk is noticed there, or brought again."""
    model = layers(tmp_path, "model.onnx", [1], 128)
    feeds = tmp_path / "feeds.npz"
    write_feeds([{"x": np.ones((1, 128), np.float32)}], feeds)
    target = reach(board.entry)
    place, samples = target.put(model), target.put(feeds)
    arguments = {"feeds": samples, "settings": dict(SETTINGS)}
    assert target.request("footprint", deadline_s=240, model=place, **arguments)["ok"]
    target.close()
    for path in board.cache.rglob("*"):
        if path.is_file() and "agent" not in path.name and path.stat().st_size > 10_000:
            path.chmod(0o644)
            path.write_bytes(path.read_bytes()[:-1000])
    target = reach(board.entry)
    place = target.put(model)
    reply = target.request("footprint", deadline_s=240, model=place, **arguments)
    assert reply["ok"], reply
    target.close()
