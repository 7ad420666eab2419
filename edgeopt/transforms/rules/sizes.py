"""What an engine tells a rule of a value: its type, its sizes and, of a constant, its array.

A size that nobody knows is no size: comparing it refuses the rule instead of accepting it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]


class Refused(Exception):  # noqa: N818 (it says what is the case, and is no error)
    """A rule does not apply here; its text is the reason, for people."""


def require(holds: bool, reason: str) -> None:
    """Go on only where something holds.

    Raises:
        Refused: It does not.
    """
    if not holds:
        raise Refused(reason)


class Free:
    """A size that has no name: nothing is known about it, not even whether it equals itself."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise Refused("a size is not known")

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return "?"


FREE = Free()
Size = int | str | Free


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """What an engine knows about a bound variable.

    Args:
        key: The engine's own name for the value.
        dtype: As numpy calls it; None where it is not known.
        shape: Sizes; None where the rank is not known.
        load: The array, of a constant.
        maker: The operator that makes it; empty where none does, or it is not known.
    """

    key: object
    dtype: str | None
    shape: tuple[Size, ...] | None
    load: Callable[[], Array] | None = None
    maker: str = ""
