"""Random graphs, random units: valid, right shapes, and the outputs of the net that reads none."""

import random

import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.graph.check import check
from edgeopt.graph.runtime import observe
from edgeopt.testing.graphs import random_feeds
from edgeopt.testing.prune_groups import TOLERANCE, difference, removed, some_units, unread
from edgeopt.testing.random_prunable import network
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.channels.groups import Dependencies

_BATCH = 16


@pytest.mark.parametrize("batch", range(6))
def test_removed_equals_unread(batch: int) -> None:
    """Some 180 groups of nets with splits, shuffles, gates, groups and flattened maps."""
    tried = 0
    for seed in range(batch * _BATCH, (batch + 1) * _BATCH):
        model = network(random.Random(seed))
        graph, feeds = opened(model), random_feeds(model, 1, seed=seed)
        generator = np.random.default_rng(seed)
        for group in Dependencies(graph).groups:
            kept = some_units(group, generator)
            smaller = removed(graph, group.name, kept)
            if isinstance(smaller, str):
                assert "nothing would be left" in smaller
                continue
            check(smaller)
            off = difference(unread(graph, group.name, kept), smaller, feeds)
            assert off <= TOLERANCE, f"seed {seed}, group {group.name!r}: off by {off:.3g}"
            tried += 1
    assert tried >= _BATCH


@pytest.mark.parametrize("seed", range(8))
def test_recorded_shapes_are_those_that_run(seed: int) -> None:
    """What is written down about a value's size after a cut is what the runtime makes."""
    model = network(random.Random(seed))
    graph, feeds = opened(model), random_feeds(model, 1)
    (group, *_) = Dependencies(graph).groups
    smaller = removed(graph, group.name, some_units(group, np.random.default_rng(seed)))
    assert isinstance(smaller, ir.Model)
    values = [v for n in smaller.graph for v in n.outputs if v.name and v.shape is not None]
    (found,) = observe(smaller, [v.name or "" for v in values], feeds)
    for value in values:
        sizes = [n for n in value.shape or () if isinstance(n, int)]
        if len(sizes) == len(value.shape or ()):
            assert tuple(sizes) == found[value.name or ""].shape, value.name
