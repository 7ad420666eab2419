"""Layer tables in the document: columns over a pool of strings, shared between trials.

Three devices with twenty shown models of two hundred layers are twelve thousand rows. As objects
they would be larger than the rest of the report; as columns they are a tenth of it.

    document["layers"] = {"strings": [...], "tables": {KEY: {column: [...]}}}
    point["layers"] = {"table": KEY, "ran": [...], ...}         what this device made of it

`rows` reads both back.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgeopt.core.layers import LayerTable, family, weighted
from edgeopt.core.lowered import Layer, Lowered
from edgeopt.report.words import rounded

_SUFFIX = re.compile(r"(_nchwc|_nhwc|_token_\d+|_quant)+$")
_STEPS = 4
"""A runtime merges a layer with at most so many behind it (bias, scale, gate, activation)."""
UNTABLED = "only the front, the picks, the given model and the usual ways have a layer table"
UNBUILT = "the layers of this model were not read"


@dataclass
class Strings:
    """Every text once; a column holds positions."""

    found: dict[str, int] = field(default_factory=dict[str, int])

    def place(self, text: str | None) -> int | None:
        """The position of a text; None for no text."""
        return None if not text else self.found.setdefault(text, len(self.found))


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Layer tables of a document while it is made.

    Args:
        columns: Key to a table as the document holds it.
        keys: Digest of a model to the key of its table.
        strings: What the columns point into.
    """

    columns: Mapping[str, Any]
    keys: Mapping[str, str]
    strings: Strings

    @staticmethod
    def of(known: Mapping[str, LayerTable], used: Iterable[str]) -> "Tables":
        """The tables of the models that are used, where they are known."""
        strings = Strings()
        there = [digest for digest in dict.fromkeys(used) if digest in known]
        keys = {digest: f"m{index}" for index, digest in enumerate(there)}
        columns = {keys[digest]: _columns(known[digest], strings) for digest in there}
        return Tables(columns=columns, keys=keys, strings=strings)


def _columns(table: LayerTable, strings: Strings) -> dict[str, Any]:
    layers, place = table.layers, strings.place
    return {
        "value": [place(each.value) for each in layers],
        "name": [place(each.name) for each in layers],
        "operator": [place(each.operator) for each in layers],
        "asked": [place(each.asked) for each in layers],
        "shape": [
            None if each.shape is None else place("x".join(map(str, each.shape)) or "scalar")
            for each in layers
        ],
        "width": [each.width for each in layers],
        "weight_bytes": [each.weight_bytes for each in layers],
        "macs": [each.macs for each in layers],
        "source": [each.source for each in layers],
        "snr_db": [None if e.snr_db is None else round(e.snr_db, 1) for e in layers],
        "actions": [[place(text) for text in each.actions] for each in layers],
        "absent": dict(table.absent),
        "snr_inputs": table.snr_inputs,
        "removed": [[place(value), place(text)] for value, text in table.removed.items()],
    }


def executed(table: LayerTable, key: str, lowered: Lowered | None, strings: Strings) -> Any:
    """What a runtime made of each layer of a table; None for `ran` where it was not asked.

    `into` is the position of the layer that one was merged into. `others` are nodes that the
    runtime executed and that are no layer of the model: reorderings, codes in and out.
    """
    ran = () if lowered is None else lowered.layers
    where, others = matched(table, ran)
    return {
        "table": key,
        "operator": [_of(where.get(i), strings, "operator") for i in range(len(table.layers))],
        "ran": [_of(where.get(i), strings, "precision") for i in range(len(table.layers))],
        "time_s": [_time(where.get(i)) for i in range(len(table.layers))],
        "into": _merged(table, where),
        "others": [
            [strings.place(e.operator), strings.place(e.precision), _time(e)] for e in others
        ],
        "absent": _why_not_ran(lowered),
    }


def _of(layer: Layer | None, strings: Strings, name: str) -> int | None:
    return None if layer is None else strings.place(getattr(layer, name))


def _time(layer: Layer | None) -> float | None:
    return None if layer is None or layer.time_s is None else rounded(layer.time_s, 3)


def _why_not_ran(lowered: Lowered | None) -> str:
    if lowered is None:
        return "the runtime was not asked what it built"
    if lowered.ran is None:
        return lowered.note or "the provider does not show its layers"
    return "" if lowered.layers else "nothing was profiled"


def matched(table: LayerTable, ran: Sequence[Layer]) -> tuple[Mapping[int, Layer], Sequence[Layer]]:
    """Position of a layer to what ran for it, and what ran beside.

    By name of node or value, without what the runtime appends. A kernel that bears the name of an
    activation and is a convolution ran the convolution before it: walk back to the first of its
    family.
    """
    places = {each.name: i for i, each in enumerate(table.layers) if each.name}
    places = {**{each.value: i for i, each in enumerate(table.layers)}, **places}
    where: dict[int, Layer] = {}
    others: list[Layer] = []
    for layer in ran:
        place = places.get(layer.name, places.get(_SUFFIX.sub("", layer.name)))
        place = None if place is None else _behind(table, place, layer.operator)
        if place is None or place in where:
            others.append(layer)
        else:
            where[place] = layer
    return where, others


def _behind(table: LayerTable, place: int, operator: str) -> int:
    """The first layer of the operator's family on the way back; the layer itself without one."""
    wanted, at = family(operator), place
    for _ in range(_STEPS):
        if family(table.layers[at].operator) == wanted:
            return at
        before = table.layers[at].source
        if before is None:
            break
        at = before
    return place


def _merged(table: LayerTable, where: Mapping[int, Layer]) -> list[int | None]:
    """Where a layer that did not run by itself ran: in the one before that did.

    Nothing is said where nothing ran under a name that is known.
    """
    found: list[int | None] = []
    for place in range(len(table.layers)):
        at: int | None = None if place in where or not where else table.layers[place].source
        steps = 0
        while at is not None and at not in where and steps < _STEPS:
            at, steps = table.layers[at].source, steps + 1
        reached = at is not None and at in where and weighted(table.layers[at].operator)
        found.append(at if reached else None)
    return found


def rows(document: Mapping[str, Any], point: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The layers of a trial as objects: what `point["layers"]` and its table say.

    Returns:
        `value`, `name`, `operator`, `asked`, `shape`, `width`, `weight_bytes`, `macs`, `source`,
        `snr_db`, `actions`, and what ran: `ran_operator`, `ran`, `time_s`, `into`; none where
        the trial has no table.
    """
    mine = point["layers"]
    if mine is None:
        return []
    strings, table = document["layers"]["strings"], document["layers"]["tables"][mine["table"]]

    def text(place: int | None) -> str:
        return "" if place is None else str(strings[place])

    return [
        {
            **{name: text(table[name][i]) for name in ("value", "name", "operator", "asked")},
            "shape": text(table["shape"][i]),
            **{n: table[n][i] for n in ("width", "weight_bytes", "macs", "source", "snr_db")},
            "actions": [text(place) for place in table["actions"][i]],
            "ran_operator": text(mine["operator"][i]),
            "ran": text(mine["ran"][i]),
            "time_s": mine["time_s"][i],
            "into": mine["into"][i],
        }
        for i in range(len(table["value"]))
    ]


def removed(document: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, str]:
    """Values of the given model that a trial does not make any more, and the action behind it."""
    mine = point["layers"]
    if mine is None:
        return {}
    strings, table = document["layers"]["strings"], document["layers"]["tables"][mine["table"]]
    return {strings[value]: strings[text] for value, text in table["removed"]}
