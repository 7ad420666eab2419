"""Every reader and every accuracy metric on the shelves takes its exam."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from edgeopt.data.accuracy_metric import load_metric
from edgeopt.plugins import ACCURACY, READERS
from edgeopt.testing.accuracy_exam import examine_accuracy
from edgeopt.testing.reader_exam import examine_reader

HERE = Path(__file__).parent


def _load(path: Path) -> ModuleType:
    assert path.is_file(), f"a plug-in brings its exam case: {path.name} is missing"
    spec = importlib.util.spec_from_file_location(f"case_{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", READERS.names())
def test_a_reader_takes_its_exam(name: str, tmp_path: Path) -> None:
    """Its own data is read alike each time, and every broken variant is refused with its place."""
    case = _load(HERE / "reader_cases" / f"{name}.py").case(tmp_path)
    examine_reader(READERS.load(name), case)


@pytest.mark.parametrize("name", ACCURACY.names())
def test_a_metric_takes_its_exam(name: str) -> None:
    """Right outputs are best, resampling is exact, what does not fit is refused."""
    case = _load(HERE / "accuracy_cases" / f"{name}.py").CASE
    options = dict(case.options)
    function = options.pop("function", "")
    examine_accuracy(load_metric(f"{name}:{function}" if function else name, options), case)
