"""Outputs in fewer bytes: what a metric needs of them, and how the rest is restored on the host.

A device sends decisions instead of values where decisions are all that a metric looks at. They
are restored as outputs that decide the same, so that no metric has to know the reduced form.
The words: `full`; `drop`; `float16`; `argmax:AXIS`, -1 where something along it is not a number;
`above:VALUE`, 1 or 0, and -1 where the value is not a number.
"""

from collections.abc import Mapping

import numpy as np

from edgeopt.core.data import Array
from edgeopt.core.protocols import AccuracyMetric, Arrays
from edgeopt.data.accuracy_metric import Reducible
from edgeopt.data.outputs import argmax

DECISIONS = ("argmax", "above")


def reduction(metric: AccuracyMetric, outputs: Arrays, target: Array | None) -> Mapping[str, str]:
    """What a metric needs of every output: all of each, where it does not say.

    Args:
        metric: Judges the outputs.
        outputs: Of one sample, whole.
        target: Its label.
    """
    if not isinstance(metric, Reducible):
        return dict.fromkeys(outputs, "full")
    said = metric.reduction(outputs, target)
    return {name: said.get(name, "drop") for name in outputs}


def common(one: Mapping[str, str], other: Mapping[str, str]) -> Mapping[str, str]:
    """What serves two samples: what both need, and in full what they need differently."""
    names = dict.fromkeys((*one, *other))
    return {name: one[name] if one.get(name) == other.get(name) else "full" for name in names}


def is_decision(what: str) -> bool:
    """Whether only decisions are sent."""
    return what.partition(":")[0] in DECISIONS


def decided(output: Array, what: str) -> Array | None:
    """The decisions of a whole output; None where it decides nothing."""
    kind, _, argument = what.partition(":")
    if kind == "argmax":
        return argmax(output, int(argument))
    if kind == "above":
        return np.where(np.isnan(output), -1, (output > float(argument)).astype(np.int64))
    return None if output.dtype.kind == "f" else output


def restored(sent: Array, what: str, shape: tuple[int, ...]) -> Array:
    """An output that decides as the whole one did; what was not decided is sent as it was.

    Args:
        sent: As the device reduced it.
        what: The word for how.
        shape: Of the whole output.

    Raises:
        ValueError: The shape does not fit what was sent.
    """
    kind, _, argument = what.partition(":")
    if kind == "argmax":
        axis = int(argument)
        found = np.zeros(shape, np.float32)
        place = np.expand_dims(sent.astype(np.int64), axis)
        np.put_along_axis(found, np.maximum(place, 0), 1.0, axis)
        return np.where(place < 0, np.float32(np.nan), found)
    if kind == "above":
        over = np.where(sent > 0, np.float32(np.inf), np.float32(-np.inf))
        return np.where(sent < 0, np.float32(np.nan), over).reshape(shape)
    return sent.astype(np.float32) if kind == "float16" and sent.dtype == np.float16 else sent
