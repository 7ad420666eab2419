"""`TorchGraph`: a graph that torch runs and differentiates, its weights by initializer name.

The graph is interpreted node by node and never re-exported: what training changes goes back into
the initializers that it came from, also where these are codes of a quantized graph. Before anyone
trains it, `check` compares every output with the runtime's.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.data import Feed
from edgeopt.graph.editor import array_of
from edgeopt.graph.runtime import observe
from edgeopt.transforms.repair._torch import torch
from edgeopt.transforms.repair._torch_codes import coded_weights, holds_codes
from edgeopt.transforms.repair._torch_layers import IMAGE, Uncovered
from edgeopt.transforms.repair._torch_operators import operator_of

Array = npt.NDArray[Any]
TOLERANCE = 1e-3
"""Of the largest output: float32 sums in another order through a whole net; a wrong operator is
off by far more."""
_CODED_TOLERANCE = 0.05
"""Of the mean size of an output, on average: a sum in another order moves single codes by one."""
_TRAINED: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "MatMul"), (0, 1, 2)),
    **dict.fromkeys(("LayerNormalization", "InstanceNormalization", "BatchNormalization"), (1, 2)),
    **dict.fromkeys(("Add", "PRelu"), (0, 1)),
    "LSTM": (1, 2, 3),
}


class TorchGraph:
    """A graph as a differentiable function.

    Args:
        model: Sorted, without subgraphs.

    Attributes:
        weights: What may be trained, by initializer name; of codes the weights they stand for.

    Raises:
        Uncovered: A node cannot be computed; names its operator.
    """

    def __init__(self, model: ir.Model) -> None:
        self._nodes = [
            (node, operator_of(node)) for node in model.graph if node.op_type != "Constant"
        ]
        self.outputs = [value.name or "" for value in model.graph.outputs]
        self.weights: dict[str, Any] = {}
        self._constants: dict[str, Any] = {}
        self._coded = dict(coded_weights(model.graph, _TRAINED))
        trained = _trained(model.graph)
        for name, value in _constants_of(model.graph):
            array = np.array(array_of(value))
            if name in self._coded:
                self.weights[name] = _tensor(self._coded[name].decoded(array)).requires_grad_()
            elif name in trained:
                self.weights[name] = _tensor(array).requires_grad_()
            else:
                self._constants[name] = _tensor(array)
        self._last = _last_uses(model.graph)

    @property
    def is_coded(self) -> bool:
        """Whether weights are codes of integers."""
        return bool(self._coded)

    def run(self, feed: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        """Tensors of named values.

        Raises:
            Uncovered: A variant of an operator is not computed here.
        """
        wanted = set(names)
        values: dict[str, Any] = {**self._constants, **self.weights, **feed}
        for name, coded in self._coded.items():
            values[name] = coded.rounded(self.weights[name])
        for index, (node, operator) in enumerate(self._nodes):
            inputs = [None if v is None else values[v.name or ""] for v in node.inputs]
            made = operator(node, inputs)
            for value, tensor in zip(node.outputs, made, strict=False):
                values[value.name or ""] = tensor
            for name in self._last.get(index, ()):
                if name not in wanted:
                    values.pop(name, None)
        return {name: values[name] for name in wanted}

    def arrays(self) -> dict[str, Array]:
        """The weights as they are now."""
        return {name: w.detach().numpy().copy() for name, w in self.weights.items()}

    def initializers(self) -> dict[str, Array]:
        """The same as the graph holds them: some as codes."""
        found = self.arrays()
        return {n: self._coded[n].encoded(a) if n in self._coded else a for n, a in found.items()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Take over weights."""
        with torch().no_grad():
            for name, array in arrays.items():
                self.weights[name].copy_(torch().from_numpy(np.array(array)))


def check(graph: TorchGraph, model: ir.Model, feeds: Sequence[Feed]) -> str:
    """Why torch's outputs are not the runtime's; empty where they are."""
    names, coded = graph.outputs, holds_codes(model.graph)
    try:
        with torch().no_grad():
            found = [graph.run(tensors(feed), names) for feed in feeds]
    except Uncovered as error:
        return f"torch has no {error} here"
    except (RuntimeError, IndexError, ValueError, TypeError, KeyError) as error:
        return f"torch does not run it: {str(error).splitlines()[0]}"
    for one, wanted in zip(found, observe(model, names, feeds), strict=True):
        for name in names:
            expected, made = wanted[name], one[name].numpy()
            if expected.shape != made.shape or _is_off(expected, made, coded):
                return f"torch computes another {name!r} than the runtime"
    return ""


def tensors(feed: Feed) -> dict[str, Any]:
    """A feed as torch takes it."""
    return {name: _tensor(np.array(array)) for name, array in feed.items()}


def _tensor(array: Array) -> Any:
    """Of images and kernels the channels come last in memory: convolutions are trained faster."""
    made = torch().from_numpy(array)
    if made.ndim != IMAGE or not made.dtype.is_floating_point:
        return made
    return made.contiguous(memory_format=torch().channels_last)


def _is_off(expected: Array, made: Array, coded: bool) -> bool:
    if expected.dtype.kind != "f":
        return float((expected != made).mean()) > (_CODED_TOLERANCE if coded else TOLERANCE)
    if coded:
        off = float(np.abs(expected - made).mean())
        return off > _CODED_TOLERANCE * max(float(np.abs(expected).mean()), 1e-3)
    error = float(np.abs(expected - made).max(initial=0.0))
    return error > TOLERANCE * max(float(np.abs(expected).max(initial=0.0)), 1e-3)


def _trained(graph: ir.Graph) -> set[str]:
    """Float initializers that are weights, biases, and scales of norms; no single numbers."""
    found: set[str] = set()
    for node in graph:
        for index in _TRAINED.get(node.op_type, ()):
            value = node.inputs[index] if index < len(node.inputs) else None
            held = array_of(value) if value is not None and value.is_initializer() else None
            if value is not None and held is not None and held.dtype == np.float32:
                found |= {value.name or ""} if held.size > 1 else set()
    return found


def _constants_of(graph: ir.Graph) -> Iterable[tuple[str, ir.Value]]:
    values = [value for node in graph for value in node.inputs if value is not None]
    values += list(graph.outputs)
    return {v.name or "": v for v in values if array_of(v) is not None}.items()


def _last_uses(graph: ir.Graph) -> dict[int, list[str]]:
    """Index of a node to names that nothing after it reads."""
    last: dict[str, int] = {}
    nodes = (node for node in graph if node.op_type != "Constant")
    for index, node in enumerate(nodes):
        for value in (*node.inputs, *node.outputs):
            if value is not None and not value.is_initializer():
                last[value.name or ""] = index
    found: dict[int, list[str]] = {}
    for name, index in last.items():
        found.setdefault(index, []).append(name)
    return found
