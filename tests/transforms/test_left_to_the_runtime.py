"""Rewrites that are left out on purpose: the runtime does them, and here they gain nothing.

Entries A17 (a product and a sum as a Gemm, transposed weights) and B12 (Transposes past what does
not mind them) of the catalogue are its negative controls: neither is made, both forms are lowered
to the same graph, and what would go wrong with them is shown.
"""

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import parser

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import RuntimeFailure, Session, optimized
from edgeopt.testing.graphs import random_feeds
from edgeopt.testing.rule_mutants import drawable
from edgeopt.testing.transform_exam import NoEvidence, offer, opened
from edgeopt.transforms.canonicalize import canonicalize
from edgeopt.transforms.stages import transform_of

PLAIN = RuntimeSettings(optimization="off")
HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
WEIGHTS = "<float[3,2] w = {1, -2, 3, 0.5, 1, -1}, float[2] b = {0.5, -1}>"

PRODUCT = f"""{HEAD} g (float[N,3] x) => (float[N,2] y) {WEIGHTS}
    {{ p = MatMul (x, w) y = Add (p, b) }}"""
GEMM = f"{HEAD} g (float[N,3] x) => (float[N,2] y) {WEIGHTS} {{ y = Gemm (x, w, b) }}"
TURNED = f"""{HEAD} g (float[N,3] x) => (float[N,2] y)
    <float[2,3] w = {{1, 3, 1, -2, 0.5, -1}}, float[2] b = {{0.5, -1}}>
    {{ y = Gemm <transB = 1> (x, w, b) }}"""
AROUND = f"""{HEAD} g (float[1,3,4,5] x) => (float[1,3,4,5] y) {{
    a = Transpose <perm = [0,2,3,1]> (x)
    b = Sigmoid (a)
    c = Transpose <perm = [0,3,1,2]> (b)
    y = Exp (c) }}"""
PAST = f"""{HEAD} g (float[1,3,4,5] x) => (float[1,3,4,5] y) {{ a = Sigmoid (x) y = Exp (a) }}"""
REDUCED = f"""{HEAD} g (float[1,3,4,5] x) => (float[1,1,4,5] y) {{
    a = Transpose <perm = [0,2,3,1]> (x)
    b = ReduceMean <axes = [3], keepdims = 1> (a)
    y = Transpose <perm = [0,3,1,2]> (b) }}"""


def model(text: str) -> onnx.ModelProto:
    """A model from its text."""
    return parser.parse_model(text)


def lowered(text: str) -> Counter[str]:
    """Operators of the graph that the runtime makes of a model."""
    return Counter(node.op_type for node in optimized(model(text), "basic").graph.node)


def run(text: str) -> np.ndarray:
    """The output for one seeded feed."""
    given = model(text)
    return Session(given.SerializeToString(), PLAIN).run(random_feeds(given, 1)[0])["y"]


@pytest.mark.parametrize("text", [PRODUCT, GEMM, TURNED, AROUND, REDUCED])
def test_nothing_on_the_shelves_does_it(text: str) -> None:
    """The pre-pass leaves the operators as they are, and no other transform would change them."""
    graph = opened(model(text))
    before = [node.op_type for node in graph.graph]
    canonicalize(Editor(graph), offer(), NoEvidence())
    assert [node.op_type for node in graph.graph] == before
    for name in drawable():
        transform = transform_of(name)[1]
        for action in transform.sites(graph, offer()):
            copy = graph.clone()
            transform.apply(Editor(copy), action, NoEvidence())
            made = Counter(node.op_type for node in copy.graph)
            assert made["Gemm"] <= before.count("Gemm"), f"{name} makes a Gemm"
            assert made["Transpose"] >= before.count("Transpose"), f"{name} moves a Transpose"


@pytest.mark.parametrize(("one", "other"), [(PRODUCT, GEMM), (AROUND, PAST)])
def test_the_runtime_makes_the_same_of_both(one: str, other: str) -> None:
    """So there is nothing to gain: the two forms are lowered to the same operators."""
    assert lowered(one) == lowered(other)
    np.testing.assert_allclose(run(one), run(other), rtol=1e-6)


def test_transposed_weights_are_the_same_gemm() -> None:
    """Both are one node with a constant weight, which the kernel packs once in its own order."""
    assert lowered(TURNED) == lowered(GEMM)
    np.testing.assert_allclose(run(TURNED), run(GEMM), rtol=1e-6)


def test_a_gemm_of_more_than_two_axes_is_no_model() -> None:
    """The rewrite would be wrong for what most products read: rows of several samples."""
    wide = GEMM.replace("float[N,3]", "float[N,4,3]").replace("float[N,2] y", "float[N,4,2] y")
    with pytest.raises(RuntimeFailure):
        Session(model(wide).SerializeToString(), PLAIN)


def test_a_mean_past_a_transpose_is_over_another_axis() -> None:
    """Moved without renumbering, it is another function."""
    same_axes = f"""{HEAD} g (float[1,3,4,5] x) => (float[1,3,4,1] y) {{
        y = ReduceMean <axes = [3], keepdims = 1> (x) }}"""
    renumbered = f"""{HEAD} g (float[1,3,4,5] x) => (float[1,1,4,5] y) {{
        y = ReduceMean <axes = [1], keepdims = 1> (x) }}"""
    assert run(same_axes).shape != run(REDUCED).shape
    np.testing.assert_allclose(run(renumbered), run(REDUCED), rtol=1e-6)
    assert lowered(REDUCED)["Transpose"] == 0, "the runtime renumbers it by itself"
