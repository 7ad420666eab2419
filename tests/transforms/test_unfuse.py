"""A model that the runtime has optimized and saved comes apart, and is fused again the same."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.graph.editor import Editor
from edgeopt.graph.normalize import normalize
from edgeopt.graph.runtime import Session, optimized
from edgeopt.graph.write import to_bytes
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.transform_exam import NoEvidence, offer
from edgeopt.transforms.canonicalize import canonicalize

PLAIN = RuntimeSettings(optimization="off")


def convolutions() -> onnx.ModelProto:
    """Convolutions with what the runtime fuses into them, and a layer at the end."""
    b = Builder()
    b.conv("x", "a", (3, 8))
    b.node("Relu", ["a"], "r")
    b.conv("r", "c", (8, 8))
    b.node("Sigmoid", ["c"], "s")
    b.conv("s", "d", (8, 8))
    b.node("Flatten", [b.node("GlobalAveragePool", ["d"], "g")], "f")
    b.node("Gemm", ["f", b.weight("w", 8, 4), b.weight("v", 4)], "h")
    b.node("Tanh", ["h"], "y")
    return b.model([("x", "float32", ("N", 3, 8, 8))], [("y", "float32", ("N", 4))])


def attention() -> onnx.ModelProto:
    """Scores that are scaled, a residual that is normalized, a GELU with a bias."""
    b = Builder()
    for name in "qkv":
        b.node("MatMul", ["x", b.weight(f"w{name}", 8, 8)], name)
    b.node("Transpose", ["k"], "t", perm=[0, 2, 1])
    scale = b.constant("scale", np.array(0.35, np.float32))
    b.node("Mul", [b.node("MatMul", ["q", "t"], "s"), scale], "d")
    b.node("MatMul", [b.node("Softmax", ["d"], "p", axis=-1), "v"], "o")
    b.node("Add", ["o", "x"], "u")
    b.node("LayerNormalization", ["u", b.weight("g", 8), b.weight("e", 8)], "n")
    b.node("Add", [b.node("MatMul", ["n", b.weight("w1", 8, 16)], "m"), b.weight("b1", 16)], "h")
    root = b.constant("root", np.array(2**0.5, np.float32))
    one = b.constant("one", np.array(1.0, np.float32))
    half = b.constant("half", np.array(0.5, np.float32))
    b.node("Add", [b.node("Erf", [b.node("Div", ["h", root], "i")], "j"), one], "k1")
    b.node("Mul", [b.node("Mul", ["h", "k1"], "l"), half], "y")
    return b.model([("x", "float32", ("N", 4, 8))], [("y", "float32", ("N", 4, 16))])


def operators(model: onnx.ModelProto) -> Counter[str]:
    """How often each occurs."""
    return Counter(f"{node.domain}:{node.op_type}" for node in model.graph.node)


@pytest.mark.parametrize("make", [convolutions, attention])
def test_a_saved_model_comes_apart_and_is_fused_again(make: Callable[[], onnx.ModelProto]) -> None:
    """Nothing of the runtime's own is left, outputs stay, and loading it fuses the same."""
    saved = optimized(make(), "extended")
    fused = operators(saved)
    assert any(name.startswith("com.microsoft") for name in fused)
    graph = normalize(ir.from_proto(saved))
    canonicalize(Editor(graph), offer(), NoEvidence())
    made = onnx.ModelProto.FromString(to_bytes(graph))
    assert not any(node.domain for node in made.graph.node)
    for feed in random_feeds(saved, 2):
        expected = Session(saved.SerializeToString(), PLAIN).run(feed)["y"]
        found = Session(made.SerializeToString(), PLAIN).run(feed)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    again = operators(optimized(made, "extended"))
    assert sum(again.values()) <= sum(fused.values())
    assert again[":MatMul"] <= fused[":MatMul"]
    assert again[":Conv"] <= fused[":Conv"]
