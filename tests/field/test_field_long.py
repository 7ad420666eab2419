"""Long models, and models of Ifs in Ifs: they come out as deployable as they went in."""

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes, write_model
from edgeopt.testing.graphs import Builder, write
from edgeopt.testing.transform_exam import NoEvidence, offer
from edgeopt.transforms.base import EXACT
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace
from tests.field.as_user import LEVELS

PLANES = ("N", 3, 4, 4)


def long_net(blocks: int, *, depth: int = 0, width: int = 0) -> onnx.ModelProto:
    """Blocks of four nodes, then an If whose branches hold `width` such blocks and, to a depth,
    an If again."""
    b = Builder()
    value = _blocks(b, "x", "chain", blocks)
    if width:
        sides = {f"{k}_branch": _body(value, k, depth, width) for k in ("then", "else")}
        value = b.node("If", ["q"], "chosen", **sides)
    b.node("Tanh", [value], "y")
    model = b.model(
        [("x", "float32", PLANES), *([("q", "bool", ())] if width else [])],
        [("y", "float32", PLANES)],
    )
    helper.set_model_props(model, {"labels": "a,b"})
    return model


def _blocks(b: Builder, source: str, prefix: str, count: int) -> str:
    for index in range(count):
        name = f"{prefix}.{index}"
        b.batchnorm(b.conv(source, f"{name}.c", (3, 3), kernel=1), f"{name}.n", 3)
        source = b.node("Add", [b.node("Tanh", [f"{name}.n"], f"{name}.t"), source], f"{name}.a")
    return source


def _body(source: str, prefix: str, depth: int, width: int) -> onnx.GraphProto:
    b = Builder(len(prefix))
    end = _blocks(b, source, prefix, width)
    if depth:
        sides = {
            f"{k}_branch": _body(end, f"{prefix}.{k}", depth - 1, width) for k in ("then", "else")
        }
        end = b.node("Add", [end, b.node("If", ["q"], f"{prefix}.if", **sides)], f"{prefix}.end")
    info = helper.make_tensor_value_info(end, onnx.TensorProto.FLOAT, PLANES)
    return helper.make_graph(b.nodes, prefix, [], [info], b.initializers)


def test_nested_branches_keep_the_contract(tmp_path: Path) -> None:
    """Every exact rule at every depth: proven, written, and the same to who loads it."""
    model = long_net(20, depth=1, width=3)
    values = np.random.default_rng(3).normal(size=(2, 3, 4, 4)).astype(np.float32)
    feeds: list[Feed] = [{"x": values, "q": np.asarray(flag)} for flag in (True, False)]
    workshop = Workshop(
        read_model(write(model, tmp_path)), evidence=NoEvidence(), opset_ceiling=21, feed=feeds[0]
    )
    space = GraphSpace(workshop, offer(data=False))
    built = workshop.build(space.decode([int(one.family in EXACT) for one in space.choices]))
    workshop.verify(built)
    folded = [one for one in built.recipe.actions if one.transform == "fold_batchnorm"]
    # 20 in the chain, and three in each of two branches and their four.
    assert len(folded) == 20 + 3 * 6
    assert "BatchNormalization" not in {node.op_type for node in built.graph.graph.all_nodes()}
    path = tmp_path / "out" / "made.onnx"
    written = write_model(built.graph, path)
    assert (written.inputs, written.outputs) == (workshop.model.inputs, workshop.model.outputs)
    proto = onnx.ModelProto.FromString(path.read_bytes())
    assert proto.metadata_props == model.metadata_props
    given = [Session(model.SerializeToString()).run(feed)["y"] for feed in feeds]
    for level in LEVELS:
        session = Session(path, RuntimeSettings(optimization=level))
        for feed, expected in zip(feeds, given, strict=True):
            np.testing.assert_allclose(session.run(feed)["y"], expected, rtol=1e-4, atol=1e-4)
    assert to_bytes(workshop.build(built.recipe).graph) == to_bytes(built.graph)
