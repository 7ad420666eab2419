"""A Loop or Scan that always runs the same number of times becomes so many copies of its body."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import onnx_ir as ir

from edgeopt.core.data import Array
from edgeopt.graph.bodies import foreign, inner_nodes
from edgeopt.graph.branches import forget, hand_over
from edgeopt.graph.editor import array_of, new_node

_RANDOM = frozenset(
    {
        "RandomNormal",
        "RandomUniform",
        "RandomNormalLike",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
    }
)
_WITHOUT_STATE = frozenset({"", "ai.onnx.ml", "com.microsoft"})


def trips(node: ir.Node) -> int | str:
    """How often a Loop or Scan runs its body, at least once; else why that is not known."""
    body = node.attributes["body"].as_graph()
    if foreign(body) is not None or None in _states(node):
        return "the body hands on a value that it does not make"
    if any(_differs(each) for each in inner_nodes(node)):
        return "the body holds an operator that keeps a state from one round to the next"
    count = _of_loop(node, body) if node.op_type == "Loop" else _of_scan(node)
    return "it never runs" if count == 0 else count


def unroll(model: ir.Model, node: ir.Node, count: int) -> None:
    """Put copies of the body, one behind the other, in the place of a Loop or Scan, in place.

    Args:
        model: That the node lies in, at whatever depth; its value names are unique. Shapes of
            what the body makes are forgotten: they may differ from round to round.
        node: A Loop or Scan, its operator set at least 13.
        count: Its `trips`.
    """
    around, body = node.graph, node.attributes["body"].as_graph()
    assert isinstance(around, ir.Graph), "it lies in the model"
    rounds = _Rounds(model, node, around, body)
    loop = node.op_type == "Loop"
    ends = 1 if loop else 0
    states = [value for value in _states(node) if value is not None]
    taken = [] if loop else _of_rows(node, rounds, count)
    collected: list[list[ir.Value]] = []
    for number in range(count):
        head = [rounds.number(number), rounds.always()] if loop else []
        made = rounds.paste([*head, *states, *(take(number) for take in taken)], number)
        states, more = made[ends : ends + len(states)], made[ends + len(states) :]
        collected.append(more)
    results = [*states]
    for index, parts in enumerate(zip(*collected, strict=True)):
        axis, backwards = (0, False) if loop else _place(node, "output", index)
        results.append(rounds.stacked(parts, axis, backwards, ends + len(states) + index))
    for output, result in zip(node.outputs, results, strict=True):
        made_here = result.producer()
        hand_over(node, output, result, own=made_here is not None and made_here in rounds.made)
    around.remove(node, safe=True)
    forget(body)


def _of_loop(node: ir.Node, body: ir.Graph) -> int | str:
    given, start = [*node.inputs, None, None][:2]
    limit = _constant(given)
    if limit is None:
        return "the number of rounds is not constant"
    if start is not None and not _is_true(start):
        return "the condition at the start is not constant and true"
    if not _goes_on(body):
        return "the body decides when to stop"
    return max(int(limit.item()), 0)


def _goes_on(body: ir.Graph) -> bool:
    """Whether the condition that a round hands on is always true, if that handed in is."""
    value: ir.Value | None = body.outputs[0]
    while value is not None and value is not body.inputs[1]:
        node = value.producer()
        if node is None or node.op_type != "Identity" or node.domain:
            return _is_true(value)
        value = node.inputs[0]
    return value is not None


def _of_scan(node: ir.Node) -> int | str:
    rows = node.attributes["num_scan_inputs"].as_int()
    sizes: set[int] = set()
    for index, value in enumerate(node.inputs[len(node.inputs) - rows :]):
        axis = _place(node, "input", index)[0]
        size = None if value is None or value.shape is None else value.shape[axis]
        if not isinstance(size, int):
            return "the number of rows is not known"
        sizes.add(size)
    return sizes.pop() if len(sizes) == 1 else "it has inputs of several lengths"


def _place(node: ir.Node, kind: str, index: int) -> tuple[int, bool]:
    """Axis along which a Scan takes or puts rows, and whether it does so backwards."""
    found: list[int] = []
    for what in ("axes", "directions"):
        given = node.attributes.get(f"scan_{kind}_{what}")
        found.append(0 if given is None else int(given.as_ints()[index]))
    return found[0], bool(found[1])


def _states(node: ir.Node) -> Sequence[ir.Value | None]:
    """What is handed into the first round and on to the next."""
    if node.op_type == "Loop":
        return node.inputs[2:]
    return node.inputs[: len(node.inputs) - node.attributes["num_scan_inputs"].as_int()]


def _of_rows(node: ir.Node, rounds: "_Rounds", count: int) -> list[Callable[[int], ir.Value]]:
    """What takes one row of each input that a Scan goes through."""

    def taking(value: ir.Value, axis: int, backwards: bool) -> Callable[[int], ir.Value]:
        return lambda n: rounds.row(value, axis, count - 1 - n if backwards else n)

    values = [value for value in node.inputs if value is not None][len(_states(node)) :]
    return [taking(v, *_place(node, "input", index)) for index, v in enumerate(values)]


def _differs(node: ir.Node) -> bool:
    """Whether a node that runs again may not do what a copy of it does."""
    trains = node.op_type == "Dropout" and len(node.inputs) > 2
    return node.op_type in _RANDOM or trains or node.domain not in _WITHOUT_STATE


def _constant(value: ir.Value | None) -> Array | None:
    array = None if value is None or value.is_graph_input() else array_of(value)
    return array if array is not None and array.size == 1 else None


def _is_true(value: ir.Value) -> bool:
    array = _constant(value)
    return array is not None and bool(array.item())


class _Rounds:
    """Makes what stands in the place of one Loop or Scan."""

    def __init__(self, model: ir.Model, node: ir.Node, around: ir.Graph, body: ir.Graph) -> None:
        self.made: set[ir.Node] = set()
        self._node, self._around, self._body = node, around, body
        self._head = next((value.name for value in node.outputs if value.name), node.op_type)
        self._used = set(_names(model, body))
        self._constants: dict[str, ir.Value] = {}
        self._weights: dict[str, ir.Value] = {}

    def number(self, number: int) -> ir.Value:
        """The number of a round, of the rank that the body says."""
        shape = self._body.inputs[0].shape
        return self._constant(f"round{number}", np.full([1] * len(shape or ()), number, np.int64))

    def always(self) -> ir.Value:
        """The condition of every round."""
        shape = self._body.inputs[1].shape
        return self._constant("always", np.full([1] * len(shape or ()), True))

    def row(self, value: ir.Value, axis: int, index: int) -> ir.Value:
        """One row of a value along an axis, without that axis."""
        at = self._constant(f"row{index}", np.asarray(index, np.int64))
        name = self._fresh(f"{value.name}__row{index}")
        return self._insert(new_node("Gather", [value, at], output=name, attributes={"axis": axis}))

    def stacked(
        self, parts: Sequence[ir.Value], axis: int, backwards: bool, index: int
    ) -> ir.Value:
        """Values of all rounds along a new axis."""
        parts = list(reversed(parts)) if backwards else parts
        name = self._fresh(f"{self._head}__all{index}")
        # All rounds put out the same shape, so what the body says of it holds.
        shape = self._body.outputs[index].shape
        sizes = [] if shape is None else [size for size in shape if isinstance(size, int)]
        if shape is None or len(sizes) != len(shape) or not 0 <= axis < len(sizes):
            where = self._constant(f"axis{axis}", np.array([axis], np.int64))
            rows = [
                self._insert(
                    new_node("Unsqueeze", [part, where], output=self._fresh(f"{name}_{n}"))
                )
                for n, part in enumerate(parts)
            ]
            return self._insert(new_node("Concat", rows, output=name, attributes={"axis": axis}))
        # Joined along the axis that comes behind the new one, then cut: one copy instead of two.
        whole = [*sizes[:axis], len(parts), *sizes[axis:]]
        target = self._constant(f"shape{index}", np.array(whole, np.int64))
        flat = new_node("Concat", parts, output=f"{name}_flat", attributes={"axis": axis})
        return self._insert(new_node("Reshape", [self._insert(flat), target], output=name))

    def paste(self, given: Sequence[ir.Value], number: int) -> list[ir.Value]:
        """A copy of the body that reads these values; returns what it hands on."""
        copy = self._body.clone(allow_outer_scope_values=True)
        actual: dict[ir.Value, ir.Value] = dict(zip(copy.inputs, given, strict=True))
        for name in list(copy.initializers):
            held = copy.initializers.pop(name)
            actual[held] = self._shared(name, held)
        results = [actual.get(value, value) for value in copy.outputs]
        copy.outputs.clear()
        self._rename(copy, number)
        for old, new in actual.items():
            for user, index in tuple(old.uses()):
                user.replace_input_with(index, new)
        nodes = list(copy)
        copy.remove(nodes)
        self._around.insert_before(self._node, nodes)
        self.made |= set(nodes)
        return results

    def _rename(self, copy: ir.Graph, number: int) -> None:
        for part in copy.subgraphs():
            for value in (*part.inputs, *part.initializers.values()):
                value.name = self._fresh(f"{value.name}__{number}")
        for node in copy.all_nodes():
            node.name = node.name and f"{node.name}__{number}"
            for value in node.outputs:
                value.shape = None
                if value.name:
                    value.name = self._fresh(f"{value.name}__{number}")

    def _shared(self, name: str, held: ir.Value) -> ir.Value:
        """A constant of the body, once for all rounds."""
        if name not in self._weights:
            held.name = self._fresh(name)
            self._around.register_initializer(held)
            self._weights[name] = held
        return self._weights[name]

    def _constant(self, role: str, array: Array) -> ir.Value:
        if role not in self._constants:
            name = self._fresh(f"{self._head}__{role}")
            value = ir.Value(
                name=name,
                type=ir.TensorType(ir.DataType.from_numpy(array.dtype)),
                shape=ir.Shape(array.shape),
                const_value=ir.tensor(array, name=name),
            )
            self._around.register_initializer(value)
            self._constants[role] = value
        return self._constants[role]

    def _insert(self, node: ir.Node) -> ir.Value:
        self._around.insert_before(self._node, node)
        self.made.add(node)
        return node.outputs[0]

    def _fresh(self, name: str) -> str:
        while name in self._used:
            name += "+"
        self._used.add(name)
        return name


def _names(model: ir.Model, left_out: ir.Graph) -> Iterator[str]:
    """Names of values, but for those of a body."""
    gone = {left_out, *left_out.subgraphs()}
    for part in (model.graph, *model.graph.subgraphs()):
        if part not in gone:
            made = (value for node in part for value in node.outputs)
            for value in (*part.inputs, *part.initializers.values(), *made):
                yield value.name or ""
