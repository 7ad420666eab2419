"""How far a pruned net is from the given one, as a number that torch differentiates.

At every float output, taken before a last Softmax, Sigmoid or ArgMax where one stands there: the
divergence of the distributions and the distance of the values, each in the size of the given
model's. At some sums in the middle (residual streams, which pruning inside of blocks leaves as
wide as they were): the distance alone. Sums of both, as in "Distilling the Knowledge in a Neural
Network" (Hinton et al., 2015), sections 2 and 2.1, with hints in the middle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.local_rule import integer
from edgeopt.transforms.repair._torch import torch

_TAPS = 8
_LAST = {"Softmax": "softmax", "LogSoftmax": "softmax", "ArgMax": "softmax", "Sigmoid": "sigmoid"}
_PASSED = frozenset({"Identity", "Squeeze", "Unsqueeze", "Flatten", "Reshape", "Transpose"})
"""What may stand between them and an output. A Softmax of an older operator set is a Flatten, a
Softmax and a Reshape in a newer one."""
_SMALL = 1e-6
_DISTANCE, _HINT = 0.05, 0.5


@dataclass(frozen=True, slots=True)
class Head:
    """A value that is compared.

    Args:
        name: In both graphs.
        kind: `softmax`, `sigmoid` or `values`.
        axis: Of the classes.
    """

    name: str
    kind: str
    axis: int = -1


def heads(given: ir.Model, trained: ir.Model) -> list[Head]:
    """What stands for each output, of values that both graphs have."""
    made = {value.name for node in trained.graph for value in node.outputs}
    found = ((value.name or "", _head(value)) for value in given.graph.outputs)
    kept = (head if head.name in made else Head(name, "values") for name, head in found)
    return list(dict.fromkeys(kept))


def taps(given: ir.Model, pruned: ir.Model) -> list[str]:
    """Sums of two activations that are as wide in both graphs, evenly spaced, at most eight."""
    shapes = {value.name: value.shape for value in _sums(given)}
    found = [
        value.name
        for value in _sums(pruned)
        if value.name and value.shape is not None and shapes.get(value.name) == value.shape
    ]
    if len(found) <= _TAPS:
        return found
    return [found[round(i * (len(found) - 1) / (_TAPS - 1))] for i in range(_TAPS)]


def distance(
    wanted: Mapping[str, Any],
    found: Mapping[str, Any],
    ends: Sequence[Head],
    between: Sequence[str],
) -> Any:
    """The loss; 0 where everything is equal."""
    total = 0.0
    for head in ends:
        one, other = wanted[head.name], found[head.name]
        if not one.dtype.is_floating_point:
            continue
        total = total + _at_end(one, other, head)
    for name in between:
        total = total + _HINT / len(between) * _relative(wanted[name], found[name])
    return total


def _at_end(wanted: Any, found: Any, head: Head) -> Any:
    if head.kind == "values":
        return _relative(wanted, found)
    squares = (wanted - found).square().mean()
    functional = torch().nn.functional
    if head.kind == "sigmoid":
        given = torch().sigmoid(wanted)
        crossed = functional.binary_cross_entropy_with_logits(found, given)
        own = functional.binary_cross_entropy_with_logits(wanted, given)
        return crossed - own + _DISTANCE * squares
    logs = functional.log_softmax(wanted, dim=head.axis)
    apart = logs.exp() * (logs - functional.log_softmax(found, dim=head.axis))
    return apart.sum(dim=head.axis).mean() + _DISTANCE * squares


def _relative(wanted: Any, found: Any) -> Any:
    spread = wanted.var(unbiased=False) + _SMALL
    return (wanted - found).square().mean() / spread


def _head(value: ir.Value) -> Head:
    node = value.producer()
    while node is not None and node.op_type in _PASSED and node.inputs[0] is not None:
        before = node.inputs[0].producer()
        if before is None or before.op_type not in _PASSED | set(_LAST):
            break
        node = before
    if node is None or node.domain or node.op_type not in _LAST or node.inputs[0] is None:
        return Head(value.name or "", "values")
    axis = integer(node, "axis", 0 if node.op_type == "ArgMax" else -1)
    return Head(node.inputs[0].name or "", _LAST[node.op_type], axis)


def _sums(model: ir.Model) -> list[ir.Value]:
    adds = (node for node in model.graph if node.op_type == "Add" and not node.domain)
    return [node.outputs[0] for node in adds if all(array_of(v) is None for v in node.inputs)]
