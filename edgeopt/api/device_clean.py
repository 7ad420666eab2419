"""`edgeopt device clean`: what lies in a device's folder for nobody any more is removed."""

import dataclasses
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgeopt.errors import DeviceError, UsageError
from edgeopt.targets.devices import resolve
from edgeopt.targets.open import open_target
from edgeopt.targets.transfer import human

DAYS = 30.0
_CLEAN_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What a clean-up removed.

    Args:
        freed_bytes: What this freed.
        free_bytes: What is free there now.
        removed: How many of each kind: agents, files, blobs, engines, results, work.
        kept: The same of what stays.
        sessions: How many other sessions run there; what they use stays.
    """

    freed_bytes: int
    free_bytes: int
    removed: Mapping[str, int]
    kept: Mapping[str, int]
    sessions: int

    @property
    def text(self) -> str:
        """All of it in a few words."""
        freed, free = human(self.freed_bytes), human(self.free_bytes)
        text = f"{freed} freed ({_counts(self.removed)}), {free} free; kept: {_counts(self.kept)}"
        if self.sessions:
            others = "1 other session" if self.sessions == 1 else f"{self.sessions} other sessions"
            text += f"; what {others} may use stays"
        return text


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{kind}: {count}" for kind, count in sorted(found.items())) or "nothing"


def clean(name: str, *, days: float = DAYS, everything: bool = False) -> Cleaned:
    """Remove old agents, models and engines not used for so many days, and old results.

    Waits while somebody measures there; what a running session uses stays.

    Args:
        name: Of the device.
        days: Without use.
        everything: However lately it was used.

    Raises:
        UsageError: There is no such device, or it is a recording.
        DeviceError: It does not answer, somebody measures there, or a file cannot be removed.
    """
    entry = resolve(name)
    if entry.kind == "replay":
        raise UsageError("a recording keeps nothing", where=name, hint="delete its file")
    with tempfile.TemporaryDirectory(prefix="edgeopt-clean-") as folder:
        target = open_target(dataclasses.replace(entry, power_mode=""), folder=Path(folder))
        try:
            found = target.request("clean", deadline_s=_CLEAN_S, days=days, everything=everything)
        finally:
            target.close()
    if not found["ok"]:
        error = found["error"]
        raise DeviceError(str(error["text"]), where=name, hint=str(error["hint"]))
    fields = [field.name for field in dataclasses.fields(Cleaned)]
    return Cleaned(**{field: found[field] for field in fields})
