"""Run a graph piece by piece over a few samples, changing it between the pieces.

A repair that goes layer after layer needs the values of each layer once everything before it is
repaired. Running the whole graph anew for each would cost layers times samples; running only what
lies between two layers, from the values that are kept, costs one pass in all.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx import helper

from edgeopt.core.data import Feed
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import serialized, to_proto

Array = npt.NDArray[Any]
Values = dict[str, Array]


class Stages:
    """The values of a graph for some samples, computed as far as they are asked for.

    Args:
        model: Sorted. Constants that change later are seen only after `refresh`, and values that
            were computed from them are not computed again.
        feeds: A few samples; all their live values are kept in memory.
    """

    def __init__(self, model: ir.Model, feeds: Sequence[Feed]) -> None:
        self._proto = to_proto(model)
        self._nodes = list(self._proto.graph.node)
        self._constants = {item.name: item for item in self._proto.graph.initializer}
        self._done: set[int] = set()
        self._maker = {name: i for i, node in enumerate(self._nodes) for name in node.output}
        self.values: list[Values] = [dict(feed) for feed in feeds]

    def knows(self, name: str) -> bool:
        """Whether the graph has a value of that name."""
        return name in self._maker or name in self.values[0]

    def advance(self, names: Iterable[str]) -> None:
        """Compute the named values in every sample, and drop what nothing needs any more."""
        wanted = [name for name in names if name not in self.values[0]]
        piece = self._needed(wanted)
        if piece:
            self._run([self._nodes[index] for index in piece], wanted)
            self._done.update(piece)
        self._forget()

    def refresh(self, model: ir.Model) -> None:
        """Take over the constants of a model whose nodes are the same."""
        for node, held in zip(model.graph, self._nodes, strict=True):
            for index, value in enumerate(node.inputs):
                if value is not None and value.is_initializer() and value.name:
                    held.input[index] = value.name
                    if value.name not in self._constants and value.const_value is not None:
                        tensor = ir.to_proto(value.const_value)
                        tensor.name = value.name
                        self._constants[value.name] = tensor

    def _needed(self, wanted: Sequence[str]) -> list[int]:
        found: set[int] = set()
        waiting = list(wanted)
        while waiting:
            index = self._maker.get(waiting.pop())
            if index is not None and index not in found and index not in self._done:
                found.add(index)
                waiting += _reads(self._nodes[index])
        return sorted(found)

    def _run(self, nodes: Sequence[onnx.NodeProto], wanted: Sequence[str]) -> None:
        made = {name for node in nodes for name in node.output if name}
        read = {name for node in nodes for name in _reads(node)}
        # Later pieces read some of what this one makes.
        outside = self._read_outside({id(node) for node in nodes})
        outputs = sorted(made & (outside | set(wanted)))
        inputs = sorted(name for name in read - made if name in self.values[0])
        constants = [self._constants[name] for name in sorted(read & self._constants.keys())]
        graph = helper.make_graph(
            nodes,
            "piece",
            [_typed(name, self.values[0][name]) for name in inputs],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            constants,
        )
        model = helper.make_model(
            graph, opset_imports=self._proto.opset_import, ir_version=self._proto.ir_version
        )
        session = Session(serialized(model))
        for values in self.values:
            values |= session.run({name: values[name] for name in inputs}, outputs)

    def _read_outside(self, piece: set[int]) -> set[str]:
        ends = {info.name for info in self._proto.graph.output}
        return ends.union(
            *(
                _reads(node)
                for index, node in enumerate(self._nodes)
                if index not in self._done and id(node) not in piece
            )
        )

    def _forget(self) -> None:
        live = self._read_outside(set())
        for values in self.values:
            for name in values.keys() - live:
                del values[name]


def _reads(node: onnx.NodeProto) -> set[str]:
    """Names that a node reads, those that its subgraphs take from outside included."""
    found = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            found |= {name for inner in graph.node for name in _reads(inner)}
    return found


def _typed(name: str, array: Array) -> onnx.ValueInfoProto:
    dtype = helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)
    return helper.make_tensor_value_info(name, dtype, [None] * array.ndim)
