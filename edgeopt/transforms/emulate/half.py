"""Where float16 cannot hold what a float32 graph computes.

The largest finite half is 65504, the smallest normal one 6.1e-5, and below 6e-8 there is only
zero. A CPU hides all of this: it has few half-precision kernels, casts to float32 and back, and
drops the casts between. A GPU does not (microsoft/onnxconverter-common issues 323, 249, 268;
NVIDIA/TensorRT issue 2709). So it is read from the calibrated ranges instead:

- a value beyond 65504 overflows;
- a reduction may add up to more than that before it divides or takes a root: the sum of a
  ReduceMean over n elements is n times its result, whatever is added first;
- an integer as a float, and what arithmetic makes of it, loses its last digits beyond 2048;
- a value or a constant that never leaves the subnormals has lost its digits, or is zero; of an
  epsilon only the size matters.

Products are taken to be summed in float32, as tensor cores do, and LayerNormalization computes in
float32 by its definition.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.graph.runtime import observed_shapes
from edgeopt.transforms.base import Evidence, Range
from edgeopt.transforms.counts import counted
from edgeopt.transforms.local_rule import integers

LARGEST = 65504.0
LARGEST_COUNT = 2048.0
"""Up to here float16 has all integers."""
SMALLEST_NORMAL = 2.0**-14
_SMALLEST_SIZE = 5 * 2.0**-24
"""From here on rounding changes a number by a tenth at most."""
_MEANS = frozenset({"ReduceMean", "GlobalAveragePool"})
_SAID = 3
Problem = Literal["overflow", "sum", "digits", "vanishes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfHalf:
    """Something that float16 cannot hold.

    Args:
        name: Of the value, or of the constant.
        operator: That makes it; `constant` where nothing does.
        problem: `overflow`, `sum` (on the way to the result only), `digits` (of integers), or
            `vanishes`.
        largest: Magnitude that was seen.
    """

    name: str
    operator: str
    problem: Problem
    largest: float

    @property
    def sentence(self) -> str:
        """What a reader must know."""
        what = f"{self.operator} {self.name!r}"
        if self.problem == "overflow":
            return f"{what} reaches {self.largest:.3g}, beyond float16's 65504"
        if self.problem == "sum":
            return (
                f"{what} adds up to {self.largest:.3g} before it divides or takes a root, beyond "
                "float16's 65504"
            )
        if self.problem == "digits":
            return f"{what} counts to {self.largest:.5g}; float16 has all integers to 2048 only"
        return f"{what} is nowhere above {self.largest:.3g}: float16 has no digits for it"


def out_of_half(model: ir.Model, evidence: Evidence, *, room: float = 1.0) -> list[OutOfHalf]:
    """What float16 cannot hold of a float graph on its calibration part, in graph order.

    Args:
        model: A float graph.
        evidence: Of the calibration part; without data only constants are looked at.
        room: Factor that values are expected to exceed calibration by.

    Raises:
        RuntimeFailure: The model does not run here.
    """
    names = [value.name for value in _computed(model.graph) if value.name]
    ranges, _ = evidence.ranges(model, names, None)
    feeds = evidence.feeds(1)
    shapes = observed_shapes(model, feeds[0]) if feeds else {}
    return found_in(model, ranges, shapes, room=room)


def found_in(
    model: ir.Model,
    ranges: Mapping[str, Range],
    shapes: Mapping[str, Sequence[int]],
    *,
    room: float = 1.0,
) -> list[OutOfHalf]:
    """As `out_of_half`, from known ranges and shapes of values by name."""
    found: list[OutOfHalf] = []
    for value in model.graph.initializers.values():
        # Of a single number, an epsilon, only its size matters; subnormals have that.
        single = value.shape is not None and value.shape.numpy() in ((), (1,))
        least = _SMALLEST_SIZE if single else SMALLEST_NORMAL
        found += _of(value.name or "", "constant", _magnitude(value), 1.0, least)
    counts = counted(model.graph)
    for value in _computed(model.graph):
        made, name = value.producer(), value.name or ""
        if name not in ranges:
            continue
        largest = max(-ranges[name].low, ranges[name].high, 0.0)
        operator = "input" if made is None else made.op_type
        one = _of(name, operator, largest, room)
        summed = 0.0 if one or made is None else _summed(made, largest, shapes)
        if summed * room > LARGEST:
            one = [OutOfHalf(name=name, operator=operator, problem="sum", largest=summed)]
        if not one and value in counts and largest * room > LARGEST_COUNT:
            one = [OutOfHalf(name=name, operator=operator, problem="digits", largest=largest)]
        found += one
    return found


def sentences(found: Sequence[OutOfHalf], where: str) -> list[str]:
    """What a reader of a float16 result must know, overflows first; a few sentences."""
    order: tuple[Problem, ...] = ("overflow", "sum", "digits", "vanishes")
    told = sorted(found, key=lambda one: order.index(one.problem))
    lines = [f"in float16 on {where}, {one.sentence}" for one in told[:_SAID]]
    rest = len(told) - _SAID
    return [*lines, f"in float16 on {where}, {rest} more values do not fit"] if rest > 0 else lines


def _computed(graph: ir.Graph) -> list[ir.Value]:
    values = [*graph.inputs, *(output for node in graph for output in node.outputs)]
    return [value for value in values if value.dtype in (ir.DataType.FLOAT, None)]


def _of(
    name: str, operator: str, largest: float, room: float, least: float = SMALLEST_NORMAL
) -> list[OutOfHalf]:
    problem: Problem
    if largest * room > LARGEST:
        problem = "overflow"
    elif 0.0 < largest < least:
        problem = "vanishes"
    else:
        return []
    return [OutOfHalf(name=name, operator=operator, problem=problem, largest=largest)]


def _magnitude(value: ir.Value) -> float:
    """Of the largest finite element of a float32 constant; infinities stay what they are."""
    array = array_of(value) if value.dtype is ir.DataType.FLOAT else None
    if array is None or not array.size:
        return 0.0
    sizes = np.abs(array[np.isfinite(array)])
    return float(sizes.max(initial=0.0))


def _summed(node: ir.Node, largest: float, shapes: Mapping[str, Sequence[int]]) -> float:
    """The largest sum on the way to a result of a reduction; 0 for anything else."""
    if node.op_type in _MEANS:
        source, made = node.inputs[0], node.outputs[0]
        before = shapes.get("" if source is None else source.name or "", ())
        after = shapes.get(made.name or "", ())
        return largest * math.prod(before) / max(math.prod(after), 1)
    if node.op_type == "AveragePool":
        return largest * math.prod(integers(node, "kernel_shape"))
    if node.op_type == "ReduceL2":
        return largest**2
    if node.op_type in ("ReduceLogSum", "ReduceLogSumExp"):
        return math.exp(min(largest, 700.0))
    return 0.0
