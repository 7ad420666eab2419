"""`package.function` or `path/to/file.py:function`: a user's own code, found and called safely."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from edgeopt.data.options import nearest
from edgeopt.errors import DataError


def load_object(spec: str) -> Any:
    """The object that a specification names. The working folder is searched too.

    Raises:
        DataError: There is no such file, module or name, or importing it fails.
    """
    place, _, name = spec.rpartition(":") if ".py:" in spec else spec.rpartition(".")
    if not place or not name:
        raise DataError(
            "this does not name a function",
            where=f"python:{spec}",
            hint="write python:package.function or python:path/to/file.py:function",
        )
    with running(f"python:{spec}", "cannot be imported"):
        module = _from_file(Path(place)) if place.endswith(".py") else _from_package(place)
    if not hasattr(module, name):
        raise DataError(
            f"{place} has no {name!r}",
            where=f"python:{spec}",
            hint=nearest(name, [n for n in vars(module) if not n.startswith("_")]),
        )
    return getattr(module, name)


@contextmanager
def running(where: str, what: str) -> Generator[None]:
    """Run a user's code: whatever it raises becomes a `DataError` that says so."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # a user's code may raise anything, and it is not our defect
        raise DataError(
            f"{what}: {type(error).__name__}: {error}",
            where=where,
            hint="this comes from your own code",
        ) from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise DataError("there is no such file", where=str(path))
    found = importlib.util.spec_from_file_location(f"edgeopt_user_{path.stem}", path)
    if found is None or found.loader is None:
        raise DataError("this is not a Python file", where=str(path))
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # dataclasses look their own module up
    found.loader.exec_module(module)
    return module


def _from_package(name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    return importlib.import_module(name)
