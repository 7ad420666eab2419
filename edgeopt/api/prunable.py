"""Why a search is offered nothing to prune: what a report says of a model that is left alone."""

import re
from collections import Counter
from collections.abc import Collection, Iterable

import onnx_ir as ir

from edgeopt.core.action import Choice
from edgeopt.transforms.channels.groups import Dependencies

_FAMILY = "prune"
_REASONS = 3
_QUOTED = re.compile(r" '[^']*'")


def nothing_to_prune(
    model: ir.Model, choices: Iterable[Choice], *, families: Collection[str], data: bool
) -> str:
    """Empty where something is offered, else the reason, as the end of a sentence.

    Args:
        model: As actions meet it: sorted, with shapes.
        choices: Of the spaces that were searched.
        families: Of actions that were allowed.
        data: Whether there are samples to judge by.
    """
    if any(choice.family == _FAMILY for choice in choices):
        return ""
    if _FAMILY not in families:
        return "the family prune was not among those that were searched"
    if not data:
        return "without samples nothing says which channels the model can do without"
    found = Dependencies(model)
    if found.groups:
        return (
            f"of its {len(found.groups)} groups of channels none is offered: they carry a residual "
            "stream, or are no wider than one block of the device"
        )
    reasons = (_QUOTED.sub("", one.reason) for one in found.refused)
    counts = Counter(reasons).most_common(_REASONS)
    told = "; ".join(f"{number} layers: {reason}" for reason, number in counts)
    return f"no layer's channels can go{': ' * bool(told)}{told}"
