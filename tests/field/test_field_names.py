"""Names that hit nothing or the wrong thing: rows 22, 23 and 42 of the public issues."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from edgeopt.core.action import Action
from edgeopt.errors import UsageError
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.transforms.replay import ActionRejected
from tests.field.as_user import (
    alone,
    built,
    integers,
    offered,
    placement,
    signal_db,
    space_of,
)


def _two_gemms() -> onnx.ModelProto:
    b = Builder()
    b.node("Gemm", ["x", b.weight("w0", 16, 16), b.weight("b0", 16)], "/Gemm")
    b.node("Relu", ["/Gemm"], "relu")
    b.node("Gemm", ["relu", b.weight("w1", 16, 16), b.weight("b1", 16)], "y")
    return b.model([("x", "float32", ("N", 16))], [("y", "float32", ("N", 16))])


@pytest.mark.parametrize("left_out", ["/Gemm", "y"])
def test_a_gemm_is_found_under_its_name(left_out: str, tmp_path: Path) -> None:
    """ORT 19503: the excluded Gemm stays float and the other one runs in integers."""
    model = _two_gemms()
    feeds = graphs.random_feeds(model, 16, seed=1, free=16)
    space = space_of(model, tmp_path, feeds=feeds)
    graph = built(space, integers(space, without=left_out))
    found = placement(graph, feeds[0])
    assert signal_db(model, graph, feeds) > 25
    assert (found.asked, found.ran) == (1, 1)
    assert len(found.stayed) == 1
    assert f"Gemm {left_out!r} stayed float" in found.stayed[0]


def test_a_site_that_is_not_there(tmp_path: Path) -> None:
    """ORT PR 18161: an action at a mistyped name is refused with the name, never ignored."""
    space = space_of(_two_gemms(), tmp_path)
    right = offered(space, "static_qdq")[0]
    wrong = Action.of(right.transform, "/Gem", version=right.version, **dict(right.parameters))
    with pytest.raises(ActionRejected, match="does not apply: no weighted node") as caught:
        alone(space, wrong)
    assert '"/Gem"' in str(caught.value)
    with pytest.raises(UsageError, match="static_qdqq"):
        alone(space, Action.of("static_qdqq", "/Gemm"))


def test_mistyped_families_on_the_command_line(edgeopt, tmp_path: Path) -> None:
    """ORT PR 18161: `--actions quantise` is an error with the names that there are."""
    path = graphs.write(_two_gemms(), tmp_path)
    done = edgeopt("run", path, "--actions", "quantise", "--dry-run")
    assert done.code == 2
    assert "quantise" in done.err
    assert "quantize" in done.err.replace("quantise", "")
    assert "Traceback" not in done.err


def test_unnamed_quantizers_in_a_function(tmp_path: Path) -> None:
    """ORT 28716: quantizers without names in a local function, uint8 beside int8, stay apart."""
    codes = [
        helper.make_node(operator, [source, scale, zero], [made])
        for kind in ("u", "s")
        for operator, source, scale, zero, made in (
            ("QuantizeLinear", "given", "scale", f"zero_{kind}", f"{kind}_codes"),
            ("DequantizeLinear", f"{kind}_turned", "scale", f"zero_{kind}", f"{kind}_back"),
        )
    ]
    turned = [
        helper.make_node("Transpose", [f"{kind}_codes"], [f"{kind}_turned"], perm=[1, 0])
        for kind in ("u", "s")
    ]
    both = helper.make_node("Add", ["u_back", "s_back"], ["made"])
    body = helper.make_function(
        "local",
        "Coded",
        ["given", "scale", "zero_u", "zero_s"],
        ["made"],
        [codes[0], codes[2], *turned, codes[1], codes[3], both],
        [helper.make_opsetid("", 17)],
    )
    b = Builder()
    b.constant("scale", np.float32(0.02))
    b.constant("zu", np.uint8(128))
    b.constant("zs", np.int8(0))
    for number, source in enumerate(("x", "coded0")):
        names = [source, "scale", "zu", "zs"]
        b.nodes.append(helper.make_node("Coded", names, [f"coded{number}"], domain="local"))
    b.node("Relu", ["coded1"], "y")
    io = [("x", "float32", (4, 4))], [("y", "float32", (4, 4))]
    model = b.model(*io, domains=[("local", 1)])
    model.functions.append(body)
    space = space_of(model, tmp_path)
    graph = built(space, space.workshop.recipe([Action.of("normalize", "*")]))
    assert not graph.functions
    names = [node.name for node in graph.graph]
    assert len(set(names)) == len(names)
    assert sum(node.op_type == "QuantizeLinear" for node in graph.graph) == 4
    assert signal_db(model, graph) > 60
