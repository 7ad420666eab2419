"""Tables and weights that are stored small: embeddings, blocks, integers that are decoded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing.graphs import Builder
from edgeopt.testing.quantize_exam import (
    at_every_site,
    evidence_of,
    examine_quantize,
    sqnr_db,
)
from edgeopt.testing.transform_exam import offer, opened
from edgeopt.transforms.quantize.weight_only_blocks import packed
from edgeopt.transforms.stages import transform_of
from tests.transforms.small_nets import feeds_of, long_product, lookup, recurrent


def test_embedding(store: ArtifactStore) -> None:
    """One table of codes serves both look-ups, with exact indices, negative ones included."""
    model = lookup()
    (applied,) = examine_quantize("embedding_int8", model, store, least_db=35, integer=False)
    assert "table" not in applied.graph.graph.initializers
    assert len(to_bytes(applied.graph)) < 0.4 * len(model.SerializeToString())
    feed = {"i": np.array([[0, -1, 199]]), "k": np.array([[-200, 3, 7]])}
    assert sqnr_db(model.SerializeToString(), to_bytes(applied.graph), [feed]) > 35


def test_embedding_as_output(store: ArtifactStore) -> None:
    """A look-up that is itself the model's output keeps its name and shape."""
    b = Builder()
    b.node("Gather", [b.weight("table", 200, 32, scale=1.0), "i"], "y")
    model = b.model([("i", "int64", ("N",))], [("y", "float32", ("N", 32))])
    assert examine_quantize("embedding_int8", model, store, least_db=35, integer=False)


def test_blocks(store: ArtifactStore) -> None:
    """Eight bits are nearer than four, and four make a smaller file."""
    model = long_product()
    applied = examine_quantize("weight_only_blocks", model, store, least_db=18, integer=False)
    assert [one.action.get("bits") for one in applied] == [8, 4, 8, 4]
    eight, four = (to_bytes(one.graph) for one in applied[:2])
    assert len(four) < len(eight)
    near = [sqnr_db(model.SerializeToString(), made, feeds_of(model)) for made in (eight, four)]
    assert near[0] > near[1] + 10


@given(
    rows=st.integers(1, 5),
    given=st.integers(1, 70),
    bits=st.sampled_from([4, 8]),
    seed=st.integers(0, 99),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_blocks_are_within_half_a_step(rows: int, given: int, bits: int, seed: int) -> None:
    """Read back, every weight is at most half a step of its block away; a whole one at the clip."""
    weight = np.random.default_rng(seed).normal(size=(rows, given)).astype(np.float32)
    codes, scales = packed(weight, bits, 16)
    if bits == 4:
        codes = np.stack([codes & 15, codes >> 4], axis=-1)
    parts = codes.reshape(rows, -1, 16).astype(np.float32) - (1 << (bits - 1))
    steps = scales.reshape(rows, -1, 1)
    found = (parts * steps).reshape(rows, -1)[:, :given]
    far = np.abs(np.broadcast_to(steps, parts.shape)).reshape(rows, -1)[:, :given]
    highest = (1 << (bits - 1)) - 1
    clipped = np.broadcast_to(parts == highest, parts.shape).reshape(rows, -1)[:, :given]
    bound = np.where(clipped, far, 0.5 * far) * 1.001
    assert np.all(np.abs(found - weight) <= bound)


@pytest.mark.parametrize("operator", ["GRU", "RNN"])
@pytest.mark.parametrize("directions", [1, 2])
def test_stored_as_integers(operator: str, directions: int, store: ArtifactStore) -> None:
    """What has no integer kernel keeps its float arithmetic and a smaller file."""
    model = recurrent(operator, directions=directions, hidden=16)
    assert examine_quantize("weight_only_int8", model, store, least_db=25, integer=False)


def test_transposed_convolution_is_stored_as_integers(store: ArtifactStore) -> None:
    """One scale an output channel, which is the second axis of its weight."""
    b = Builder()
    b.node("ConvTranspose", ["x", b.weight("w", 8, 4, 3, 3), b.weight("b", 4)], "y", group=2)
    model = b.model([("x", "float32", (1, 8, 5, 5))], [("y", "float32", (1, 8, 7, 7))])
    model.graph.node[0].input.pop()
    (applied,) = examine_quantize("weight_only_int8", model, store, least_db=30, integer=False)
    assert applied.graph.graph.initializers["w__int8x8_only_scale"].shape == (4,)


def test_an_lstm_is_stored_as_integers_only_without_contrib(store: ArtifactStore) -> None:
    """With operators of com.microsoft there is a better way."""
    plugin, graph = transform_of("weight_only_int8")[1], opened(recurrent())
    assert plugin.sites(graph, offer()) == ()
    (action,) = plugin.sites(graph, offer(contrib=False))
    made = at_every_site("weight_only_int8", graph, evidence_of(recurrent(), store), [action])
    assert {node.domain for node in made.graph} == {""}
