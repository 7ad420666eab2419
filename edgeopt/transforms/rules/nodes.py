"""`Node`: what a rule sees of a node that its pattern marks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Attribute = int | float | str | Sequence[int] | Sequence[float] | Sequence[str]


class Node:
    """The attributes of a matched node; those left out say what the operator's schema says.

    `conv.group`, `pool.kernel_shape`, ... ; `conv.attrs` are those written out.

    Args:
        op_type: Operator.
        attributes: Those that are written out, as Python values.
        defaults: The others, by name.
        domain: Of the operator set.
        key: The engine's own name for the node.
        swapped: Whether its two operands stand the other way round than in the pattern.
    """

    __slots__ = ("_defaults", "attrs", "domain", "key", "op_type", "swapped")

    def __init__(
        self,
        op_type: str,
        attributes: Mapping[str, Attribute],
        defaults: Callable[[str], Any],
        *,
        domain: str = "",
        key: object = None,
        swapped: bool = False,
    ) -> None:
        self.op_type = op_type
        self.attrs = dict(attributes)
        self.domain = domain
        self.key = key
        self.swapped = swapped
        self._defaults = defaults

    def __getattr__(self, name: str) -> Any:
        # Python asks here for what no slot holds: private names are never attributes.
        if name.startswith("_"):
            raise AttributeError(name)
        return self.attrs[name] if name in self.attrs else self._defaults(name)
