"""Which kernels of ONNX Runtime got slower with a newer version of their operator.

    python benchmarks/opsets.py [--rounds 15]

One node at an old and at a new operator set, on one thread, in turn; times are those of the
running thread. `normalize` raises models, so a kernel far below 1 here has to be in
`graph/opset.py`. Last: what an average pool costs as a depthwise convolution
(`average_to_conv`), alone and between convolutions, at the operator set that pools fast.
"""

import argparse
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.graph.runtime import Session

PLANES, SEQUENCE = (1, 24, 56, 56), (40, 1, 64)
RUNS = 5
AXES = {"axes": np.array([2, 3])}
WINDOW: Mapping[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
UNARY = (
    *("Relu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "LeakyRelu", "Exp", "Erf", "Sqrt"),
    *("Abs", "Neg", "Softplus", "Elu"),
)
BINARY = ("Add", "Mul", "Sub", "Div", "Max", "Pow")


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """One node that reads `x`, at one operator set."""

    operator: str
    opset: int
    attributes: Mapping[str, Any]
    constants: Mapping[str, np.ndarray]
    domain: str = ""

    def model(self, shape: Sequence[int]) -> bytes:
        """A model of this node alone."""
        names = ["x", *(name if array.size else "" for name, array in self.constants.items())]
        node = helper.make_node(
            self.operator, names, ["y"], domain=self.domain, **dict(self.attributes)
        )
        return model_of([node], shape, self.opset, self.constants)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int],
    opset: int,
    constants: Mapping[str, np.ndarray],
) -> bytes:
    """A float model from `x` to `y`."""
    held = [numpy_helper.from_array(a, name) for name, a in constants.items() if a.size]
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "alone", [given], [made], held)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def cases() -> Iterator[tuple[str, Sequence[int], Spelling, Spelling]]:
    """Names, shapes of x, and the old and the new spelling."""

    def pair(
        operator: str, old: int, new: int, constants: Mapping[str, Any] | None = None, **given: Any
    ) -> tuple[Spelling, Spelling]:
        held = {k: np.asarray(v) for k, v in (constants or {}).items()}
        one, two = (
            Spelling(operator=operator, opset=opset, attributes=given, constants=held)
            for opset in (old, new)
        )
        return one, two

    noise = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return noise.standard_normal(shape).astype(np.float32)

    planes = [pair("AveragePool", 18, 21, **WINDOW), pair("MaxPool", 18, 22, **WINDOW)]
    planes += [pair("LpPool", 11, 18, **WINDOW), pair("GlobalAveragePool", 18, 22)]
    for operator in ("ReduceMean", "ReduceMax", "ReduceL2", "ReduceProd"):
        old = pair(operator, 13, 13, axes=[2, 3])[0]
        planes.append((old, pair(operator, 21, 21, AXES)[0]))
    scales = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    kind = {"coordinate_transformation_mode": "asymmetric"}
    planes.append(pair("Resize", 13, 21, scales, mode="nearest", nearest_mode="floor", **kind))
    planes.append(pair("Resize", 13, 21, scales, mode="linear", **kind))
    planes.append(pair("Pad", 13, 21, {"pads": [0, 0, 1, 1, 0, 0, 1, 1]}))
    planes += [pair("Softmax", 13, 21), pair("Transpose", 13, 21, perm=[0, 2, 3, 1])]
    planes.append(pair("Clip", 12, 21, {"low": np.float32(0), "high": np.float32(6)}))
    planes += [pair(operator, 14, 22) for operator in UNARY]
    planes += [pair(operator, 12, 21, {"b": abs(weights(24, 1, 1))}) for operator in BINARY]
    planes.append(pair("Conv", 11, 22, {"w": weights(32, 24, 1, 1)}))
    planes.append(pair("ConvTranspose", 11, 22, {"w": weights(24, 8, 2, 2)}))
    planes.append(pair("InstanceNormalization", 6, 22, {"s": weights(24), "b": weights(24)}))
    gelu = pair("Gelu", 20, 20)[0]
    fused = Spelling(operator="Gelu", opset=18, attributes={}, constants={}, domain="com.microsoft")
    yield from ((f"{a.operator} {a.opset} / {b.opset}", PLANES, a, b) for a, b in planes)
    yield "Gelu com.microsoft / 20", PLANES, fused, gelu
    for operator, gates in (("LSTM", 4), ("GRU", 3)):
        held = {"w": weights(1, gates * 64, 64), "r": weights(1, gates * 64, 64)}
        old, new = pair(operator, 7, 22, held, hidden_size=64)
        yield f"{operator} 7 / 22", SEQUENCE, old, new


def pooled(channels: int, size: int, *, spread: bool, between: bool) -> tuple[bytes, list[int]]:
    """An average pool of 2x2 or the convolution it is, alone or between two convolutions."""
    node = helper.make_node
    noise = np.random.default_rng(0)
    held = {"mean": np.full((channels, 1, 2, 2), 0.25, np.float32)} if spread else {}
    window: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    middle = (
        node("Conv", ["a", "mean"], ["b"], group=channels, **window)
        if spread
        else node("AveragePool", ["a"], ["b"], **window)
    )
    if not between:
        nodes = [node("Identity", ["x"], ["a"]), middle, node("Relu", ["b"], ["y"])]
        return model_of(nodes, [1, channels, size, size], 18, held), [1, channels, size, size]
    for name, shape in (("w1", (channels, 16, 1, 1)), ("w2", (16, channels, 1, 1))):
        held[name] = noise.standard_normal(shape).astype(np.float32)
    nodes = [node("Conv", ["x", "w1"], ["a"]), middle, node("Conv", ["b", "w2"], ["y"])]
    return model_of(nodes, [1, 16, size, size], 18, held), [1, 16, size, size]


def compare(one: bytes, two: bytes, shape: Sequence[int], rounds: int) -> tuple[float, float]:
    """Time of the first over that of the second, and microseconds of the first."""
    sessions = [Session(each, RuntimeSettings(threads=1)) for each in (one, two)]
    feed = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for session, found in zip(sessions, seconds, strict=True):
            start = time.thread_time()
            for _ in range(RUNS):
                session.run(feed)
            if number:
                found.append((time.thread_time() - start) / RUNS)
    first, second = map(statistics.median, seconds)
    return first / second, first * 1e6


def main() -> None:
    """Print a line a kernel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print("time at the old operator set over the time at the new one")
    for name, shape, old, new in cases():
        ratio, micros = compare(old.model(shape), new.model(shape), shape, rounds)
        print(f"  {name:34}{ratio:6.2f}   ({micros:.0f} us)", flush=True)
    print("time of an average pool at operator set 18 over that of its convolution")
    for between in (True, False):
        for channels, size in ((8, 56), (18, 28), (24, 56), (40, 28), (72, 28), (136, 14)):
            pool, shape = pooled(channels, size, spread=False, between=between)
            spread, _ = pooled(channels, size, spread=True, between=between)
            ratio, micros = compare(pool, spread, shape, rounds)
            where = "between convolutions" if between else "alone"
            print(f"  {channels} channels, {where:24}{ratio:6.2f}   ({micros:.0f} us)", flush=True)


if __name__ == "__main__":
    main()
