"""What was made of constants before: tensors are shared by all clones of a graph, so that the same
weight is coded once a search. Bounded by the bytes that are held, the oldest going first."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

Made = TypeVar("Made")
_KEPT_BYTES = 512_000_000


class Kept:
    """Results by tensor and key. The tensor is held too, so that its id stays its own.

    Args:
        limit_bytes: Of the arrays of all results, and of the tensors they came from.
    """

    def __init__(self, limit_bytes: int = _KEPT_BYTES) -> None:
        self._limit = limit_bytes
        self._held: OrderedDict[tuple[Any, ...], tuple[Any, Any, int]] = OrderedDict()
        self.bytes = 0

    def remembered(self, tensor: Any, key: tuple[Any, ...], make: Callable[[], Made]) -> Made:
        """What was made of a tensor before under that key, or is made now."""
        key = (id(tensor), *key)
        held = self._held.get(key)
        if held is not None and held[0] is tensor:
            self._held.move_to_end(key)
            return held[1]
        made = make()
        self._keep(key, tensor, made)
        return made

    def _keep(self, key: tuple[Any, ...], tensor: Any, made: object) -> None:
        size = _bytes(made) + int(getattr(tensor, "nbytes", 0))
        self._held[key] = (tensor, made, size)
        self.bytes += size
        while self.bytes > self._limit and len(self._held) > 1:
            _, (_, _, freed) = self._held.popitem(last=False)
            self.bytes -= freed


def _bytes(made: object) -> int:
    """Of the arrays of a result: an array, a tuple or a dataclass of some."""
    if isinstance(made, np.ndarray):
        return made.nbytes
    if isinstance(made, tuple):
        return sum(map(_bytes, made))  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    if is_dataclass(made) and not isinstance(made, type):
        return sum(_bytes(getattr(made, field.name)) for field in fields(made))
    return 0


_KEPT = Kept()


def remembered(tensor: Any, key: tuple[Any, ...], make: Callable[[], Made]) -> Made:
    """What was made of a tensor before in this process under that key, or is made now."""
    return _KEPT.remembered(tensor, key, make)
