"""The rules' engine: incremental sites, undo, digests, bodies, large graphs."""

import random

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from edgeopt.graph.check import check
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.random_graphs import disguised, networks
from edgeopt.testing.rule_exam import compare, outputs_of
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.rules.catalogue import rules_on_shelves
from edgeopt.transforms.rules.engine import Engine
from tests.transforms.small_nets import EVERY_KIND

# A control enlarges kernels: it has a site at every pointwise convolution, which these tests count.
RULES = tuple(rule for rule in rules_on_shelves() if rule.name != "enlarge_kernel")
QUICK = settings(max_examples=40, deadline=None)


def walk(engine: Engine, steps: int, seed: int) -> int:
    """Rewrite at random sites; returns how often."""
    pick, done = random.Random(seed), 0
    for _ in range(steps):
        sites = engine.sites()
        if not sites:
            break
        done += engine.apply(pick.choice(sites)) is None
    return done


def as_if_new(engine: Engine) -> None:
    """What the engine knows is what one finds that never saw the graph before."""
    fresh = Engine(engine.model, RULES)
    assert [s.action for s in engine.sites()] == [s.action for s in fresh.sites()]
    assert engine.digest() == fresh.digest()


@QUICK
@given(model=networks(), seed=st.integers(0, 1000))
def test_random_walks_are_taken_back(model: onnx.ModelProto, seed: int) -> None:
    """Rewrites in any order keep the outputs; undone in reverse they leave the same bytes."""
    graph = opened(model)
    start, feeds = to_bytes(graph), random_feeds(model, 1)
    engine = Engine(graph, RULES)
    digest = engine.digest()
    done = walk(engine, 8, seed)
    as_if_new(engine)
    if done:
        check(graph)
        expected = outputs_of(model.SerializeToString(), feeds)
        compare(expected, outputs_of(to_bytes(graph), feeds), f"seed {seed}")
    for _ in range(engine.done):
        engine.undo()
    assert to_bytes(graph) == start
    assert engine.digest() == digest
    as_if_new(engine)


@QUICK
@given(model=networks(), seed=st.integers(0, 1000))
def test_names_and_order_do_not_change_the_digest(model: onnx.ModelProto, seed: int) -> None:
    """The same network under other names, its nodes in another order, has the same digest."""
    one, other = (Engine(opened(m), RULES) for m in (model, disguised(model, seed)))
    assert one.digest() == other.digest()
    assert len(one.sites()) == len(other.sites())


@pytest.mark.parametrize("change", ["weight", "attribute", "output", "wiring"])
def test_the_digest_sees_what_counts(change: str) -> None:
    """One weight, one attribute, the order of outputs or one edge make another graph."""
    model = graphs.conv_bn()
    other = onnx.ModelProto()
    other.CopyFrom(model)
    if change == "weight":
        raw = bytearray(other.graph.initializer[0].raw_data)
        raw[0] ^= 1
        other.graph.initializer[0].raw_data = bytes(raw)
    elif change == "attribute":
        node = next(n for n in other.graph.node if n.op_type == "BatchNormalization")
        node.attribute.append(helper.make_attribute("epsilon", 0.5))
    elif change == "output":
        other.graph.output[0].name = other.graph.node[-2].output[0]
    else:
        other.graph.node[-1].input[0] = other.graph.input[0].name
    graph = ir.from_proto(other)
    assert Engine(graph, ()).digest() != Engine(opened(model), ()).digest()


def test_rewrites_that_meet_have_one_digest() -> None:
    """Two independent rewrites give the same graph in either order."""
    digests: set[str] = set()
    fold = [rule for rule in RULES if rule.name == "fold_batchnorm"]
    for order in (0, -1), (-1, 0):
        engine = Engine(opened(nested(depth=0, width=3)), fold)
        sites = engine.sites()
        for index in order:
            assert engine.apply(sites[index]) is None
        digests.add(engine.digest())
    assert len(digests) == 1


def test_a_site_that_is_gone_is_refused() -> None:
    """What a rewrite took away cannot be rewritten again."""
    engine = Engine(opened(graphs.conv_bn()), RULES)
    site = engine.sites()[0]
    assert engine.apply(site) is None
    refused = engine.apply(site)
    assert refused is not None
    assert "changed" in refused.reason
    assert engine.done == 1


@pytest.mark.parametrize("net", EVERY_KIND, ids=lambda net: net.__name__)
def test_settles(net: object) -> None:
    """All rules at all sites come to an end, and the outputs stay."""
    assert callable(net)
    model: onnx.ModelProto = net()
    feeds = random_feeds(model, 1)
    engine = Engine(opened(model), RULES)
    engine.settle()
    assert not engine.sites()
    as_if_new(engine)
    expected = outputs_of(model.SerializeToString(), feeds)
    compare(expected, outputs_of(to_bytes(engine.model), feeds), net.__name__)


def test_a_model_of_3000_nodes_passes_unharmed() -> None:
    """A long net: only the neighbourhood of a rewrite is looked at again, and outputs stay."""
    b = Builder()
    value = "x"
    for index in range(750):
        b.conv(value, f"c{index}", (2, 2), kernel=1)
        b.batchnorm(f"c{index}", f"n{index}", 2)
        b.node("Tanh", [f"n{index}"], f"t{index}")
        value = b.node("Add", [f"t{index}", value], f"a{index}")
    shape = ("N", 2, 2, 2)
    model = b.model([("x", "float32", shape)], [(value, "float32", shape)])
    feeds = random_feeds(model, 1)
    engine = Engine(opened(model), RULES)
    assert len(engine.model.graph) == 3000
    before, seen = len(engine), engine.looked_at
    assert engine.apply(engine.sites()[300]) is None
    assert engine.looked_at - seen < 60
    assert len(engine) == before - 1
    assert len(engine.settle(limit=20)) == 20
    assert len(engine.model.graph) == 3000 - 21
    expected = outputs_of(model.SerializeToString(), feeds)
    compare(expected, outputs_of(to_bytes(engine.model), feeds), "the long net")


def nested(depth: int, width: int) -> onnx.ModelProto:
    """If in If: each branch holds `width` blocks of Conv, BatchNormalization and Relu."""
    rng = np.random.default_rng(0)

    def blocks(source: str, prefix: str) -> tuple[list[onnx.NodeProto], str]:
        nodes: list[onnx.NodeProto] = []
        for index in range(width):
            name = f"{prefix}_{index}"
            nodes += [
                helper.make_node("Conv", [source, "w"], [f"{name}c"], name=f"{name}c"),
                helper.make_node(
                    "BatchNormalization",
                    [f"{name}c", "s", "s", "m", "v"],
                    [f"{name}n"],
                    name=f"{name}n",
                ),
                helper.make_node("Relu", [f"{name}n"], [f"{name}r"], name=f"{name}r"),
            ]
            source = f"{name}r"
        return nodes, source

    def body(level: int, prefix: str) -> onnx.GraphProto:
        nodes, end = blocks("x", prefix)
        if level:
            branches = {k: body(level - 1, f"{prefix}{k[0]}") for k in ("then", "else")}
            named = {f"{k}_branch": graph for k, graph in branches.items()}
            nodes.append(helper.make_node("If", ["q"], [f"{prefix}i"], name=f"{prefix}i", **named))
            nodes.append(helper.make_node("Add", [end, f"{prefix}i"], [f"{prefix}y"]))
            end = f"{prefix}y"
        info = helper.make_tensor_value_info(end, 1, ["N", 3, 4, 4])
        return helper.make_graph(nodes, prefix, [], [info])

    branches = {f"{k}_branch": body(depth, k[0]) for k in ("then", "else")}
    node = helper.make_node("If", ["q"], ["y"], name="top", **branches)
    inputs = [
        helper.make_tensor_value_info("x", 1, ["N", 3, 4, 4]),
        helper.make_tensor_value_info("q", 9, []),
    ]
    arrays = {"w": (3, 3, 1, 1), "s": (3,), "m": (3,), "v": (3,)}
    weights = [
        helper.make_tensor(n, 1, s, rng.uniform(0.2, 0.9, s).ravel()) for n, s in arrays.items()
    ]
    output = helper.make_tensor_value_info("y", 1, ["N", 3, 4, 4])
    graph = helper.make_graph([node], "nested", inputs, [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_600_nodes_in_nested_bodies_pass_unharmed() -> None:
    """Every branch of If in If is rewritten and taken back like the main graph."""
    model = nested(depth=3, width=7)
    graph = opened(model)
    assert sum(1 for _ in graph.graph.all_nodes()) > 600
    engine = Engine(graph, RULES)
    start, digest, found = to_bytes(graph), engine.digest(), len(engine)
    assert found == 210
    done = engine.settle()
    assert len(done) == found
    check(graph)
    for flag in (True, False):
        feeds = [{**feed, "q": np.array(flag)} for feed in random_feeds(model, 1)]
        expected = outputs_of(model.SerializeToString(), feeds)
        compare(expected, outputs_of(to_bytes(graph), feeds), f"q is {flag}")
    while engine.done:
        engine.undo()
    assert (to_bytes(graph), engine.digest(), len(engine)) == (start, digest, found)
