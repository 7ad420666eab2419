"""What a person may say about data beside the data itself, and how files describe themselves.

A data file carries its own description (the `edgeopt` key of an npz, `edgeopt.json` in a folder)
with the same keys; what is said explicitly wins over it.
"""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from edgeopt.errors import DataError

KINDS = ("image", "audio", "tokens", "features")
_KEYS = (
    "metric",
    "metric_options",
    "state",
    "preprocess",
    "split",
    "seed",
    "probes",
    "probe_sets",
    "limit",
    "kind",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOptions:
    """How data is read, split and probed.

    Args:
        metric: Name of the accuracy metric; empty where the data or the caller's default decides.
        metric_options: Options of the metric (a charset, class names, an output).
        state: Output name to input name: fed from one sample to the next of its group.
        preprocess: See `preprocess.Preprocess`; needed where images are stored as uint8.
        split: Fractions of `calibration`, `search` and `test`; empty is 0.2, 0.4, 0.4.
        seed: Of the split and of the probes.
        probes: Names of built-in shifts; None is all that fit the data, empty is none.
        probe_sets: The user's own shifted sets: name to specification.
        limit: Use that many samples (whole groups) at most.
        kind: `image`, `audio`, `tokens` or `features`; empty is found out from the inputs.
    """

    metric: str = ""
    metric_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state: Mapping[str, str] = field(default_factory=dict[str, str])
    preprocess: Mapping[str, Any] = field(default_factory=dict[str, Any])
    split: Mapping[str, float] = field(default_factory=dict[str, float])
    seed: int = 0
    probes: tuple[str, ...] | None = None
    probe_sets: Mapping[str, str] = field(default_factory=dict[str, str])
    limit: int | None = None
    kind: str = ""

    def over(self, declared: Mapping[str, Any]) -> "DataOptions":
        """These options, completed by what the data says about itself.

        `metric_options` are merged key by key; everything else is taken whole.
        """
        merged = dict(declared.get("metric_options", {})) | dict(self.metric_options)
        found = replace(self, metric_options=merged)
        for key, value in declared.items():
            if key != "metric_options" and getattr(self, key) == _DEFAULTS[key]:
                found = replace(found, **{key: tuple(value) if key == "probes" else value})
        return found


_DEFAULTS = {key: getattr(DataOptions(), key) for key in _KEYS}


def parse_description(text: str, where: str) -> Mapping[str, Any]:
    """The description that a data file carries: a JSON object with the keys of `DataOptions`.

    Raises:
        DataError: Not JSON, not an object, an unknown key, or a value of another type.
    """
    try:
        document: Any = json.loads(text)
    except ValueError as error:
        raise DataError(
            f"the description is not JSON ({error})",
            where=where,
            hint='write for example {"metric": "top1"}',
        ) from error
    if not isinstance(document, dict):
        raise DataError("the description is not a JSON object", where=where)
    found = cast("dict[str, Any]", document)
    for key, value in found.items():
        if key not in _KEYS:
            raise DataError(
                f"the description has an unknown key {key!r}", where=where, hint=nearest(key, _KEYS)
            )
        _check_type(key, value, where)
    return found


def _check_type(key: str, value: Any, where: str) -> None:
    kind = {"probes": list, "seed": int, "limit": int, "metric": str, "kind": str}.get(key, dict)
    if not isinstance(value, kind) and not (key == "limit" and value is None):
        raise DataError(
            f"{key!r} in the description is {type(value).__name__}, expected {kind.__name__}",
            where=where,
        )


def nearest(name: str, available: Iterable[str]) -> str:
    """A hint: the nearest available name where there is one, and all of them."""
    names = list(available)
    lower = {other.lower(): other for other in names}
    near = [lower[found] for found in difflib.get_close_matches(name.lower(), lower, n=1)]
    listed = ", ".join(repr(other) for other in names) or "none"
    return (f"did you mean {near[0]!r}? " if near else "") + f"available: {listed}"
