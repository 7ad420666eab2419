"""What a reader must know of each device: kind, provider, what its sensor sees, what is real."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from edgeopt.core.trial import Trial

EMULATED = "time is emulated"
OF_SENSORS = ("energy", "power", "paced_energy")


def environments(trials: Iterable[Trial]) -> dict[str, dict[str, str]]:
    """Facts of each device that held during all of its measurements."""
    found: dict[str, dict[str, str]] = {}
    for trial in trials:
        if trial.measurement is None:
            continue
        facts = dict(trial.measurement.environment)
        held = found.setdefault(trial.device, facts)
        found[trial.device] = {k: v for k, v in held.items() if facts.get(k) == v}
    return found


def about(
    name: str, trials: Sequence[Trial], baseline: Trial | None, profile: str, quality: str
) -> dict[str, Any]:
    """A device as the document shows it.

    Args:
        name: Of the device.
        trials: All of the study.
        baseline: The given model on it; None where it was not measured.
        profile: What kind of device it is; empty takes what its measurements say.
        quality: Name of the accuracy metric; empty without data.
    """
    mine = [t for t in trials if t.device == name and t.measurement is not None]
    scopes = _said(mine, "energy_scope")
    emulated = "emulated" in _said(mine, "time")
    kind = profile or next(iter(_said(mine, "profile")), "")
    used = dict.fromkeys(t.candidate.runtime.provider for t in mine)
    providers = [each.removesuffix("ExecutionProvider") for each in used]
    value = None if baseline is None else baseline.value(quality)
    words = [*([kind] if kind else []), *([", ".join(providers)] if providers else [])]
    words += [f"energy of the {' and the '.join(scopes)}"] if scopes else []
    words += [EMULATED] if emulated else []
    return {
        "profile": kind,
        "providers": providers,
        "energy_scopes": scopes,
        "emulated": emulated,
        "accuracy": "" if value is None else value.note,
        "text": "; ".join(words),
    }


def _said(trials: Iterable[Trial], key: str) -> list[str]:
    """What the environments of trials say under a key, in the order of the trials."""
    said = [t.measurement.environment.get(key, "") for t in trials if t.measurement is not None]
    return [value for value in dict.fromkeys(said) if value]


def metric_title(name: str, device: Mapping[str, Any]) -> str:
    """A metric as a column head: joules always with what the sensor sees."""
    title = name.replace("_", " ")
    scopes = device["energy_scopes"]
    of_sensor = name.startswith(OF_SENSORS) and "@" not in name
    return f"{title} ({', '.join(scopes)})" if of_sensor and scopes else title
