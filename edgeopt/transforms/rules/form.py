"""`Rule`: one substitution, described by up to four typed functions.

    compose = Rule("compose_conv1x1")

    @compose.pattern
    def _(op: Ops, x: Tensor, w: Const, b: Const | None = None) -> Term:
        return op.GlobalAveragePool(op.Conv(x, w, b, _as="conv"))

    @compose.sound                  what must hold for the two sides to be equal
    @compose.worth                  what must hold for the replacement to be the better one
    @compose.replace_with           the other side

Parameters are handed in by name. Their annotation says what they are: `Tensor` any value, `Const`
a constant, `Computed` none, `Const | None = None` an input that may be left out, `Node` a node of
the pattern by its `_as`, `tuple[Const, ...]` one for each branch of a variadic pattern, `int` the
number of branches, `Ops` the operators; in `sound`, `worth` and `replace_with` also the rule's
parameters by their names, and in `worth` `readers: frozenset[str]`, the operators that read the
result.

Whatever `sound` and `worth` ask for with `require` is the reason that people read where it does
not hold. That nobody else reads what a replacement makes away with is no condition to write: the
rewriter derives it.
"""

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from edgeopt.core.action import Parameter
from edgeopt.transforms.rules.terms import (
    Call,
    Computed,
    Const,
    Either,
    Node,
    Ops,
    Out,
    Tensor,
    Term,
)

Result = Term | tuple[Term, ...]
Make = TypeVar("Make", bound=Callable[..., Result])
Check = TypeVar("Check", bound=Callable[..., None])
Binding = Tensor | Node | int | float | str | bool | frozenset[str] | None
OPS = Ops()
_KINDS: Mapping[Any, type] = {kind: kind for kind in (Tensor, Const, Computed, Node, Ops)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One parameter of a rule's function.

    Args:
        name: Of the parameter.
        kind: `Tensor`, `Const`, `Computed`, `Node`, `Ops`, or `object` for plain values.
        optional: Whether it may be None.
        many: Whether it is a tuple, one for each branch.
    """

    name: str
    kind: type
    optional: bool = False
    many: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A rule's function and what it asks for."""

    call: Callable[..., Any]
    slots: tuple[Slot, ...]

    @staticmethod
    def of(function: Callable[..., Any]) -> "Function":
        """Read the signature once: it is asked for at every match."""
        hints = get_type_hints(function)
        names = inspect.signature(function).parameters
        return Function(function, tuple(_slot(name, hints[name]) for name in names))

    def __call__(self, bindings: Mapping[str, Binding], arity: int = 0) -> Any:
        """Call it with what its parameters are bound to."""
        return self.call(*(_value(slot, bindings, arity) for slot in self.slots))


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A traced pattern.

    Args:
        roots: What is replaced: outputs of one node, or of siblings.
        arity: Number of branches of a variadic pattern, 0 for any other.
        depth: Nodes from a root to the farthest input.
        makers: For each input of the first root, the operators that may make it; empty where any.
    """

    roots: tuple[Out, ...]
    arity: int
    depth: int
    makers: tuple[frozenset[str], ...]

    @property
    def root(self) -> Call:
        """The node that a site is named after."""
        return self.roots[0].call


class Rule:
    """A substitution.

    Args:
        name: Of the plug-in: its file's name.
        opset: The lowest operator set that has what the rule writes.
        parameters: Alternatives of one site, by name; each combination is an action of its own.
        arities: Numbers of branches that a variadic pattern is expanded for.
        version: Raised when the same action starts to mean something else.
        shared: What is said where something else reads a value inside the pattern.
        no_constant: By name of a `Const`: what is said where it is none.
        number: What is said where a number is another one.
    """

    def __init__(
        self,
        name: str,
        *,
        opset: int = 1,
        parameters: Mapping[str, tuple[Parameter, ...]] | None = None,
        arities: Iterable[int] = (),
        version: int = 1,
        shared: str = "",
        no_constant: Mapping[str, str] | None = None,
        number: str = "",
    ) -> None:
        self.name = name
        self.opset = opset
        self.parameters = dict(parameters or {})
        self.arities = tuple(arities)
        self.version = version
        self.shared = shared
        self.no_constant = dict(no_constant or {})
        self.number = number
        self._patterns: list[Function] = []
        self._traced: dict[int, tuple[Pattern, ...]] = {}
        self._sound: list[Function] = []
        self._worth: list[Function] = []
        self._replace: Function | None = None
        self._kinds: dict[str, type[Tensor]] = {}

    def narrowed(self, name: str, **kinds: type[Tensor]) -> "Rule":
        """The same rule where some of its values are constants, or none: `g=Const`, `g=Computed`.

        So what is one equation, but done at different times, is written once.

        Args:
            name: Of the plug-in that it is.
            kinds: By name of a `Tensor` of the patterns: what it is here.
        """
        found = copy(self)
        found.name, found._kinds, found._traced = name, {**self._kinds, **kinds}, {}
        found._patterns, found._sound, found._worth = (
            [*each] for each in (self._patterns, self._sound, self._worth)
        )
        return found

    def pattern(self, function: Make) -> Make:
        """The left side; further ones are other spellings, tried in order."""
        self._patterns.append(Function.of(function))
        return function

    def sound(self, function: Check) -> Check:
        """What must hold for both sides to be equal; goes to every engine."""
        self._sound.append(Function.of(function))
        return function

    def worth(self, function: Check) -> Check:
        """What must hold for the replacement to be the better side; the rewriter asks."""
        self._worth.append(Function.of(function))
        return function

    def replace_with(self, function: Make) -> Make:
        """The right side: as many terms as the pattern has roots."""
        self._replace = Function.of(function)
        return function

    @property
    def variadic(self) -> bool:
        """Whether the pattern is expanded for several numbers of branches."""
        return bool(self.arities)

    def patterns(self, arity: int = 0) -> tuple[Pattern, ...]:
        """The traced patterns, for one number of branches."""
        if arity not in self._traced:
            self._traced[arity] = tuple(_trace(each, arity, self._kinds) for each in self._patterns)
        return self._traced[arity]

    def check_sound(self, bindings: Mapping[str, Binding], arity: int = 0) -> None:
        """Go on where both sides are equal.

        Raises:
            Refused: They are not, or it cannot be known.
        """
        for each in self._sound:
            each(bindings, arity)

    def check_worth(self, bindings: Mapping[str, Binding], arity: int = 0) -> None:
        """Go on where the replacement is the better side.

        Raises:
            Refused: It is not.
        """
        for each in self._worth:
            each(bindings, arity)

    def replacement(self, bindings: Mapping[str, Binding], arity: int = 0) -> tuple[Term, ...]:
        """The right side under these bindings, one term a root.

        Raises:
            Refused: It turns out that there is none.
        """
        if self._replace is None:
            raise TypeError(f"the rule {self.name} has no replacement")
        return _terms(self._replace(bindings, arity))


def depth_of(rule: Rule) -> int:
    """Nodes from a root of a rule to its farthest input."""
    return max(pattern.depth for pattern in _smallest(rule))


def is_of_siblings(rule: Rule) -> bool:
    """Whether it replaces several nodes side by side."""
    return any(len({root.call for root in p.roots}) > 1 for p in _smallest(rule))


def _smallest(rule: Rule) -> tuple[Pattern, ...]:
    """Its patterns for the fewest branches: more of them make none deeper."""
    return rule.patterns(rule.arities[0] if rule.variadic else 0)


def _slot(name: str, hint: Any) -> Slot:
    optional = get_origin(hint) in (Union, types.UnionType)
    if optional:
        hint = next(each for each in get_args(hint) if each is not type(None))
    if get_origin(hint) is tuple:
        inner = _slot(name, get_args(hint)[0])
        return Slot(name=name, kind=inner.kind, optional=inner.optional, many=True)
    return Slot(name=name, kind=_KINDS.get(hint, object), optional=optional)


def _value(slot: Slot, bindings: Mapping[str, Binding], arity: int) -> Any:
    if slot.kind is Ops:
        return OPS
    if slot.many:
        return tuple(bindings.get(f"{slot.name}{index}") for index in range(arity))
    if slot.name == "arity":
        return arity
    if slot.name not in bindings and not slot.optional:
        raise TypeError(f"no pattern binds {slot.name!r}")
    return bindings.get(slot.name)


def _trace(function: Function, arity: int, kinds: Mapping[str, type[Tensor]]) -> Pattern:
    """Call a pattern's function with unbound variables."""
    bindings: dict[str, Binding] = {}
    for slot in function.slots:
        names = [f"{slot.name}{i}" for i in range(arity)] if slot.many else [slot.name]
        for name in names:
            if issubclass(slot.kind, Tensor):
                kind = kinds.get(slot.name, slot.kind)
                bindings[name] = kind(name, optional=slot.optional)
    terms = _terms(function(bindings, arity))
    roots = tuple(each if isinstance(each, Out) else _first(each) for each in terms)
    makers = tuple(_makers(each) for each in roots[0].call.inputs)
    return Pattern(roots, arity, max(_depth(root.call) for root in roots), makers)


def _makers(found: Term | None) -> frozenset[str]:
    """Operators that a term can be made by; empty where there is no telling."""
    if isinstance(found, Out):
        return _makers(found.call)
    if isinstance(found, Call):
        return frozenset(found.op_types)
    if isinstance(found, Either):
        options = [_makers(each) for each in found.options]
        return frozenset[str]().union(*options) if all(options) else frozenset()
    return frozenset()


def _first(root: Term) -> Out:
    if not isinstance(root, Call):
        raise TypeError("a pattern must be an operator")
    return Out(root, 0)


def _terms(result: Result) -> tuple[Term, ...]:
    return result if isinstance(result, tuple) else (result,)


def _depth(found: Term | None) -> int:
    if isinstance(found, Out):
        return _depth(found.call)
    if isinstance(found, Either):
        return max(map(_depth, found.options))
    if isinstance(found, Call):
        return 1 + max((_depth(each) for each in found.inputs), default=0)
    return 0
