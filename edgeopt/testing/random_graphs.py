"""Hypothesis strategies: small random networks, and the same network under other names."""

import random
from collections.abc import Callable
from typing import cast

import numpy as np
import onnx
from hypothesis import strategies as st

from edgeopt.testing.graphs import Builder

_CHANNELS = 4
_UNARY = ("Relu", "Sigmoid", "Tanh", "HardSwish", "Neg", "Identity")
_BINARY = ("Add", "Mul", "Sub", "Max")
_LAYERS = ("conv1x1", "conv3x3", "depthwise", "batchnorm", "scale")
_Draw = Callable[[st.SearchStrategy[object]], object]


@st.composite
def networks(draw: _Draw, *, max_nodes: int = 12) -> onnx.ModelProto:
    """A random network on `x` [N, 4, 6, 6]: layers, activations, branches, up to two outputs."""
    b = Builder(cast("int", draw(st.integers(0, 2**16))))
    values = ["x"]
    for index in range(cast("int", draw(st.integers(1, max_nodes)))):
        operator = cast("str", draw(st.sampled_from((*_UNARY, *_BINARY, *_LAYERS))))
        picked = st.integers(max(0, len(values) - 4), len(values) - 1)
        source, other = (values[cast("int", draw(picked))] for _ in range(2))
        values.append(_node(b, operator, source, other, f"v{index}"))
    outputs = dict.fromkeys(
        [values[-1], values[cast("int", draw(st.integers(1, len(values) - 1)))]]
    )
    shape = ("N", _CHANNELS, 6, 6)
    return b.model([("x", "float32", shape)], [(name, "float32", shape) for name in outputs])


def _node(b: Builder, operator: str, source: str, other: str, output: str) -> str:
    if operator in _UNARY:
        return b.node(operator, [source], output)
    if operator in _BINARY:
        return b.node(operator, [source, other], output)
    if operator == "batchnorm":
        return b.batchnorm(source, output, _CHANNELS)
    if operator == "scale":
        factor = b.constant(f"{output}.factor", np.full((1, _CHANNELS, 1, 1), 0.5, np.float32))
        return b.node("Mul", [source, factor], output)
    if operator == "depthwise":
        return b.conv(source, output, (_CHANNELS, _CHANNELS), group=_CHANNELS)
    kernel = 1 if operator == "conv1x1" else 3
    return b.conv(source, output, (_CHANNELS, _CHANNELS), kernel=kernel)


def disguised(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """The same model with other node and value names, and nodes in another order of execution.

    Names of inputs and outputs stay. Works on models without subgraphs.
    """
    shuffle = random.Random(seed)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    kept = {info.name for info in (*copy.graph.input, *copy.graph.output)}
    names = [t.name for t in copy.graph.initializer]
    names += [name for node in copy.graph.node for name in node.output]
    fresh = list(range(len(names)))
    shuffle.shuffle(fresh)
    renamed = {
        name: name if name in kept else f"r{number}"
        for name, number in zip(names, fresh, strict=True)
    }
    for tensor in copy.graph.initializer:
        tensor.name = renamed[tensor.name]
    for node in copy.graph.node:
        node.name = f"n{shuffle.random()}"
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    nodes = _any_order(list(copy.graph.node), shuffle)
    tensors = list(copy.graph.initializer)
    shuffle.shuffle(tensors)
    del copy.graph.node[:], copy.graph.initializer[:], copy.graph.value_info[:]
    copy.graph.node.extend(nodes)
    copy.graph.initializer.extend(tensors)
    return copy


def _any_order(nodes: list[onnx.NodeProto], shuffle: random.Random) -> list[onnx.NodeProto]:
    made = {name for node in nodes for name in node.output}
    done: set[str] = set()
    ordered: list[onnx.NodeProto] = []
    while nodes:
        ready = [n for n in nodes if all(name in done or name not in made for name in n.input)]
        chosen = shuffle.choice(ready)
        nodes.remove(chosen)
        ordered.append(chosen)
        done.update(chosen.output)
    return ordered
