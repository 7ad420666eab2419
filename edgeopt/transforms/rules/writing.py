"""A replacement put into an onnx_ir graph, through the editor, so that it can be taken back.

What depends on constants alone becomes one constant; the rest becomes nodes with inferred types.
New values are called `<site>/<rule>/<role>`: the role is said by the rule, else it follows from
the operator, or, of a constant, from the input that it is.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import compress
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx import defs

from edgeopt.core import digest as digests
from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.rules.facts import plain
from edgeopt.transforms.rules.folding import Folded, evaluate, once, widened
from edgeopt.transforms.rules.inference import SCALED, Typed, infer, record, typed
from edgeopt.transforms.rules.matching import Match
from edgeopt.transforms.rules.sizes import Array, Refused
from edgeopt.transforms.rules.terms import Call, Const, Fixed, Literal, Out, Tensor, Term
from edgeopt.transforms.rules.weights import label_of, text_hash

_LAYERS = frozenset({"Conv", "ConvTranspose", "Gemm"})


def rewrite(editor: Editor, match: Match) -> tuple[ir.Node, ...]:
    """Put the replacement of a match in the place of its roots; returns the new nodes.

    Raises:
        Refused: It cannot be done after all; whatever was begun is the caller's to undo.
    """
    terms = match.rule.replacement(match.bindings, match.pattern.arity)
    if len(terms) != len(match.has):
        raise TypeError(f"{match.rule.name} replaces {len(match.has)} values by {len(terms)}")
    terms = tuple(compress(terms, match.has))
    writer, head = Writer(editor, match), f"{match.site}/{match.rule.name}"
    values = [writer.root(old, term) for old, term in zip(match.roots, terms, strict=True)]
    editor.insert(writer.nodes, before=_anchor(match))
    for old, new in zip(match.roots, values, strict=True):
        _replace(editor, old, new, head, writer.nodes)
    editor.remove_dead(match.nodes.values())
    return tuple(writer.nodes)


class Writer:
    """Makes the values of one replacement.

    Args:
        editor: Of the graph that the match lies in.
        match: What was found.
    """

    def __init__(self, editor: Editor, match: Match) -> None:
        self.nodes: list[ir.Node] = []
        self._editor = editor
        self._match = match
        self._head = f"{match.site}/{match.rule.name}"
        self._version = editor.graph.opset_imports.get("", 1)
        self._made: dict[Term, tuple[ir.Value, ...]] = {}
        self._folded: dict[Term, Folded | None] = {}
        self._gone = {n.name for call, n in match.nodes.items() if not call.shared}
        self._taken: set[str | None] | None = None

    def root(self, old: ir.Value, term: Term) -> ir.Value:
        """The value that takes the place of a root, with a type that agrees with the old one."""
        folded = self._fold(term, None)
        if folded is not None and not isinstance(term, Tensor):
            return self._constant(term, folded, "value")
        made = self._value(term, None, "", root=True)
        if any(made is each for node in self.nodes for each in node.outputs):
            _agree(made, old)
        return made

    # --- values

    def _value(
        self, term: Term, beside: Typed | None, role: str, *, root: bool = False
    ) -> ir.Value:
        if isinstance(term, Tensor):
            value = term.known.key
            assert isinstance(value, ir.Value), "the rewriter binds variables to values"
            return value
        folded = self._fold(term, beside)
        if folded is not None:
            return self._constant(term, folded, role)
        if isinstance(term, Out):
            return self._node(term.call, root=root)[term.index]
        assert isinstance(term, Call), "all that is left is an operator"
        return self._node(term, root=root)[0]

    def _node(self, call: Call, *, root: bool) -> tuple[ir.Value, ...]:
        if call not in self._made:
            self._made[call] = self._new(call, root=root)
        return self._made[call]

    def _new(self, call: Call, *, root: bool) -> tuple[ir.Value, ...]:
        beside = self._beside(call)
        inputs = [
            None if each is None else self._value(each, beside, _role(call, index, self._version))
            for index, each in enumerate(call.inputs)
        ]
        while inputs and inputs[-1] is None:
            inputs.pop()
        output = self._name(call, root=root)
        node = new_node(
            call.op_types[0],
            inputs,
            output=output,
            attributes=_attributes(call),
            domain=call.domain,
        )
        if call.outputs > 1:
            node.resize_outputs(call.outputs)
            for index, extra in enumerate(node.outputs[1:], start=1):
                extra.name = f"{output}/{index}"
        if call.domain:
            self._editor.import_domain(call.domain, 1)
        node.name = self._node_name(call, node)
        for value, found in zip(node.outputs, self._infer(call, inputs), strict=True):
            record(value, found)
        self.nodes.append(node)
        return tuple(node.outputs)

    def _infer(self, call: Call, inputs: Sequence[ir.Value | None]) -> tuple[Typed | None, ...]:
        constants = {
            index: value.const_value.numpy()
            for index, value in enumerate(inputs)
            if value is not None
            and value.const_value is not None
            and (value.dtype == ir.DataType.INT64 or call.op_types[0] in SCALED)
            and not value.is_graph_input()
        }
        types = [None if value is None else typed(value) for value in inputs]
        if any(t is None and v is not None for t, v in zip(types, inputs, strict=True)):
            return (None,) * call.outputs
        opset = self._version
        return infer(
            call.op_types[0], call.domain, opset, call.attributes, types, constants, call.outputs
        )

    # --- constants

    def _constant(self, term: Term, folded: Folded, role: str) -> ir.Value:
        if isinstance(term, Const):
            value = term.known.key
            assert isinstance(value, ir.Value), "the rewriter binds variables to values"
            return value
        if term not in self._made:
            name = f"{self._head}/{getattr(term, 'name', '') or role}"
            while name in self._editor.graph.initializers:
                name += "+"
            self._made[term] = (self._editor.initializer(name, folded.tensor(name)),)
        return self._made[term][0]

    def _fold(self, term: Term | None, beside: Typed | None) -> Folded | None:
        """A term as a constant; None where it depends on more than constants."""
        if isinstance(term, Literal):
            number = beside[0] if beside is not None else int(ir.DataType.FLOAT)
            wide = np.array(term.value)
            return Folded((number, ()), lambda: wide, lambda: repr(term.value))
        if term is None or isinstance(term, Out):
            return None
        if term not in self._folded:
            self._folded[term] = self._folding(term)
        return self._folded[term]

    def _folding(self, term: Term) -> Folded | None:
        if isinstance(term, Fixed):
            return _fixed(term.array)
        if isinstance(term, Const):
            return _weight(term)
        if not isinstance(term, Call) or term.domain:
            return None
        beside = self._beside(term)
        inputs = [self._fold(each, beside) for each in term.inputs]
        missing = zip(inputs, term.inputs, strict=True)
        if not inputs or any(one is None and each is not None for one, each in missing):
            return None
        return self._computed(term, inputs)

    def _computed(self, call: Call, inputs: Sequence[Folded | None]) -> Folded | None:
        types = [None if each is None else each.typed for each in inputs]
        constants = {
            index: each.array()
            for index, each in enumerate(inputs)
            if each is not None and each.dtype == ir.DataType.INT64
        }
        operator, version, attributes = call.op_types[0], self._version, call.attributes

        def compute() -> Array:
            arrays = [None if each is None else widened(each.compute()) for each in inputs]
            return evaluate(operator, version, attributes, arrays)

        lazy = once(compute)
        found = infer(operator, "", version, attributes, types, constants)[0]
        if found is None or found[1] is None or any(not isinstance(s, int) for s in found[1]):
            known = next(t for t in types if t is not None)
            found = (known[0] if found is None else found[0], lazy().shape)
        return Folded(found, lazy, lambda: _text(call, inputs))

    def _beside(self, call: Call) -> Typed | None:
        """The type of the first operand that has one: what numbers beside it have too."""
        for each in call.inputs:
            if isinstance(each, Tensor):
                value = each.known.key
                return typed(value) if isinstance(value, ir.Value) else None
            if isinstance(each, Call | Out):
                folded = self._fold(each, None)
                return folded.typed if folded else typed(self._value(each, None, ""))
            if isinstance(each, Fixed):
                return _fixed(each.array).typed
        return None

    # --- names

    def _name(self, call: Call, *, root: bool) -> str:
        if root and not call.name:
            return self._head
        return self._unused(f"{self._head}/{call.name or call.op_types[0].lower()}")

    def _node_name(self, call: Call, node: ir.Node) -> str | None:
        origin = call.origin.key if call.origin is not None else None
        if isinstance(origin, ir.Node) and not call.name and origin.name in self._gone:
            self._gone.discard(origin.name)
            return origin.name
        return self._unused(f"{node.outputs[0].name}/{node.op_type}")

    def _unused(self, name: str) -> str:
        """The name, lengthened while another value or node has it."""
        if self._taken is None:
            graph = self._editor.graph
            self._taken = {value.name for node in graph for value in node.outputs}
            self._taken |= {node.name for node in graph}
        while name in self._taken:
            name += "+"
        self._taken.add(name)
        return name


def _attributes(call: Call) -> dict[str, Any]:
    """What a new node is given; attributes of the node that it is like are taken as they are."""
    made: dict[str, Any] = dict(call.attributes)
    origin = call.origin
    if origin is not None and isinstance(origin.key, ir.Node):
        held = origin.key.attributes
        same = [n for n, value in made.items() if n in held and plain(held[n]) == value]
        made |= {name: held[name] for name in same}
    return made


def _replace(
    editor: Editor, old: ir.Value, new: ir.Value, head: str, made: Sequence[ir.Node]
) -> None:
    """Let a value take the place of a root; one that was there before keeps its own name."""
    if new.producer() in made and (new.name or "").startswith(head):
        editor.replace_value(old, new)
        return
    if not old.is_graph_output():
        editor.replace_uses(old, new)
        return
    producer = old.producer()
    assert producer is not None, "a root is made by a node"
    copy = new_node("Identity", [new], output=f"{head}/copy", like=old)
    editor.insert([copy], before=producer)
    editor.replace_value(old, copy.outputs[0])


def _agree(new: ir.Value, old: ir.Value) -> None:
    """Let a new value have the type of the old one, where that says more.

    Raises:
        Refused: The two contradict each other.
    """
    if new.dtype is not None and old.dtype is not None and new.dtype != old.dtype:
        raise Refused(f"the result would be {new.dtype} instead of {old.dtype}")
    new.type = old.type if old.type is not None else new.type
    if old.shape is None or new.shape is None:
        new.shape = old.shape if new.shape is None else new.shape
        return
    if len(old.shape) != len(new.shape):
        raise Refused(f"the result would be of shape {new.shape} instead of {old.shape}")
    for one, other in zip(new.shape, old.shape, strict=True):
        if isinstance(one, int) and isinstance(other, int) and one != other:
            raise Refused(f"the result would be of shape {new.shape} instead of {old.shape}")
    new.shape = ir.Shape(
        [
            other if isinstance(other, int) or not isinstance(one, int) else one
            for one, other in zip(new.shape, old.shape, strict=True)
        ]
    )


def _anchor(match: Match) -> ir.Node:
    """The node before which new nodes go: the first root, behind everything that they read.

    Raises:
        Refused: Siblings stand so that there is no such place.
    """
    roots = {node for value in match.roots if (node := value.producer()) is not None}
    if len(roots) == 1:
        return match.root
    graph = match.root.graph
    assert graph is not None, "a match lies in a graph"
    read = {
        made
        for each in match.bindings.values()
        if isinstance(each, Tensor) and isinstance(each.known.key, ir.Value)
        if (made := each.known.key.producer()) is not None and made.graph is graph
    }
    first: ir.Node | None = None
    for node in graph:
        if first is None and node in roots:
            first = node
        elif first is not None and node in read:
            raise Refused("one of the siblings reads what is made after the other")
    assert first is not None, "the roots lie in their graph"
    return first


def _fixed(array: Array) -> Folded:
    kind = int(ir.DataType.from_numpy(array.dtype))
    return Folded((kind, array.shape), lambda: array, lambda: digests.of_array(array))


def _weight(constant: Const) -> Folded | None:
    value, load = constant.known.key, constant.known.load
    found = typed(value) if isinstance(value, ir.Value) else None
    tensor = ir.convenience.get_const_tensor(value) if isinstance(value, ir.Value) else None
    if found is None or load is None or tensor is None:
        return None
    return Folded(found, load, lambda: label_of(tensor))


def _text(call: Call, inputs: Sequence[Folded | None]) -> str:
    """How a constant is computed."""
    parts = ["-" if each is None else each.text() for each in inputs]
    return text_hash(call.op_types[0], str(sorted(call.attributes.items())), *parts)


def _role(call: Call, index: int, version: int) -> str:
    """What an input is called: as a layer's, or by the operator's schema."""
    if call.op_types[0] in _LAYERS and index:
        return "weight" if index == 1 else "bias"
    return _formal(call.op_types[0], call.domain, version, index)


@lru_cache(maxsize=1024)
def _formal(op_type: str, domain: str, version: int, index: int) -> str:
    if not defs.has(op_type, version, domain):
        return f"input{index}"
    inputs = defs.get_schema(op_type, version, domain).inputs
    return inputs[min(index, len(inputs) - 1)].name.lower() if inputs else f"input{index}"
