"""The exam of every data reader: what the rest of edgeopt takes for granted about one.

A plug-in author calls `examine_reader` from a test, with good data and with broken variants of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgeopt.core.data import Feed, Part
from edgeopt.core.model import Model
from edgeopt.data.check import fits
from edgeopt.data.options import DataOptions
from edgeopt.data.read import read_data, reader_for
from edgeopt.data.source import Reader
from edgeopt.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderCase:
    """Good data, and data that must be refused.

    Args:
        spec: At least twelve different samples (groups).
        model: What they are for.
        options: Whatever is needed to read them.
        count: Number of samples.
        broken: What is wrong to a specification with exactly that mistake.
    """

    spec: str
    model: Model
    options: DataOptions
    count: int
    broken: Mapping[str, str]


def examine_reader(reader: Reader, case: ReaderCase) -> None:
    """Run all checks of the exam.

    Raises:
        AssertionError: Names the promise that was not kept.
    """
    assert isinstance(reader, Reader), "the plug-in has accepts, declared and read"
    assert reader.accepts(case.spec), "accepts takes its own data"
    assert reader_for(case.spec) is reader, "no other reader takes the same data"
    options = case.options.over(reader.declared(case.spec))
    source = reader.read(case.spec, case.model, options)
    assert source.count == case.count, f"{case.count} samples, found {source.count}"
    for beside in (source.target, source.group):
        assert beside is None or len(beside) == case.count, "one label and group a sample"
    for index in (0, case.count - 1):
        _examine_feed(source.feed(index), case.model)
        _require_equal(source.feed(index), source.feed(index), "a feed is the same each time")
        _require_equal(source.stored(index), source.stored(index), "so is what is stored")
    _examine_parts(case)
    _examine_refusals(reader, case)


def _examine_feed(feed: Feed, model: Model) -> None:
    assert set(feed) == {spec.name for spec in model.inputs}, "a feed has every input"
    for spec in model.inputs:
        array = feed[spec.name]
        assert array.dtype == np.dtype(spec.dtype), f"{spec.name} is {spec.dtype}"
        assert fits(array.shape, spec.shape), f"{spec.name} meets the model's shape"


def _require_equal(first: Feed, second: Feed, promise: str) -> None:
    for name, array in first.items():
        assert np.array_equal(array, second[name]), f"{promise}: {name}"


def _examine_parts(case: ReaderCase) -> None:
    first, again = (read_data(case.spec, case.model, case.options) for _ in range(2))
    assert first.digest == again.digest, "the same data has the same digest"
    parts = (first.calibration, first.search, first.test)
    assert sum(len(part) for part in parts) == case.count, "every sample is in one part"
    for part in (*parts, *first.probes):
        _examine_slices(part)
    other = read_data(case.spec, case.model, case.options.over({"seed": 1}))
    assert other.digest != first.digest, "another split has another digest"


def _examine_slices(part: Part) -> None:
    count = len(part)
    assert count, f"the part {part.name} has samples"
    _require_equal(part.feeds[count - 1], part.feeds[-1], "negative indices count from the end")
    _require_equal(part.feeds[-1], part.feeds[count // 2 :][-1], "slices hold the same feeds")
    assert len(part.feeds[:1]) == 1, "a slice has a length"


def _examine_refusals(reader: Reader, case: ReaderCase) -> None:
    assert case.broken, "the case has broken data"
    for mistake, spec in case.broken.items():
        refusal = _refusal(reader, spec, case)
        assert refusal is not None, f"not refused: {mistake}"
        assert refusal.where, f"the refusal does not say where: {mistake}"


def _refusal(reader: Reader, spec: str, case: ReaderCase) -> DataError | None:
    try:
        reader.read(spec, case.model, case.options.over(reader.declared(spec)))
    except DataError as error:
        return error
    return None
