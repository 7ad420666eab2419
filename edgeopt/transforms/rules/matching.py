"""Where a rule fits: its patterns laid over the nodes of an onnx_ir graph, with backtracking.

A match is structural first (operators, attributes, constants, both orders of what commutes), then
it must not take away what something else reads, then `sound`, then `worth`. Where all fails, the
reason is the one of the attempt that came farthest.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import onnx_ir as ir

from edgeopt.core.action import Parameter
from edgeopt.graph.editor import array_of
from edgeopt.transforms.rules.facts import attributes_of, bound, default_of, is_constant, node_of
from edgeopt.transforms.rules.form import Binding, Pattern, Rule
from edgeopt.transforms.rules.sizes import Refused
from edgeopt.transforms.rules.terms import (
    Call,
    Computed,
    Const,
    Either,
    Fixed,
    Literal,
    Out,
    Tensor,
    Term,
)

COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "And", "Or", "Xor", "Equal"})
ELEMENTWISE = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu"})
TOLERANCE = 1e-6
"""How far a literal may be from what it stands for: 1/6 in seven digits."""
_HALF_TOLERANCE = 2.0**-10
_ROLES = {"Conv": "weight", "ConvTranspose": "weight", "Gemm": "weight", "MatMul": "weight"}
_CHECKED = 10_000
"""Farther than any structural attempt: the pattern fits, a condition does not."""


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """A rule laid over a graph.

    Args:
        rule: The rule.
        pattern: The spelling that fits.
        bindings: Parameters of the rule's functions, by name.
        nodes: The node of each operator of the pattern.
        roots: The values that the replacement takes the place of: of the pattern's roots those that
            the nodes have.
        values: Parameters of the action.
    """

    rule: Rule
    pattern: Pattern
    bindings: Mapping[str, Binding]
    nodes: Mapping[Call, ir.Node]
    roots: tuple[ir.Value, ...]
    values: Mapping[str, Parameter]

    @property
    def root(self) -> ir.Node:
        """The node that the site is named after."""
        return self.nodes[self.pattern.root]

    @property
    def has(self) -> tuple[bool, ...]:
        """For each root of the pattern, whether the node has that output."""
        roots = self.pattern.roots
        return tuple(root.index < len(self.nodes[root.call].outputs) for root in roots)

    @property
    def site(self) -> str:
        """Name of the root's first output."""
        return self.root.outputs[0].name or ""

    @property
    def parameters(self) -> dict[str, Parameter]:
        """What the action says beside its site: its values, and the other root of siblings."""
        calls = dict.fromkeys(root.call for root in self.pattern.roots)
        others = [self.nodes[call].outputs[0].name or "" for call in list(calls)[1:]]
        named = {f"beside{i or ''}": name for i, name in enumerate(others)}
        return {**self.values, **named}


def root_types(rule: Rule) -> frozenset[str]:
    """Operators that a site of the rule can be named after."""
    arity = rule.arities[0] if rule.variadic else 0
    return frozenset(t for p in rule.patterns(arity) for t in p.root.op_types)


def matches(rule: Rule, node: ir.Node, version: int) -> Iterator[Match]:
    """Every way in which a rule fits at a root: one for each of its parameters and siblings.

    Args:
        rule: The rule.
        node: Where its root is looked for.
        version: Of the default operator set.
    """
    search = Search(rule, node, version)
    if any(_may_fit(pattern, node) for pattern in search.patterns):
        yield from search.found()


def _may_fit(pattern: Pattern, node: ir.Node) -> bool:
    """Whether the operators directly before a node are those of the pattern: a cheap first look."""
    made = [None if v is None else v.producer() for v in node.inputs]
    types = ["" if each is None else each.op_type for each in made]
    makers = pattern.makers
    either_way = node.op_type in COMMUTATIVE or pattern.root.either_way
    if either_way and len(types) == len(makers) == 2:
        return _made_by(types, makers) or _made_by(types[::-1], makers)
    return len(types) >= sum(map(bool, makers)) and _made_by(types, makers)


def _made_by(types: list[str], makers: tuple[frozenset[str], ...]) -> bool:
    return all(
        not wanted or (index < len(types) and types[index] in wanted)
        for index, wanted in enumerate(makers)
    )


class Search:
    """One rule at one node.

    Args:
        rule: The rule.
        node: Where its root is looked for.
        version: Of the default operator set.
    """

    def __init__(self, rule: Rule, node: ir.Node, version: int) -> None:
        self.rule = rule
        self.reason = f"{node.op_type} is no root of {rule.name}"
        self.fault = node
        self._node = node
        self._version = version
        self._reach = -1
        self._values: dict[Tensor, ir.Value | None] = {}
        self._nodes: dict[Call, ir.Node] = {}
        self._trail: list[Tensor | Call] = []
        self._swapped: dict[Call, bool] = {}

    def found(self) -> Iterator[Match]:
        """Matches, best spelling first; afterwards `reason` says why there are no more."""
        combinations = [dict[str, Parameter]()]
        if self.rule.parameters:
            names = list(self.rule.parameters)
            every = product(*self.rule.parameters.values())
            combinations = [dict(zip(names, each, strict=True)) for each in every]
        for values in combinations:
            seen: set[tuple[ir.Node, ...]] = set()
            for match in self._solutions(values):
                roots = tuple(dict.fromkeys(match.nodes[r.call] for r in match.pattern.roots))
                if roots not in seen:
                    seen.add(roots)
                    yield match
                if len(roots) == 1:
                    break

    def _solutions(self, values: Mapping[str, Parameter]) -> Iterator[Match]:
        for pattern in self.patterns:
            root = pattern.root
            if self._node.op_type not in root.op_types or self._node.domain != root.domain:
                continue
            self._values, self._nodes, self._trail = {}, {}, []
            first = pattern.roots[0]
            if len(self._node.outputs) <= first.index:
                continue
            start = (first, self._node.outputs[first.index], None)
            for _ in self._solve((start, None), pattern):
                match = self._checked(pattern, values)
                if match is not None:
                    yield match

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The spellings, for as many branches as the node has."""
        return self.rule.patterns(self._arity())

    def _arity(self) -> int:
        if not self.rule.variadic:
            return 0
        made = len(self._node.outputs)
        count = made if made > 1 else len(self._node.inputs)
        return count if count in self.rule.arities else self.rule.arities[0]

    # --- structure

    def _solve(self, todo: Any, pattern: Pattern) -> Iterator[None]:
        """Bind everything that is left to do, in every way; a linked list of term and value."""
        while todo is not None:
            (want, value, beside), todo = todo
            if isinstance(want, Either):
                for option in want.options:
                    mark = len(self._trail)
                    yield from self._solve(((option, value, beside), todo), pattern)
                    self._back(mark)
                return
            if not isinstance(want, Call | Out):
                if not self._leaf(want, value, beside):
                    return
                continue
            call, index = (want, 0) if isinstance(want, Call) else (want.call, want.index)
            if call in self._nodes:
                if value is None or value not in self._nodes[call].outputs[index : index + 1]:
                    return
                continue
            orders = self._enter(call, value, index)
            for order in orders[:-1]:
                mark = len(self._trail)
                self._swapped[call] = False
                yield from self._solve(_push(call, order, todo), pattern)
                self._back(mark)
            if not orders:
                return
            self._swapped[call] = len(orders) > 1
            todo = _push(call, orders[-1], todo)
        yield from self._siblings(pattern)

    def _enter(
        self, call: Call, value: ir.Value | None, index: int
    ) -> tuple[tuple[ir.Value | None, ...], ...]:
        """Bind an operator to the node that makes a value; the orders in which its inputs count."""
        node = None if value is None else value.producer()
        if node is None or node.op_type not in call.op_types or node.domain != call.domain:
            made = "an input" if node is None else node.op_type
            wanted = " or ".join(call.op_types)
            name = None if value is None else value.name
            return self._miss(call.missing or f"{name!r} is made by {made}, not by {wanted}", node)
        if node.graph is not self._node.graph:
            return self._miss(f"{node.name!r} lies in another graph", node)
        if len(node.outputs) <= index or node.outputs[index] is not value:
            return self._miss(f"it is another output of {node.op_type}", node)
        if call.outputs > 1 and not call.least <= len(node.outputs) <= call.outputs:
            return self._miss(f"{node.op_type} has not {call.outputs} outputs", node)
        wrong = self._other_attribute(call, node)
        if wrong:
            return self._miss(wrong, node)
        inputs = tuple(node.inputs)
        if any(each is not None for each in inputs[len(call.inputs) :]):
            return self._miss(call.missing or f"{node.op_type} has more inputs", node)
        if call.missing and len(inputs) < _least(call):
            return self._miss(call.missing, node)
        inputs = (inputs + (None,) * len(call.inputs))[: len(call.inputs)]
        self._nodes[call] = node
        self._trail.append(call)
        either_way = node.op_type in COMMUTATIVE or call.either_way
        swaps = len(inputs) == 2 and either_way and inputs[0] is not inputs[1]
        return (inputs, inputs[::-1]) if swaps else (inputs,)

    def _other_attribute(self, call: Call, node: ir.Node) -> str:
        """What differs from the attributes that the pattern asks for; empty where nothing does."""
        if not call.attributes:
            return ""
        written = attributes_of(node)
        for name, wanted in call.attributes.items():
            default = default_of(node.op_type, node.domain, self._version, name)
            if written.get(name, default) != wanted:
                return f"{name} of {node.op_type} is not {wanted}"
        return ""

    def _leaf(self, want: Term | None, value: ir.Value | None, beside: Any) -> bool:
        if want is None:
            return value is None or bool(self._miss("an input is there that must be left out"))
        if isinstance(want, Literal):
            return self._literal(want, value, beside)
        if isinstance(want, Fixed):
            found = array_of(value)
            same = found is not None and np.array_equal(found, want.array)
            return same or bool(self._miss(f"it is not {want.array.tolist()}"))
        assert isinstance(want, Tensor), "a pattern holds variables, numbers and operators"
        if want in self._values:
            same = self._values[want] is value
            return same or bool(self._miss(f"{want.name} is not the same value everywhere"))
        if value is None and not want.optional:
            return bool(self._miss(f"the input {want.name} is left out"))
        if value is not None and isinstance(want, Const) and not is_constant(value):
            return bool(self._miss(self._no_constant(want, value)))
        if value is not None and isinstance(want, Computed) and is_constant(value):
            return bool(self._miss(f"{value.name!r} is a constant"))
        self._values[want] = value
        self._trail.append(want)
        return True

    def _no_constant(self, want: Tensor, value: ir.Value) -> str:
        if want.name in self.rule.no_constant:
            return self.rule.no_constant[want.name]
        for user, index in value.uses():
            if user.op_type in _ROLES and index:
                return f"the {_ROLES[user.op_type] if index == 1 else 'bias'} is no constant"
        return f"{value.name!r} is no constant"

    def _literal(self, want: Literal, value: ir.Value | None, beside: Any) -> bool:
        found = array_of(value) if value is not None and is_constant(value) else None
        if found is None or found.size != 1 or found.dtype.kind not in "fiu":
            return bool(self._miss(self.rule.number or f"it is not {want.value:g}"))
        if found.ndim and beside is not None:
            shape = beside.shape
            if shape is None or len(shape) < found.ndim:
                return bool(self._miss(f"{want.value:g} would change the shape"))
        one, other = float(found.reshape(())), want.value
        near = _HALF_TOLERANCE * abs(other) if found.dtype == np.float16 else 0.0
        close = abs(one - other) <= max(near, TOLERANCE * max(1.0, abs(other)))
        return close or bool(self._miss(self.rule.number or f"{one:g} is not {other:g}"))

    def _siblings(self, pattern: Pattern) -> Iterator[None]:
        """Go on with the next root that nothing has reached yet: among users of what is bound."""
        missing = next((r.call for r in pattern.roots if r.call not in self._nodes), None)
        if missing is None:
            yield
            return
        for node in self._candidates(missing):
            if node not in self._nodes.values():
                mark = len(self._trail)
                yield from self._solve(((missing, node.outputs[0], None), None), pattern)
                self._back(mark)

    def _candidates(self, call: Call) -> list[ir.Node]:
        """Nodes that can be a root, found from a variable that is bound already."""
        for each in call.inputs:
            if isinstance(each, Tensor) and self._values.get(each) is not None:
                sources = [self._values[each]]
            elif isinstance(each, Call):
                sources = [node.outputs[0] for node in self._candidates(each)]
            else:
                continue
            users = {u: None for v in sources if v is not None for u, _ in v.uses()}
            found = [u for u in users if u.op_type in call.op_types and u.outputs]
            if found:
                return found
        return []

    def _back(self, mark: int) -> None:
        while len(self._trail) > mark:
            key = self._trail.pop()
            if isinstance(key, Call):
                del self._nodes[key]
            else:
                del self._values[key]

    def _miss(self, reason: str, fault: ir.Node | None = None) -> tuple[()]:
        self._note(len(self._nodes), reason, fault)
        return ()

    def _note(self, reach: int, reason: str, fault: ir.Node | None) -> None:
        if reach > self._reach:
            self._reach, self.reason, self.fault = reach, reason, fault or self._node

    # --- conditions

    def _checked(self, pattern: Pattern, values: Mapping[str, Parameter]) -> Match | None:
        roots = tuple(
            output
            for root in pattern.roots
            for output in self._nodes[root.call].outputs[root.index : root.index + 1]
        )
        try:
            self._check_readers(roots)
            bindings = self._bindings(roots, values)
            self.rule.check_sound(bindings, pattern.arity)
            self.rule.check_worth(bindings, pattern.arity)
        except Refused as refusal:
            self._note(_CHECKED, str(refusal), None)
            return None
        return Match(self.rule, pattern, bindings, dict(self._nodes), roots, values)

    def _check_readers(self, roots: tuple[ir.Value, ...]) -> None:
        """Nobody else may read what goes away.

        Raises:
            Refused: Somebody does.
        """
        inside = set(self._nodes.values())
        for call, node in self._nodes.items():
            for output in node.outputs:
                if call.shared or output in roots:
                    continue
                if output.is_graph_output() or any(u not in inside for u, _ in output.uses()):
                    text = self.rule.shared or f"something else reads {output.name!r}"
                    self._note(_CHECKED, text, node)
                    raise Refused(text)
        nodes = list(dict.fromkeys(value.producer() for value in roots))
        if len(nodes) > 1 and any(_reaches(a, b) for a in nodes for b in nodes if a and b):
            raise Refused("one of the siblings reads what the other makes")

    def _bindings(
        self, roots: tuple[ir.Value, ...], values: Mapping[str, Parameter]
    ) -> dict[str, Binding]:
        found: dict[str, Binding] = dict(values)
        for variable, value in self._values.items():
            found[variable.name] = None if value is None else bound(variable, value)
        for call, node in self._nodes.items():
            if call.alias:
                swapped = call.either_way and self._swapped[call]
                found[call.alias] = node_of(node, self._version, swapped=swapped)
            if call.value:
                found[call.value] = bound(Tensor(call.value), node.outputs[0])
        found["readers"] = frozenset(u.op_type for root in roots for u, _ in root.uses())
        return found


def _least(call: Call) -> int:
    """How many inputs a node must have to fit."""
    needed = [
        index
        for index, each in enumerate(call.inputs, start=1)
        if each is not None and not (isinstance(each, Tensor) and each.optional)
    ]
    return max(needed, default=0)


def _push(call: Call, inputs: tuple[ir.Value | None, ...], todo: Any) -> Any:
    """The inputs of an operator before what was to do already; operators first: they decide."""
    pairs = list(zip(call.inputs, inputs, strict=True))
    for index, (want, value) in reversed(list(enumerate(pairs))):
        beside = None
        if isinstance(want, Literal) and len(pairs) == 2 and call.op_types[0] in ELEMENTWISE:
            beside = inputs[1 - index]
        todo = ((want, value, beside), todo)
    return todo


def _reaches(start: ir.Node, goal: ir.Node) -> bool:
    """Whether a node reads, directly or through others, what another makes."""
    seen: set[ir.Node] = set()
    waiting = [start]
    while waiting:
        for output in waiting.pop().outputs:
            for user, _ in output.uses():
                if user is goal:
                    return True
                if user not in seen:
                    seen.add(user)
                    waiting.append(user)
    return False
