"""Small nets that tests of several transforms share, and how they are run."""

import numpy as np
import onnx
from onnx import helper

from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.quantize_exam import (
    at_every_site,
    evidence_of,
)
from edgeopt.testing.transform_exam import offer, opened
from edgeopt.transforms.stages import transform_of

EVERY_KIND = [
    graphs.conv_bn,
    graphs.conv_chain,
    graphs.mobilenet_block,
    graphs.residual,
    graphs.gemm_chain,
    graphs.hardswish_spelled,
    graphs.if_model,
    graphs.lstm,
    graphs.segmentation_argmax,
]
"""One net of each kind that a rule may meet."""


def recurrent(
    operator: str = "LSTM",
    *,
    directions: int = 1,
    lengths: bool = False,
    state: bool = False,
    peephole: bool = False,
    hidden: int = 8,
    **attributes: object,
) -> onnx.ModelProto:
    """A recurrent node over `x` [time, N, 12], outputs `y` and `last`."""
    b = Builder()
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator] * hidden
    names = [
        "x",
        b.weight("w", directions, gates, 12, scale=0.3),
        b.weight("r", directions, gates, hidden, scale=0.3),
        b.weight("b", directions, 2 * gates, scale=0.1),
        "n" if lengths else "",
        *(["h"] if state else [""]),
    ]
    if operator == "LSTM":
        names.append("c" if state else "")
    if peephole:
        names.append(b.weight("p", directions, 3 * hidden))
    if directions == 2:
        attributes["direction"] = "bidirectional"
    node = helper.make_node(
        operator, names, ["y", "last"], name="rnn", hidden_size=hidden, **attributes
    )
    b.nodes.append(node)
    shape = (directions, 2, hidden)
    inputs = [("x", "float32", (4, 2, 12))]
    inputs += [("n", "int32", (2,))] if lengths else []
    inputs += [("h", "float32", shape)] if state else []
    inputs += [("c", "float32", shape)] if state and operator == "LSTM" else []
    outputs = [("y", "float32", (4, directions, 2, hidden)), ("last", "float32", shape)]
    return b.model(inputs, outputs)


def lookup(*, others: bool = False, axis: int = 0, rows: int = 200) -> onnx.ModelProto:
    """Two Gathers of one table, and a sum; with `others` a product reads it too."""
    b = Builder()
    b.weight("table", rows, 32, scale=1.0)
    b.node("Gather", ["table", "i"], "one", axis=axis)
    b.node("Gather", ["table", "k"], "two", axis=axis)
    b.node("Add", ["one", "two"], "sum")
    if others:
        b.node("Transpose", ["table"], "turned")
        b.node("MatMul", ["sum", "turned"], "y")
    else:
        b.node("Neg", ["sum"], "y")
    ids = [("i", "int64", ("N", 3)), ("k", "int64", ("N", 3))]
    return b.model(ids, [("y", "float32", None)])


def long_product() -> onnx.ModelProto:
    """Products over 160 elements, which is no multiple of a block, and a Gemm with factors."""
    b = Builder()
    b.node("MatMul", ["x", b.weight("a.w", 160, 128, scale=0.1)], "a")
    names = ["a", b.weight("b.w", 8, 128, scale=0.1), b.weight("b.b", 8)]
    b.node("Gemm", names, "y", transB=1, alpha=0.5, beta=2.0)
    return b.model([("x", "float32", (3, 160))], [("y", "float32", (3, 8))])


def at_all_sites(name: str, model: onnx.ModelProto, store: ArtifactStore):  # type: ignore[no-untyped-def]
    graph = opened(model)
    actions = transform_of(name)[1].sites(graph, offer())
    return at_every_site(name, graph, evidence_of(model, store), actions)


def feeds_of(model: onnx.ModelProto) -> list[dict[str, np.ndarray]]:
    return [dict(feed) for feed in graphs.random_feeds(model, 4, seed=5)]
