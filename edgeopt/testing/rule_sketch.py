"""A random model under way: values with known shapes, and where the random decisions come from."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from edgeopt.transforms.rules.inference import Typed, infer
from edgeopt.transforms.rules.sizes import Array
from edgeopt.transforms.rules.terms import Attribute

T = TypeVar("T")
_MOST_ELEMENTS = 50_000


class Draw(Protocol):
    """Where random decisions come from."""

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        ...

    def pick(self, options: Sequence[T]) -> T:
        """One of some options."""
        ...


class FromSeed:
    """Decisions of a seeded generator.

    Args:
        seed: The same seed means the same decisions.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return self._random.randint(low, high)

    def pick(self, options: Sequence[T]) -> T:
        """One of some options."""
        return self._random.choice(options)


class FromHypothesis:
    """Decisions of hypothesis, which makes what fails as small as it can.

    Args:
        draw: Of `st.data()` or `st.composite`.
    """

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return self._draw(st.integers(low, high))

    def pick(self, options: Sequence[T]) -> T:
        """One of some options."""
        return options[self._draw(st.integers(0, len(options) - 1))]


class Undrawable(Exception):  # noqa: N818 (it says what is the case, and is no error)
    """These decisions lead to no valid model."""


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A value of a model under way.

    Args:
        name: Its name.
        dtype: Element type.
        shape: All sizes; the first one of an input may be free in the model.
        array: The value of a constant.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    array: Array | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)


class Sketch:
    """A model under way.

    Args:
        draw: Where decisions come from.
        opset: Of the model.
        dtype: Of its floating-point values.
    """

    def __init__(self, draw: Draw, opset: int, dtype: str) -> None:
        self.draw = draw
        self.opset = opset
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[Made] = []
        self._constants: list[onnx.TensorProto] = []
        self._numbers = np.random.default_rng(draw.integer(0, 10_000))

    def often(self) -> bool:
        """True three times out of four."""
        return self.draw.integer(0, 3) > 0

    def input(self, shape: Sequence[int], dtype: str = "") -> Made:
        """A new input of the model, of its type unless another is said."""
        kind = np.dtype(dtype) if dtype else self.dtype
        made = Made(f"x{len(self._inputs)}", kind, tuple(shape))
        self._inputs.append(made)
        return made

    def constant(self, array: Array) -> Made:
        """A new initializer."""
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return Made(name, array.dtype, array.shape, array)

    def integers(self, *numbers: int) -> Made:
        """A new initializer of integers."""
        return self.constant(np.array(numbers, np.int64))

    def weights(self, shape: Sequence[int], *, positive: bool = False) -> Made:
        """A new initializer of random numbers; now and then all are equal, zero or one."""
        array = self._numbers.normal(0, 1, tuple(shape))
        if self.draw.integer(0, 4) == 0:
            array = np.full(tuple(shape), self.draw.pick((0.0, 1.0, 2.0, 0.5, -1.0, 3.0)))
        if positive:
            array = np.abs(array) + 0.5
        return self.constant(np.asarray(array, self.dtype))

    def node(
        self,
        op_type: str,
        inputs: Sequence[Made | None],
        attributes: Mapping[str, Attribute],
        outputs: int = 1,
        domain: str = "",
    ) -> tuple[Made, ...]:
        """A new node; its outputs have the types that inference finds.

        Raises:
            Undrawable: There is no such node, or it is too large.
        """
        inputs = list(inputs)
        while inputs and inputs[-1] is None:
            inputs.pop()
        types: list[Typed | None] = [
            None if m is None else (helper.np_dtype_to_tensor_dtype(m.dtype), m.shape)
            for m in inputs
        ]
        held = {i: m.array for i, m in enumerate(inputs) if m is not None and m.array is not None}
        found = infer(op_type, domain, self.opset, attributes, types, held, outputs)
        names = ["" if m is None else m.name for m in inputs]
        label = f"v{len(self._nodes)}"
        none = Made("", self.dtype, ())
        made = tuple(
            none if domain and i and each is None else _typed(f"{label}_{i}", each)
            for i, each in enumerate(found)
        )
        written: dict[str, Any] = dict(attributes)
        outs = [m.name for m in made]
        node = helper.make_node(op_type, names, outs, name=label, domain=domain, **written)
        self._nodes.append(node)
        return made

    def model(self, outputs: Sequence[Made]) -> onnx.ModelProto:
        """The model with these outputs; a batch of two is a free size now and then."""
        free = self.draw.pick((True, False))
        inputs = [
            helper.make_tensor_value_info(
                m.name,
                helper.np_dtype_to_tensor_dtype(m.dtype),
                ["N", *m.shape[1:]] if free and m.shape[:1] == (2,) else m.shape,
            )
            for m in self._inputs
        ]
        ends = [
            helper.make_tensor_value_info(
                m.name,
                helper.np_dtype_to_tensor_dtype(m.dtype),
                [f"{m.name}_{axis}" for axis in range(m.rank)],
            )
            for m in dict.fromkeys(outputs)
        ]
        graph = helper.make_graph(self._nodes, "drawn", inputs, ends, self._constants)
        domains = dict.fromkeys(node.domain for node in self._nodes if node.domain)
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(domain, 1) for domain in domains]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def feed(self) -> dict[str, Array]:
        """Numbers for the inputs, zeros among them."""
        found: dict[str, Array] = {}
        for made in self._inputs:
            if made.dtype.kind == "f":
                array = self._numbers.normal(0, 2, made.shape)
                array[self._numbers.random(made.shape) < 0.1] = 0.0
                found[made.name] = np.asarray(array, made.dtype)
            elif made.dtype.kind == "b":
                found[made.name] = np.asarray(self._numbers.random(made.shape) < 0.5)
            else:
                found[made.name] = self._numbers.integers(0, 3, made.shape).astype(made.dtype)
        return found


def _typed(name: str, found: Typed | None) -> Made:
    if found is None or found[1] is None:
        raise Undrawable(f"{name} has no shape")
    sizes = tuple(size for size in found[1] if isinstance(size, int))
    if len(sizes) < len(found[1]) or any(size < 1 for size in sizes):
        raise Undrawable(f"{name} would have the shape {found[1]}")
    if np.prod(sizes) > _MOST_ELEMENTS:
        raise Undrawable(f"{name} would be too large")
    return Made(name, np.dtype(helper.tensor_dtype_to_np_dtype(found[0])), sizes)
