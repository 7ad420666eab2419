"""Functions that yield sequences of varying length, and functions that do it wrong."""

from pathlib import Path

from data_models import TOKENS

from edgeopt.data.options import DataOptions
from edgeopt.testing.reader_exam import ReaderCase

_CODE = """
import numpy as np

def _feed(index, dtype=np.int32):
    ids = (np.arange(5 + index % 3)[None] * (index + 1)).astype(dtype)
    return {"ids": ids, "attention_mask": np.ones_like(ids)}

def good():
    for index in range(16):
        yield _feed(index), index % 2

good.edgeopt = {"metric": "top1"}

def raises():
    yield _feed(0), 0
    raise RuntimeError("the disk is gone")

def misses():
    yield {"ids": np.zeros((1, 3), np.int64)}, 0

def floats():
    yield _feed(0, np.float32), 0

def batchless():
    yield {name: array[0] for name, array in _feed(0).items()}, 0

def unpaired():
    yield 1, 2, 3

def forgets():
    yield _feed(0), 0
    yield _feed(1)

def empty():
    return iter(())

def number():
    return 3

constant = 7
"""


def case(folder: Path) -> ReaderCase:
    """Everything is in one file."""
    path = folder / "samples.py"
    path.write_text(_CODE)
    (folder / "broken.py").write_text("import no_such_module_at_all\n")
    names = {
        "a function that raises": "raises",
        "a missing input": "misses",
        "floats for tokens": "floats",
        "no batch axis": "batchless",
        "not a pair": "unpaired",
        "a label that is missing": "forgets",
        "no samples": "empty",
        "a number instead of samples": "number",
        "no function": "constant",
    }
    return ReaderCase(
        spec=f"python:{path}:good",
        model=TOKENS,
        options=DataOptions(),
        count=16,
        broken={mistake: f"python:{path}:{name}" for mistake, name in names.items()},
    )
