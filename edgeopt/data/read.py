"""`read_data`: from what the user names to a `DataSet` that meets the model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from edgeopt.core import digest as digests
from edgeopt.core.data import DataSet, Part
from edgeopt.core.model import Model
from edgeopt.data.options import DataOptions
from edgeopt.data.probes import broadened, built_in_guards, built_in_probes, kind_of_samples
from edgeopt.data.source import LazyFeeds, Reader, Source
from edgeopt.data.split import contents, of_labels, split
from edgeopt.errors import DataError
from edgeopt.plugins import READERS

__all__ = ["DataOptions", "declared", "read_data"]


def reader_for(spec: str) -> Reader:
    """The reader that takes a specification.

    Raises:
        DataError: None does.
    """
    for name in READERS.names():
        reader: Reader = READERS.load(name)
        if reader.accepts(spec):
            return reader
    raise DataError(
        "no reader takes this data, or there is no such file",
        where=spec,
        hint="give an .npz file, a folder with one class a subfolder, or python:package.function",
    )


def declared(spec: str) -> Mapping[str, Any]:
    """What the data says about itself, such as `metric`; empty where it says nothing.

    Raises:
        DataError: It cannot be read.
    """
    return reader_for(spec).declared(spec)


def read_data(spec: str, model: Model, options: DataOptions | None = None) -> DataSet:
    """Read, check against the model, split and derive probes.

    Args:
        spec: An `.npz` file, a folder, or `python:package.function` (or `python:file.py:function`).
        model: What the data is for.
        options: Win over what the data says about itself.

    Raises:
        DataError: It cannot be read or does not meet the model; says which key and sample.
    """
    reader = reader_for(spec)
    full = (options or DataOptions()).over(reader.declared(spec))
    source = reader.read(spec, model, full)
    found = split(source, full, where=spec)
    own = {name: _own(other, model, full, source) for name, other in full.probe_sets.items()}
    shifted, notes = built_in_probes(found.test, model, full)
    return replace(
        found,
        digest=digests.of_text("\n".join([found.digest, *map(_identity, own.values())])),
        broad=broadened(found.calibration, model, full),
        guards=built_in_guards(found.search, model, full),
        kind=kind_of_samples(found.test, model, full),
        probes=(*shifted, *(whole(name, probe) for name, probe in own.items())),
        metric=full.metric,
        metric_options={**source.metric_options, **full.metric_options},
        state=full.state,
        notes=(*source.notes, *found.notes, *notes),
    )


def _own(spec: str, model: Model, options: DataOptions, main: Source) -> Source:
    """A user's own probe set: read as the data is, by the options that it does not say itself."""
    reader = reader_for(spec)
    described = reader.declared(spec)
    preprocess = described.get("preprocess", options.preprocess)
    source = reader.read(spec, model, replace(options, preprocess=preprocess))
    if (source.target is None) != (main.target is None):
        raise DataError(
            "only one of the data and this probe set has labels",
            where=spec,
            hint="a probe is judged by the same metric as the data",
        )
    return source


def _identity(source: Source) -> str:
    target = "" if source.target is None else of_labels(source.target)
    return "\n".join([*contents(source), target])


def whole(name: str, source: Source) -> Part:
    """All samples of a source as one part, in the source's order, groups together."""
    order = np.arange(source.count)
    if source.group is not None:
        _, first, owner = np.unique(source.group, return_index=True, return_inverse=True)
        order = np.argsort(first[owner], kind="stable")
    return Part(
        name=name,
        feeds=LazyFeeds(source.feed, order),
        target=None if source.target is None else source.target[order],
        group=None if source.group is None else source.group[order],
    )
