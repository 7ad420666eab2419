"""Values that are computed once, whichever thread asks first."""

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Once(Generic[K, V]):
    """A value a key. Threads that ask for one key wait for the first; other keys do not wait.

    What raises is not kept: the next one tries again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[K, threading.RLock] = {}
        self._values: dict[K, V] = {}

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made on first use."""
        with self._lock:
            lock = self._locks.setdefault(key, threading.RLock())
        with lock:
            if key not in self._values:
                self._values[key] = make()
            return self._values[key]

    def known(self, key: K) -> V | None:
        """The value of a key, where it was made already."""
        return self._values.get(key)
