"""What is made once and used again: `Shared` iterators, and a map that forgets its oldest."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """Readers begin at the start; what nobody has reached yet is not made.

    Args:
        source: Advanced by one reader at a time.
    """

    def __init__(self, source: Iterator[T]) -> None:
        self._source = source
        self._made: list[T] = []
        self._making = threading.Lock()

    def __iter__(self) -> Iterator[T]:
        position = 0
        while True:
            with self._making:
                if position == len(self._made):
                    try:
                        self._made.append(next(self._source))
                    except StopIteration:
                        return
            yield self._made[position]
            position += 1


def remember(kept: OrderedDict[str, T], key: str, value: T, limit: int) -> None:
    """Keep a value as the latest, and at most `limit` of them."""
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > limit:
        kept.popitem(last=False)
