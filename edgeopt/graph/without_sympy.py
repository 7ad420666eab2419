"""Import onnx_ir without sympy, which it names at its top and hardly ever uses.

It computes dimensions from others with it, and edgeopt computes none. Loading sympy takes as long
as everything else that `edgeopt gate check --static` does.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    """Stands for a module, which is imported when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


@contextmanager
def later(*names: str) -> Generator[None]:
    """Whoever imports these modules within gets them loaded on first use.

    After it `sys.modules` is as if they had not been imported: others get the modules themselves.

    Args:
        names: In full. What is loaded already stays what it is.
    """
    put = {name: _Later(name) for name in names if name not in sys.modules}
    sys.modules.update(put)
    try:
        yield
    finally:
        for name, module in put.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


def import_onnx_ir() -> None:
    """Before anything else imports it; what did so earlier has loaded sympy, too."""
    if "onnx_ir" not in sys.modules:
        with later("sympy", "onnx_ir._symbolic_shapes"):
            import_module("onnx_ir")
