"""`edgeopt pick`: one model of a study's front, chosen by limits and a preference."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeopt.api.report import study_document
from edgeopt.errors import UsageError
from edgeopt.report.choice import choice_text, chosen
from edgeopt.report.lines import WIDTH
from edgeopt.units import parse_bytes, parse_duration_s


def _share(text: str) -> float:
    """`92%` as 0.92."""
    number = text.removesuffix("%")
    try:
        value = float(number) / 100
    except ValueError:
        value = -1.0
    if number == text or not 0 <= value <= 1:
        raise UsageError(f"{text!r} is not a share", hint="write --min accuracy=92%")
    return value


def _joules(text: str) -> float:
    """`3mJ`, `0.5J`."""
    for unit, factor in (("mJ", 1e-3), ("J", 1.0)):
        if text.endswith(unit):
            try:
                return float(text.removesuffix(unit)) * factor
            except ValueError:
                break
    raise UsageError(f"{text!r} is not an energy", hint="write --max energy=3mJ")


MOST: Mapping[str, Callable[[str], float]] = {
    "latency": parse_duration_s,
    "size": parse_bytes,
    "peak_memory": parse_bytes,
    "energy": _joules,
}
LEAST: Mapping[str, Callable[[str], float]] = {"accuracy": _share}


def pick(
    study: str | None,
    *,
    device: str | None,
    most: Sequence[str] = (),
    least: Sequence[str] = (),
    prefer: str = "fastest",
    store: Path | None,
    width: int = WIDTH,
) -> dict[str, Any]:
    """The preferred member of the front within the limits, and the reason in words.

    Args:
        study: Id or its beginning; the latest when None.
        device: One of the study's; None where it has one.
        most: `latency=8ms`, `size=4MB`, `peak_memory=50MB`, `energy=3mJ`.
        least: `accuracy=92%`.
        prefer: `fastest`, `smallest`, `most_accurate`, `least_energy` or `knee`.
        store: The workspace.
        width: Characters of a line of `text`.

    Raises:
        UsageError: A limit, device or preference that is not known.
        NothingToDoError: No member keeps the limits; the nearest miss is named.
    """
    document = study_document(study, store=store)
    known = document["study"]["devices"]
    if device is None and len(known) > 1:
        raise UsageError(
            "each device has its own front", hint=f"say which: --for {' or --for '.join(known)}"
        )
    made = chosen(
        document,
        device or known[0],
        most=dict(limit_of(text, "max", MOST) for text in most),
        least=dict(limit_of(text, "min", LEAST) for text in least),
        prefer=prefer,
        where="" if store is None else f" --store {shlex.quote(str(store))}",
    )
    return {**made, "text": choice_text(made, document, width)}


def limit_of(
    text: str, option: str, known: Mapping[str, Callable[[str], float]]
) -> tuple[str, float]:
    name, _, value = text.partition("=")
    if name not in known or not value:
        examples = {"max": "latency=8ms", "min": "accuracy=92%"}
        raise UsageError(
            f"{text!r} is not a limit for --{option}",
            hint=f"write --{option} {examples[option]}; known: {', '.join(known)}",
        )
    return name, known[name](value)
