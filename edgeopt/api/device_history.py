"""When each device was last checked, and how that ended: a memory for `edgeopt device list`."""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from edgeopt.api.device_facts import Check

_ORDER = ("OK", "NOTE", "WARN", "FAIL")


def history_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the memory lies: the user's cache, since losing it costs nothing."""
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".cache"
    return Path(base) / "edgeopt" / "device-checks.json"


def last_checks(path: Path | None = None) -> dict[str, dict[str, str]]:
    """By device: `time` (local, ISO 8601) and `status`; empty where nothing is known."""
    try:
        found: Any = json.loads((path or history_file()).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        name: cast("dict[str, str]", each)
        for name, each in cast("dict[str, Any]", found).items()
        if isinstance(each, dict) and {"time", "status"} <= cast("dict[str, Any]", each).keys()
    }


def remember(
    name: str, checks: Sequence[Check], *, now: datetime, path: Path | None = None
) -> None:
    """Keep the worst status of a check; a cache that cannot be written is no failure."""
    place = path or history_file()
    worst = max((each.status for each in checks), key=_ORDER.index, default="FAIL")
    status = "OK" if worst == "NOTE" else worst
    known = last_checks(place) | {name: {"time": now.isoformat(" ", "minutes"), "status": status}}
    aside = place.with_name(f"{place.name}.part-{os.getpid()}")
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(known, indent=2), encoding="utf-8")
        aside.replace(place)
