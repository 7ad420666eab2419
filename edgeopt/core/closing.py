"""`Closing`: what is closed when its `with` block is left, however that is."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """A context manager that closes itself.

    `contextlib.closing` does so from outside; here the class itself is what a caller enters.
    """

    @abstractmethod
    def close(self) -> None:
        """Give back what is held. Closing twice is allowed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
