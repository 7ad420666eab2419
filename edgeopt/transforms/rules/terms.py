"""Terms: what patterns and replacements are made of.

A term is an expression over tensors, independent of any graph: a variable (`Tensor`, `Const`), a
number, an array, an operator applied to terms (`Call`), or one of its outputs (`Out`). Terms are
compared by identity: a Python variable that is used twice means the same value twice.

In `sound`, `worth` and `replace_with` variables are bound: they tell shape, type and, of a
constant, its array. Who binds them (`Facts`) stays out of sight, so that one rule serves every
engine.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from edgeopt.transforms.rules.nodes import Attribute, Node
from edgeopt.transforms.rules.sizes import Array, Facts, Refused, Size, require

FLOATS: frozenset[str] = frozenset({"float32", "float16", "float64"})


class Term:
    """An expression; arithmetic on terms makes terms."""

    __slots__ = ()

    def __add__(self, other: "Operand") -> "Call":
        return Call("Add", (self, term(other)))

    def __radd__(self, other: "Operand") -> "Call":
        return Call("Add", (term(other), self))

    def __sub__(self, other: "Operand") -> "Call":
        return Call("Sub", (self, term(other)))

    def __rsub__(self, other: "Operand") -> "Call":
        return Call("Sub", (term(other), self))

    def __mul__(self, other: "Operand") -> "Call":
        return Call("Mul", (self, term(other)))

    def __rmul__(self, other: "Operand") -> "Call":
        return Call("Mul", (term(other), self))

    def __truediv__(self, other: "Operand") -> "Call":
        return Call("Div", (self, term(other)))

    def __rtruediv__(self, other: "Operand") -> "Call":
        return Call("Div", (term(other), self))

    def __pow__(self, other: "Operand") -> "Call":
        return Call("Pow", (self, term(other)))

    def __matmul__(self, other: "Term") -> "Call":
        return Call("MatMul", (self, other))

    def __neg__(self) -> "Call":
        return Call("Neg", (self,))


Operand = Term | float


class Literal(Term):
    """A number: a constant of one element, of the type of what it stands beside.

    Args:
        value: The number.
    """

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value


class Fixed(Term):
    """An array that a replacement brings along: a new shape, axes, a table.

    Args:
        array: Its value.
        name: What the new constant is called, behind the site and the rule.
    """

    __slots__ = ("array", "name")

    def __init__(self, array: Array, name: str = "") -> None:
        self.array = array
        self.name = name


class Tensor(Term):
    """A variable: any value.

    Args:
        name: Of the parameter that it is.
        optional: Whether it may be left out, as the bias of a convolution.
        facts: What is known, once it is bound.
    """

    __slots__ = ("facts", "name", "optional")

    def __init__(self, name: str, *, optional: bool = False, facts: Facts | None = None) -> None:
        self.name = name
        self.optional = optional
        self.facts = facts

    @property
    def known(self) -> Facts:
        """What the engine knows.

        Raises:
            TypeError: The variable is not bound: a pattern must not look at values.
        """
        if self.facts is None:
            raise TypeError(f"{self.name} has no value inside a pattern")
        return self.facts

    @property
    def dtype(self) -> str:
        """Element type, as numpy calls it.

        Raises:
            Refused: It is not known.
        """
        require(self.known.dtype is not None, f"the type of {self.name} is not known")
        return str(self.known.dtype)

    @property
    def maker(self) -> str:
        """The operator that makes it, for `worth`; empty where none does, or it is not known."""
        return self.known.maker

    @property
    def shape(self) -> tuple[Size, ...]:
        """Sizes: numbers, names of free sizes, or `FREE`, which cannot be compared.

        Raises:
            Refused: The rank is not known.
        """
        return self._sizes()

    @property
    def rank(self) -> int:
        """Number of axes.

        Raises:
            Refused: It is not known.
        """
        return len(self._sizes())

    def size(self, axis: int) -> int:
        """The fixed size of one axis.

        Raises:
            Refused: It is free, or there is no such axis.
        """
        require(-self.rank <= axis < self.rank, f"{self.name} has no axis {axis}")
        found = self._sizes()[axis]
        if not isinstance(found, int):
            raise Refused(f"size {axis} of {self.name} is free")
        return found

    def fixed(self) -> tuple[int, ...]:
        """All sizes.

        Raises:
            Refused: One of them is free.
        """
        sizes = self._sizes()
        free = [axis for axis, size in enumerate(sizes) if not isinstance(size, int)]
        require(not free, f"size {free[0] if free else 0} of {self.name} is free")
        return tuple(size for size in sizes if isinstance(size, int))

    def _sizes(self) -> tuple[Size, ...]:
        shape = self.known.shape
        if shape is None:
            raise Refused(f"the rank of {self.name} is not known")
        return shape


class Const(Tensor):
    """A variable that only a constant fits."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes: a constant has no free ones."""
        return self.fixed()

    def array(self) -> Array:
        """The value; asking for it means computing it, so ask for the shape where that will do.

        Raises:
            Refused: It is not at hand.
        """
        load = self.known.load
        if load is None:
            raise Refused(f"the value of {self.name} is not at hand")
        return load()

    def scalar(self) -> float:
        """The only element.

        Raises:
            Refused: There are several.
        """
        found = self.array()
        require(found.size == 1, f"{self.name} is not one number")
        return float(found.reshape(-1)[0])


class Computed(Tensor):
    """A variable that no constant fits."""

    __slots__ = ()


class Call(Term):
    """An operator applied to terms.

    Args:
        op_types: The operator; in a pattern there may be several that fit.
        inputs: Terms; None where an input is left out.
        attributes: By name; in a pattern those that are asked for.
        domain: Of the operator set.
        outputs: How many it has.
        least: How many of these it has at least; the others may be left out.
        alias: The parameter through which a rule sees the node's attributes.
        value: The parameter through which it sees the node's (first) result.
        name: What the new value is called, behind the site and the rule.
        missing: What is said where another node stands.
        shared: Whether others may read the value too; it then stays.
        either_way: Whether its two operands may stand either way round, also where that matters.
        origin: The node that it takes the place of, with its name and attributes.
    """

    __slots__ = (
        "alias",
        "attributes",
        "domain",
        "either_way",
        "inputs",
        "least",
        "missing",
        "name",
        "op_types",
        "origin",
        "outputs",
        "shared",
        "value",
    )

    def __init__(
        self,
        op_types: str | tuple[str, ...],
        inputs: Sequence[Term | None],
        attributes: Mapping[str, Attribute] | None = None,
        *,
        domain: str = "",
        outputs: int = 1,
        alias: str = "",
        value: str = "",
        name: str = "",
        missing: str = "",
        shared: bool = False,
        either_way: bool = False,
        origin: Node | None = None,
    ) -> None:
        self.op_types = (op_types,) if isinstance(op_types, str) else op_types
        self.inputs = tuple(inputs)
        self.attributes = dict(attributes or {})
        self.domain = domain
        self.outputs = outputs
        self.least = outputs
        self.alias = alias
        self.value = value
        self.name = name
        self.missing = missing
        self.shared = shared
        self.either_way = either_way
        self.origin = origin

    def outs(self, count: int, *, least: int = 0) -> tuple["Out", ...]:
        """The outputs of an operator that has several: `a, b = op.Split(x, sizes).outs(2)`.

        Args:
            count: How many.
            least: How many are always there; all where it is left out. A root that the node
                does not have is not replaced.
        """
        self.outputs, self.least = count, least or count
        return tuple(Out(self, index) for index in range(count))


class Out(Term):
    """One output of an operator that has several.

    Args:
        call: The operator.
        index: Which one.
    """

    __slots__ = ("call", "index")

    def __init__(self, call: Call, index: int) -> None:
        self.call = call
        self.index = index


class Either(Term):
    """In a pattern: one of several spellings.

    Args:
        options: In the order in which they are tried.
    """

    __slots__ = ("options",)

    def __init__(self, options: Sequence[Term]) -> None:
        self.options = tuple(options)


class Maker:
    """Applies one operator: what `op.Conv` is."""

    __slots__ = ("_domain", "_op_types", "_origin")

    def __init__(
        self, op_types: tuple[str, ...], domain: str = "", origin: Node | None = None
    ) -> None:
        self._op_types = op_types
        self._domain = domain
        self._origin = origin

    def __call__(
        self,
        *inputs: "Operand | None",
        _as: str = "",
        _value: str = "",
        _name: str = "",
        _missing: str = "",
        _shared: bool = False,
        _either_way: bool = False,
        **attributes: Attribute,
    ) -> Call:
        """The operator on terms.

        Args:
            inputs: Terms or numbers; None leaves one out.
            _as: In a pattern: the parameter that sees the node's attributes.
            _value: In a pattern: the parameter that sees what the node makes.
            _name: In a replacement: what the new value is called.
            _missing: In a pattern: what to say where another node stands.
            _shared: In a pattern: other nodes may read the value too.
            _either_way: In a pattern: the two operands may stand the other way round too; what is
                `like` the node has them as they stood.
            attributes: In a pattern those asked for, in a replacement those written.
        """
        kept = {} if self._origin is None else self._origin.attrs
        given = [None if each is None else term(each) for each in inputs]
        if self._origin is not None and self._origin.swapped:
            given.reverse()
        return Call(
            self._op_types,
            given,
            {**kept, **attributes},
            domain=self._domain,
            alias=_as,
            value=_value,
            name=_name,
            missing=_missing,
            shared=_shared,
            either_way=_either_way,
            origin=self._origin,
        )


class Ops:
    """Operators by name: `op.Conv(x, w, b)`; the one door behind which nothing is typed."""

    __slots__ = ()

    def __getattr__(self, op_type: str) -> Maker:
        if not op_type[:1].isupper():
            raise AttributeError(f"no operator is called {op_type!r}")
        return Maker((op_type,))

    def one_of(self, *op_types: str) -> Maker:
        """In a pattern: any of several operators."""
        return Maker(op_types)

    def either(self, *options: Term) -> Either:
        """In a pattern: one of several spellings of a value."""
        return Either(options)

    def like(self, node: Node) -> Maker:
        """In a replacement: the operator of a matched node, with its attributes.

        Without a `_name` the new node also keeps the name of the matched one.
        """
        return Maker((node.op_type,), node.domain, node)

    def contrib(self, op_type: str) -> Maker:
        """An operator of the runtime's own set, `com.microsoft`."""
        return Maker((op_type,), "com.microsoft")

    def i64(self, *numbers: int) -> Fixed:
        """A list of integers: a shape, axes, sizes."""
        return Fixed(np.array(numbers, np.int64))

    def array(self, values: Array, *, name: str = "") -> Fixed:
        """An array that the replacement brings along."""
        return Fixed(values, name)


def term(operand: Operand) -> Term:
    """A number as a term."""
    return operand if isinstance(operand, Term) else Literal(float(operand))


def total(*terms: Term | None) -> Term | None:
    """The sum of those that are there; None where none is: optional biases."""
    found: Term | None = None
    for each in terms:
        if each is not None:
            found = each if found is None else found + each
    return found
