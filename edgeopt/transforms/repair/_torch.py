"""The one door to torch, which only the extra `rl` brings: imported when something trains."""

import importlib
import importlib.util
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


def is_installed() -> bool:
    """Whether torch and its optimizers are there, without importing them."""
    return all(map(importlib.util.find_spec, ("torch", "pytorch_optimizer")))


def torch() -> Any:
    """The library; it has no types that a strict checker can use."""
    return importlib.import_module("torch")


@contextmanager
def one_thread() -> Generator[None]:
    """Torch on one thread meanwhile: the others belong to whoever measures."""
    library = torch()
    before: int = library.get_num_threads()
    library.set_num_threads(1)
    try:
        yield
    finally:
        library.set_num_threads(before)
