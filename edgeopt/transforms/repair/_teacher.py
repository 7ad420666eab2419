"""`Teacher`: what the given model says, at outputs and at places in the middle.

The runtime computes it, not torch: nobody differentiates it, and on small convolutional nets it
takes a third of the time there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.graph.light import light_proto
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import serialized
from edgeopt.transforms.repair._torch import torch


class Teacher:
    """The given model on any number of samples at once, as far as its operators allow that.

    Args:
        model: Sorted, without subgraphs.
        names: Values that are asked for: outputs or what nodes of the main graph make.

    Raises:
        RuntimeFailure: The runtime does not take it.
    """

    def __init__(self, model: ir.Model, names: Sequence[str]) -> None:
        proto, weights = light_proto(model)
        have = {info.name for info in proto.graph.output}
        for name in dict.fromkeys(names):
            if name not in have:
                proto.graph.output.add().name = name
        del proto.graph.value_info[:]
        for info in (*proto.graph.input, *proto.graph.output):
            _free_batch(info)
        self._names = list(dict.fromkeys(names))
        self._session = Session(
            serialized(proto), RuntimeSettings(optimization="all"), weights=weights
        )

    def run(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Tensors of all values.

        Raises:
            RuntimeFailure: Its operators do not take that many samples.
        """
        found = self._session.run({name: x.numpy() for name, x in feed.items()}, self._names)
        return {name: torch().from_numpy(array) for name, array in found.items()}


def _free_batch(info: onnx.ValueInfoProto) -> None:
    """Let a first axis have any size."""
    shape = info.type.tensor_type.shape
    if info.type.tensor_type.HasField("shape") and len(shape.dim):
        shape.dim[0].Clear()
