"""Read the `[gate]` table of edgeopt.toml, with the file and line of whatever is wrong in it."""

import datetime
import difflib
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, cast

from edgeopt.errors import ConfigError, UsageError
from edgeopt.gate.budget import METRICS, PAIRED, Budget, Gate, Metric, Waiver
from edgeopt.gate.lines import Place, line_of, lines_of
from edgeopt.gate.toml import read_toml
from edgeopt.units import parse_bytes, parse_duration_s

_GATE = ("model", "data", "metric", "protocol", "lock", "budget", "waiver")
_BUDGET = (
    *("id", "metric", "device", "profile", "max", "min", "max_regression", "max_drop"),
    *("tolerance", "level", "hint"),
)
_WAIVER = ("budget", "ceiling", "until", "reason")
_NUMBER = re.compile(r"^\s*([0-9]*\.?[0-9]+(?:[eE][-+]?\d+)?)\s*([a-zA-Zµ%]*)\s*$")
_JOULES = {"J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "µJ": 1e-6, "kJ": 1e3}
_COUNTS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}


def read_gate(path: Path) -> Gate:
    """The gate of a project.

    Args:
        path: edgeopt.toml.

    Raises:
        ConfigError: The file is not there, is no TOML, or something in it cannot be meant.
    """
    try:
        text, document = read_toml(path)
    except FileNotFoundError as error:
        raise ConfigError(
            "there is no such file",
            where=str(path),
            hint="write one (docs/gate.md begins with a short one), or name it with --config FILE",
        ) from error
    return _Reader(path, lines_of(text)).gate(document)


class _Reader:
    def __init__(self, path: Path, lines: Mapping[Place, int]) -> None:
        self._path = path
        self._lines = lines

    def gate(self, document: Mapping[str, Any]) -> Gate:
        table = document.get("gate")
        if not isinstance(table, dict):
            raise ConfigError(
                "there is no [gate] table",
                where=f"{self._path}:{line_of(self._lines, 'gate')}",
                hint='begin with [gate] and model = "net.onnx" under it; see docs/gate.md',
            )
        told = cast("Mapping[str, Any]", table)
        self._known(told, _GATE, "gate")
        budgets = tuple(
            self._budget(row, index) for index, row in enumerate(self._rows(told, "budget"))
        )
        self._unique(budgets)
        return Gate(
            path=self._path,
            model=self._file(told, "model"),
            data=self._data(self._text(told, "data", "", "gate")),
            metric=self._text(told, "metric", "", "gate"),
            protocol=self._text(told, "protocol", "normal", "gate"),
            lock=self._path.parent / self._text(told, "lock", "edgeopt.lock", "gate"),
            budgets=budgets,
            waivers=tuple(
                self._waiver(row, index, budgets)
                for index, row in enumerate(self._rows(told, "waiver"))
            ),
            lines=self._lines,
        )

    def _budget(self, row: Mapping[str, Any], index: int) -> Budget:
        place = ("gate", "budget", index)
        self._known(row, _BUDGET, *place)
        metric = METRICS[self._among(row.get("metric"), METRICS, "metric", *place, "metric")]
        if "device" in row and "profile" in row:
            raise self._wrong("give a device or a profile, not both", *place, "profile")
        device = self._text(row, "device" if "device" in row else "profile", "", *place)
        if metric.kind == "measured" and not device:
            raise self._wrong(f"{metric.name} is measured: name a device", *place)
        if metric.name == "unsupported_ops" and not device:
            raise self._wrong('name a profile, for example profile = "jetson-nano"', *place)
        limit, change = self._allowed(row, metric, place)
        if limit is None and change is None:
            key = "min or max_drop" if metric.higher else "max or max_regression"
            raise self._wrong(f"the budget allows nothing yet: give {key}", *place)
        level = self._among(row.get("level", "error"), ("error", "warn"), "level", *place, "level")
        return Budget(
            id=self._text(row, "id", f"{metric.name}@{device}" if device else metric.name, *place),
            metric=metric,
            device=device,
            limit=limit,
            change=change,
            tolerance=self._read(row, "tolerance", tolerance, *place) or 0.0,
            level="warn" if level == "warn" else "error",
            hint=self._text(row, "hint", "", *place),
            line=line_of(self._lines, *place),
        )

    def _allowed(
        self, row: Mapping[str, Any], metric: Metric, place: Place
    ) -> tuple[float | None, float | None]:
        """The limit and the change that a budget allows."""
        mine = ("min", "max_drop") if metric.higher else ("max", "max_regression")
        for key in ("min", "max_drop", "max", "max_regression"):
            if key in row and key not in mine:
                better = "more" if metric.higher else "less"
                raise self._wrong(
                    f"{key} does not fit {metric.name}, of which {better} is better: "
                    f"use {' or '.join(mine)}",
                    *place,
                    key,
                )
        if "max_regression" in row and metric.kind == "measured" and metric.name != PAIRED:
            raise self._wrong(
                f"only {PAIRED} is measured beside the base, {metric.name} is not: use max",
                *place,
                "max_regression",
            )
        read = points if metric.higher else share
        return (
            self._read(row, mine[0], lambda value: quantity(value, metric.unit), *place),
            self._read(row, mine[1], read, *place),
        )

    def _waiver(self, row: Mapping[str, Any], index: int, budgets: Collection[Budget]) -> Waiver:
        place = ("gate", "waiver", index)
        self._known(row, _WAIVER, *place)
        by_id = {budget.id: budget for budget in budgets}
        budget = self._among(row.get("budget"), by_id, "budget", *place, "budget")
        until, reason = row.get("until"), self._text(row, "reason", "", *place).strip()
        if isinstance(until, datetime.datetime) or not isinstance(until, datetime.date):
            raise self._wrong("until must be a day, written 2027-03-01", *place, "until")
        if not reason:
            raise self._wrong("a waiver needs a reason", *place, "reason")
        unit = by_id[budget].metric.unit
        return Waiver(
            budget=budget,
            ceiling=self._read(row, "ceiling", lambda value: quantity(value, unit), *place),
            until=until,
            reason=reason,
            line=line_of(self._lines, *place),
        )

    def _rows(self, table: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
        rows: Any = table.get(key, [])
        if not isinstance(rows, list) or not all(
            isinstance(row, dict) for row in cast("list[Any]", rows)
        ):
            raise self._wrong(f"write [[gate.{key}]] with two brackets", "gate", key)
        return cast("list[Mapping[str, Any]]", rows)

    def _file(self, table: Mapping[str, Any], key: str) -> Path:
        if not table.get(key):
            raise self._wrong(f"{key} is missing: which file is held to the budgets?", "gate")
        return self._path.parent / self._text(table, key, "", "gate")

    def _text(self, table: Mapping[str, Any], key: str, otherwise: str, *place: str | int) -> str:
        value = table.get(key, otherwise)
        if not isinstance(value, str):
            raise self._wrong(f"{key} must be a text in quotes, not {value!r}", *place, key)
        return value

    def _data(self, spec: str) -> str:
        """A spec whose file, where it is one, is found from edgeopt.toml's folder."""
        beside = self._path.parent / spec
        return str(beside) if spec and beside.exists() else spec

    def _unique(self, budgets: Collection[Budget]) -> None:
        counts = Counter(budget.id for budget in budgets)
        for budget in budgets:
            if counts[budget.id] > 1:
                raise ConfigError(
                    f"two budgets are called {budget.id!r}",
                    where=f"{self._path}:{budget.line}",
                    hint="give one of them an id of its own",
                )

    def _known(self, row: Mapping[str, Any], known: Collection[str], *place: str | int) -> None:
        for key in row:
            if key not in known:
                self._among(key, known, "key", *place, key)

    def _among(self, value: object, known: Collection[str], kind: str, *place: str | int) -> str:
        if isinstance(value, str) and value in known:
            return value
        near = difflib.get_close_matches(str(value), known, n=1)
        raise ConfigError(
            f"there is no {kind} {value!r}" if value is not None else f"{kind} is missing",
            where=f"{self._path}:{line_of(self._lines, *place)}",
            hint=(f"did you mean {near[0]!r}? " if near else "") + f"known: {', '.join(known)}",
        )

    def _read(
        self,
        row: Mapping[str, Any],
        key: str,
        parse: Callable[[object], float],
        *place: str | int,
    ) -> float | None:
        if key not in row:
            return None
        try:
            return parse(row[key])
        except UsageError as error:
            raise ConfigError(
                f"{key}: {error.what}",
                where=f"{self._path}:{line_of(self._lines, *place, key)}",
                hint=error.hint,
            ) from error

    def _wrong(self, what: str, *place: str | int) -> ConfigError:
        return ConfigError(what, where=f"{self._path}:{line_of(self._lines, *place)}")


def quantity(value: object, unit: str) -> float:
    """A limit as written, in the unit of its metric.

    Raises:
        UsageError: It has no unit, or another metric's.
    """
    text = str(value)
    if unit == "s":
        return _finite(parse_duration_s(text), text)
    if unit == "B":
        try:
            return float(parse_bytes(text))
        except OverflowError:
            return _finite(math.inf, text)
    if unit == "J":
        return _scaled(text, _JOULES, "an energy", "5 mJ")
    if unit == "1":
        return share(value)
    return _scaled(text, _COUNTS, "a count", "1200 or 1.2M")


def share(value: object) -> float:
    """`3%` is 0.03. A bare number is refused: it may be meant either way.

    Raises:
        UsageError: It is not written as a percentage.
    """
    return _scaled(str(value), {"%": 0.01}, "a percentage", "3%")


def tolerance(value: object) -> float:
    """A share below 100 %: with more, a least value would be kept by anything.

    Raises:
        UsageError: It is not written as a percentage, or is not below 100 %.
    """
    found = share(value)
    if found >= 1:
        raise UsageError(f"{str(value)!r} is no tolerance", hint="write less than 100%")
    return found


def points(value: object) -> float:
    """`1pt` is one point of a hundred.

    Raises:
        UsageError: It is not written in points.
    """
    return _scaled(str(value), {"pt": 0.01, "pts": 0.01}, "a number of points", "1pt")


def _scaled(text: str, units: Mapping[str, float], what: str, example: str) -> float:
    found = _NUMBER.match(text)
    if found is None or found.group(2) not in units:
        raise UsageError(f"{text!r} is not {what}", hint=f"write it as {example}")
    return _finite(float(found.group(1)) * units[found.group(2)], text)


def _finite(value: float, text: str) -> float:
    if not math.isfinite(value):
        raise UsageError(f"{text!r} allows everything", hint="write a number that can be missed")
    return value
