"""`python:package.function` or `python:path/to/file.py:function`: samples from a user's own code.

The function takes nothing and yields pairs of a feed (a dict by input name, batch axis included;
shapes may differ) and a target, or dicts that may also hold `label` and `group`. An attribute
`edgeopt` of the function is its description: a dict with the keys of `DataOptions`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import numpy as np

from edgeopt.core.data import Array, Feed
from edgeopt.core.model import Model
from edgeopt.data.check import check_feed, check_groups, check_state, require_finite
from edgeopt.data.columns import zeros
from edgeopt.data.options import DataOptions, parse_description
from edgeopt.data.python_object import load_object, running
from edgeopt.data.source import Source
from edgeopt.errors import DataError

_PREFIX = "python:"


class PythonReader:
    """See the module."""

    def accepts(self, spec: str) -> bool:
        """Whatever begins with `python:`."""
        return spec.startswith(_PREFIX)

    def declared(self, spec: str) -> Mapping[str, Any]:
        """The function's attribute `edgeopt`, where it has one.

        Raises:
            DataError: The function cannot be found, or the attribute is no description.
        """
        found = getattr(load_object(spec.removeprefix(_PREFIX)), "edgeopt", None)
        if found is None:
            return {}
        with running(spec, "the attribute edgeopt is no description"):
            text = json.dumps(found)
        return parse_description(text, f"{spec}, edgeopt")

    def read(self, spec: str, model: Model, options: DataOptions) -> Source:
        """Everything that the function yields.

        Raises:
            DataError: It raises, yields something else, or feeds that do not meet the model.
        """
        function = load_object(spec.removeprefix(_PREFIX))
        if not callable(function):
            raise DataError(f"a {type(function).__name__} cannot be called", where=spec)
        samples = _Samples(spec, model, options)
        for item in _yielded(function, spec):
            samples.add(item)
        return samples.source()


class _Samples:
    def __init__(self, spec: str, model: Model, options: DataOptions) -> None:
        self._spec, self._model, self._options = spec, model, options
        fed = set(options.state.values())
        self._optional = fed
        self._start = {i.name: i for i in model.inputs if i.name in fed}
        self._feeds: list[Feed] = []
        self._beside: dict[str, list[Array]] = {"label": [], "group": []}
        self._notes: dict[str, None] = {}

    def add(self, item: object) -> None:
        where = f"{self._spec}, sample {len(self._feeds)}"
        feed, beside = _parts(item, where)
        found, notes = check_feed(feed, self._model, optional=self._optional, where=where)
        self._notes |= dict.fromkeys(notes)
        for name, spec in self._start.items():
            if name not in found:
                found[name] = zeros(spec)
        for name, values in self._beside.items():
            if (name in beside) != (len(values) == len(self._feeds)) and self._feeds:
                raise DataError(f"some samples have a {name} and some have none", where=where)
            if name in beside:
                values.append(_plain(beside[name], f"{where}, {name}"))
        self._feeds.append(found)

    def source(self) -> Source:
        feeds = self._feeds
        if not feeds:
            raise DataError("the function yielded no samples", where=self._spec)
        labels, groups = self._beside["label"], self._beside["group"]
        group = (
            check_groups(np.array(groups), len(feeds), where=f"{self._spec}, group")
            if groups
            else None
        )
        check_state(self._options.state, self._model, group, where=self._spec)
        return Source(
            count=len(feeds),
            stored=feeds.__getitem__,
            feed=feeds.__getitem__,
            target=_stacked(labels) if labels else None,
            group=group,
            notes=tuple(self._notes),
        )


def _yielded(function: Callable[[], object], spec: str) -> Iterator[object]:
    """What the function yields; only its own code runs under the guard."""
    with running(spec, "the function failed"):
        rest = iter(_iterable(function(), spec))
    while True:
        with running(spec, "the function failed"):
            item = next(rest, rest)
        if item is rest:
            return
        yield item


def _iterable(made: object, spec: str) -> Iterable[object]:
    if not isinstance(made, Iterable):
        raise DataError(
            f"the function gave a {type(made).__name__}, expected samples",
            where=spec,
            hint="yield pairs of a feed and a target",
        )
    return cast("Iterable[object]", made)


def _parts(item: object, where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(item, Mapping):
        mapping = cast("Mapping[str, Any]", item)
        beside = {key: mapping[key] for key in ("label", "group") if key in mapping}
        return {key: value for key, value in mapping.items() if key not in beside}, beside
    if isinstance(item, tuple) and len(cast("tuple[Any, ...]", item)) == 2:
        feed, target = cast("tuple[Any, Any]", item)
        if isinstance(feed, Mapping):
            inner, beside = _parts(cast("object", feed), where)
            return inner, beside | ({} if target is None else {"label": target})
    kind = str(type(cast("object", item)).__name__)
    raise DataError(
        f"a {kind} is not a sample",
        where=where,
        hint="yield (feed, target), where feed is a dict of arrays by input name, or such a dict",
    )


def _plain(value: object, where: str) -> Array:
    found = np.asarray(value)
    if found.dtype.hasobject:
        raise DataError(
            f"a {type(value).__name__} is no label", where=where, hint="numbers, texts or arrays"
        )
    require_finite(found, where=where, rows=False)
    return found


def _stacked(labels: list[Array]) -> Array:
    """One array of equal shapes; an object array of arrays where shapes differ."""
    if len({(label.shape, label.dtype.kind) for label in labels}) == 1:
        return np.stack(labels)
    found = np.empty(len(labels), dtype=object)
    for index, label in enumerate(labels):
        found[index] = label
    return found


PLUGIN = PythonReader()
