"""`Editor`: every change to a graph under work goes through here, and can be undone.

Transforms never call onnx_ir's mutators themselves. The editor keeps, for each edit, the step
that takes it back; `undo(mark)` runs them in reverse. Undoing restores the serialised bytes.
Names matter: a site is the name of a value, so an edit that replaces the producer of a value
keeps the value's name (`replace_value`), and new values are named after the rule and the value
that they serve, never after a counter.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.bodies import captured, inner_nodes, sees, view
from edgeopt.graph.places import Places

_GRAPHS = frozenset({ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS})


class Editor:
    """Reversible edits of one model.

    Args:
        model: Changed in place; the caller owns it.
    """

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self._undo: list[Callable[[], None]] = []
        self._whole: Editor = self
        self._own_places = Places(model)

    @property
    def graph(self) -> ir.Graph:
        """The main graph as it is now; of an editor `inside` a body, that body."""
        return self.model.graph

    @property
    def places(self) -> Places:
        """What lies where in the whole model, as it is now."""
        return self._whole._own_places

    @property
    def bodies(self) -> Mapping[ir.Graph, ir.Graph]:
        """The `parents` of the whole model's bodies, as it is now."""
        return self.places.around

    def producer(self, name: str) -> ir.Node | None:
        """The node of this graph that makes the value of that name."""
        return self.places.producer(name, self.graph)

    def inside(self, body: ir.Graph) -> "Editor":
        """An editor of a body of the same model; `undo` takes back the edits of both."""
        if body is self.graph:
            return self
        inner = Editor(view(self.model, body))
        inner._undo, inner._whole = self._undo, self._whole
        return inner

    def mark(self) -> int:
        """A point to go back to."""
        return len(self._undo)

    def undo(self, mark: int = 0) -> None:
        """Take back every edit since the mark, last first."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def insert(self, nodes: Iterable[ir.Node], *, before: ir.Node) -> None:
        """Insert new nodes, in order, before a node of the same graph."""
        graph = before.graph
        if graph is None:
            raise ValueError(f"{before.name!r} is in no graph")
        for node in nodes:
            graph.insert_before(before, node)
            self._attached(node, graph)

    def insert_after(self, nodes: Iterable[ir.Node], *, after: ir.Node) -> None:
        """Insert new nodes, in order, directly after a node of the same graph."""
        graph = after.graph
        if graph is None:
            raise ValueError(f"{after.name!r} is in no graph")
        for node in nodes:
            graph.insert_after(after, node)
            self._attached(node, graph)
            after = node

    def append(self, nodes: Iterable[ir.Node]) -> None:
        """Append new nodes at the end of the main graph."""
        graph = self.graph
        for node in nodes:
            graph.append(node)
            self._attached(node, graph)

    def _attached(self, node: ir.Node, graph: ir.Graph) -> None:
        places = self.places
        _name_apart(node, places)
        places.attached(node)

        def restore() -> None:
            graph.remove(node, safe=True)
            places.detached(node)

        self._undo.append(restore)

    def remove(self, node: ir.Node) -> None:
        """Remove a node whose outputs nobody uses; its bodies no longer use anything either.

        Raises:
            ValueError: An output is still used, or is a graph output.
        """
        graph = node.graph
        if graph is None:
            raise ValueError(f"{node.name!r} is in no graph")
        readers = [node, *inner_nodes(node)]
        inputs = [tuple(reader.inputs) for reader in readers]
        follower, places = _follower(graph, node), self.places
        graph.remove(node, safe=True)
        for inner in readers[1:]:
            _read(inner, [None] * len(inner.inputs))
        places.detached(node)

        def restore() -> None:
            if follower is None:
                graph.append(node)
            else:
                graph.insert_before(follower, node)
            for reader, values in zip(readers, inputs, strict=True):
                _read(reader, values)
            places.attached(node)

        self._undo.append(restore)

    def set_input(self, node: ir.Node, index: int, value: ir.Value | None) -> None:
        """Let one input of a node read another value; grows the inputs where needed."""
        size, places = len(node.inputs), self.places
        if index >= size:
            node.resize_inputs(index + 1)
            self._undo.append(lambda: node.resize_inputs(size))
        old = node.inputs[index]
        node.replace_input_with(index, value)
        places.rewired(node)

        def restore() -> None:
            node.replace_input_with(index, old)
            places.rewired(node)

        self._undo.append(restore)

    def set_attribute(self, node: ir.Node, name: str, value: Any) -> None:
        """Set an attribute (a Python value or an `ir.Attr`), or delete it with None.

        A body that goes with it no longer uses anything.
        """
        before, inside = list(node.attributes.values()), list(inner_nodes(node))
        if value is None:
            node.attributes.pop(name, None)
        else:
            made = (
                value
                if isinstance(value, ir.Attr)
                else ir.convenience.convert_attribute(name, value)
            )
            node.attributes[name] = made  # pyright: ignore[reportArgumentType]

        places = self.places
        holds = _GRAPHS & {each.type for each in (*before, *node.attributes.values())}
        left = set(inner_nodes(node))
        gone = [inner for inner in inside if inner not in left]
        inputs = [tuple(inner.inputs) for inner in gone]
        for inner in gone:
            _read(inner, [None] * len(inner.inputs))
        if holds:
            places.forget()

        # Their order is part of the bytes: all are put back.
        def restore() -> None:
            node.attributes.clear()
            node.attributes.update({each.name: each for each in before})
            for inner, values in zip(gone, inputs, strict=True):
                _read(inner, values)
            if holds:
                places.forget()

        self._undo.append(restore)

    def replace_uses(self, old: ir.Value, new: ir.Value, *, keep: Iterable[ir.Node] = ()) -> None:
        """Let every user of `old` read `new`, except the nodes in `keep`; graph outputs stay."""
        kept = set(keep)
        for user, index in tuple(old.uses()):
            if user not in kept:
                self.set_input(user, index, new)

    def replace_value(self, old: ir.Value, new: ir.Value) -> None:
        """Let `new` take the place of `old` everywhere, its name and graph output included.

        The old value gets the name `<name>__replaced` and no users. Shape and type of `old` are
        taken over where `new` has none, and always for a graph output: it is a contract.
        """
        name, old_new_name, places = old.name, new.name, self.places
        graph = self._owner(old)
        outputs = graph.outputs
        was_output = [i for i, output in enumerate(outputs) if output is old]
        self.replace_uses(old, new)
        _rename(old, f"{name}__replaced", places)
        _rename(new, name, places)
        shape, dtype = new.shape, new.type
        new.shape = old.shape if was_output or new.shape is None else new.shape
        new.type = old.type if was_output or new.type is None else new.type
        for index in was_output:
            outputs[index] = new
        places.returns(graph)

        def restore() -> None:
            for index in was_output:
                outputs[index] = old
            places.returns(graph)
            _rename(new, old_new_name, places)
            _rename(old, name, places)
            new.shape, new.type = shape, dtype

        self._undo.append(restore)

    def import_domain(self, domain: str, version: int) -> None:
        """Declare the operator set of a domain where the model does not yet."""
        for graph in dict.fromkeys((self._whole.graph, self.graph)):
            opsets = graph.opset_imports
            if domain not in opsets:
                opsets[domain] = version
                self._undo.append(lambda opsets=opsets: opsets.__delitem__(domain))

    def set_shape(self, value: ir.Value, shape: ir.Shape | None) -> None:
        """Change what is recorded about a value's shape."""
        old = value.shape
        value.shape = shape

        def restore() -> None:
            value.shape = old

        self._undo.append(restore)

    def initializer(self, name: str, array: npt.NDArray[Any] | ir.TensorProtocol) -> ir.Value:
        """A constant of this graph; the value of that name where it is there and equal.

        A tensor that is computed when it is asked for stays so.

        Bodies see the constants of the graphs around them. An equal one of a body that does not
        see this graph moves to the main graph, for both; beside another constant of that name
        the new one's name gets a `+`.

        Raises:
            ValueError: The name is taken by another constant of this graph.
        """
        held = self.graph.initializers.get(name)
        if held is not None:
            if _equal(held, array):
                return held
            raise ValueError(f"an initializer {name!r} with another value is there already")
        around = self.bodies
        while elsewhere := [g for g in (self._whole.graph, *around) if name in g.initializers]:
            same = next((g for g in elsewhere if _equal(g.initializers[name], array)), None)
            if same is not None:
                found = same.initializers[name]
                if not sees(self.graph, same, around):
                    self._lift(found, same)
                return found
            name += "+"
        if isinstance(array, np.ndarray | np.generic):
            # Not ir.tensor: it asks what kind of object this is, for ten times as long.
            tensor: ir.TensorProtocol = ir.Tensor(np.asarray(array, order="C"), name=name)
        else:
            tensor = array
            tensor.name = name
        value = ir.Value(
            name=name,
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(tensor.shape.numpy()),
            const_value=tensor,
        )
        self._register(self.graph, value)
        return value

    def _register(self, graph: ir.Graph, value: ir.Value) -> None:
        graph.register_initializer(value)

        def restore() -> None:
            graph.initializers.pop(value.name or "")

        self._undo.append(restore)

    def _lift(self, value: ir.Value, graph: ir.Graph) -> None:
        """Move a constant of a body to the main graph, where every body sees it."""
        self._pop([value], graph)
        self._register(self._whole.graph, value)

    def drop_initializer(self, value: ir.Value) -> None:
        """Take a constant out that nobody uses any more."""
        graph, name = self._owner(value), value.name
        if name is None or value.uses():
            raise ValueError(f"initializer {name!r} is still used")
        self._pop([value], graph)

    def _pop(self, values: Sequence[ir.Value], graph: ir.Graph) -> None:
        # A dict keeps insertion order, and the order is part of the bytes: rebuild it on undo.
        # Through `data`, since each assignment to the container itself asks what it may hold.
        order = list(graph.initializers.data)
        for value in values:
            graph.initializers.pop(value.name or "")

        def restore() -> None:
            for value in values:
                graph.register_initializer(value)
            data = graph.initializers.data
            held = dict(data)
            data.clear()
            data.update({each: held.pop(each) for each in order if each in held})
            data.update(held)

        self._undo.append(restore)

    def replace_model(self, model: ir.Model) -> None:
        """Put a whole other model in (the result of a tool that works on files)."""
        old, places = self.model, self._own_places
        self.model, self._own_places = model, Places(model)

        def restore() -> None:
            self.model, self._own_places = old, places

        self._undo.append(restore)

    def remove_dead(self, start: Iterable[ir.Node]) -> None:
        """Remove these nodes and, behind them, every node and constant that became unused."""
        waiting = list(start)
        read: dict[ir.Value, None] = {}
        while waiting:
            node = waiting.pop()
            if node.graph is None or any(_used(output) for output in node.outputs):
                continue
            inputs = [value for value in (*node.inputs, *captured(node)) if value is not None]
            self.remove(node)
            waiting += [p for value in inputs if (p := value.producer()) is not None]
            read |= dict.fromkeys(inputs)
        # All at once: putting one back costs as much as putting all back.
        unused: dict[ir.Graph, list[ir.Value]] = {}
        for value in read:
            if value.is_initializer() and not (value.is_graph_input() or _used(value)):
                unused.setdefault(self._owner(value), []).append(value)
        for graph, values in unused.items():
            self._pop(values, graph)

    def _owner(self, value: ir.Value) -> ir.Graph:
        """The graph that a value belongs to: the main one, or the body of an If or a loop."""
        return value.graph if isinstance(value.graph, ir.Graph) else self._whole.graph


def new_node(
    operator: str,
    inputs: Sequence[ir.Value | None],
    *,
    output: str,
    attributes: dict[str, Any] | None = None,
    domain: str = "",
    like: ir.Value | None = None,
) -> ir.Node:
    """A node with one named output, named after it; shape and type as `like` where given."""
    node = ir.node(
        operator, list(inputs), attributes or {}, domain=domain, name=f"{output}/{operator}"
    )
    made = node.outputs[0]
    made.name = output
    if like is not None:
        made.shape, made.type = like.shape, like.type
    return node


def array_of(value: ir.Value | None) -> npt.NDArray[Any] | None:
    """The array of a constant (initializer or Constant node); None where it is no constant."""
    if value is None:
        return None
    tensor = ir.convenience.get_const_tensor(value)
    return None if tensor is None else tensor.numpy()


def sole_user(value: ir.Value) -> ir.Node | None:
    """The only node that uses a value; None where it has others or is a graph output."""
    users = value.uses()
    if len(users) != 1 or value.is_graph_output():
        return None
    return next(iter(users))[0]


def _equal(value: ir.Value, array: npt.NDArray[Any] | ir.TensorProtocol) -> bool:
    if value.const_value is None:
        return False
    found = value.const_value.numpy()
    other = array if isinstance(array, np.ndarray | np.generic) else array.numpy()
    return found.dtype == other.dtype and np.array_equal(found, other)


def _read(node: ir.Node, values: Sequence[ir.Value | None]) -> None:
    for index, value in enumerate(values):
        node.replace_input_with(index, value)


def _name_apart(node: ir.Node, places: Places) -> None:
    """Lengthen names of new values that others have: a rule may act twice around one site."""
    for value in node.outputs:
        name = value.name or ""
        while name and any(other is not value for other in places.made.get(name, ())):
            name += "+"
        if name != (value.name or ""):
            if node.name == f"{value.name}/{node.op_type}":
                node.name = f"{name}/{node.op_type}"
            value.name = name


def _rename(value: ir.Value, name: str | None, places: Places) -> None:
    old, value.name = value.name, name
    places.renamed(value, old)


def _used(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _follower(graph: Any, node: ir.Node) -> ir.Node | None:
    # The library's own list knows it; nothing public asks for it without walking there.
    boxes = getattr(getattr(graph, "_nodes", None), "_value_ids_to_boxes", None)
    if boxes is not None:
        return boxes[id(node)].next.value
    following = iter(graph)
    for candidate in following:
        if candidate is node:
            return next(following, None)
    return None
