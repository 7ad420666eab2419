"""`Shared`: what an iterator yields, made once and read by many."""

import threading
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
