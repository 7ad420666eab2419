"""Control groups: boards with little memory, or with a slow processor, on this machine."""

import contextlib
import os
import shlex
import sys
import uuid
from pathlib import Path

from tests.lab import openssh

ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 20_000


class Group:
    """A control group, and an interpreter that joins it before it starts.

    Args:
        folder: For the interpreter.
        memory_bytes: Above it the kernel kills; None for no limit.
        processors: So many it gets, such as 0.2; None for no limit.

    Raises:
        OSError: No root, or no such control groups.
    """

    def __init__(
        self, folder: Path, *, memory_bytes: int | None = None, processors: float | None = None
    ) -> None:
        name = f"edgeopt-lab-{uuid.uuid4().hex[:8]}"
        self._places: list[Path] = []
        limits: list[tuple[str, str, str, str]] = []
        if memory_bytes is not None:
            count = str(memory_bytes)
            limits.append(("memory", "memory.limit_in_bytes", "memory.max", count))
        if processors is not None:
            quota = str(int(processors * _PERIOD_US))
            limits.append(("cpu", "cpu.cfs_quota_us", "cpu.max", quota))
        try:
            for controller, old, new, value in limits:
                self._limit(name, controller, old, new, value)
        except OSError:
            self.remove()
            raise
        joins = [f"echo $$ > {shlex.quote(str(each))}/cgroup.procs" for each in self._places]
        self.python = folder / f"python-{name}"
        start = f'exec {shlex.quote(sys.executable)} "$@"'
        self.python.write_text("\n".join(["#!/bin/sh", *joins, start, ""]))
        self.python.chmod(0o755)

    def _limit(self, name: str, controller: str, old: str, new: str, value: str) -> None:
        if (ROOT / "cgroup.controllers").is_file():
            (ROOT / "cgroup.subtree_control").write_text(f"+{controller}")
            place = ROOT / name
            place.mkdir(exist_ok=True)
            value = f"{value} {_PERIOD_US}" if controller == "cpu" else value
            (place / new).write_text(value)
        else:
            place = ROOT / controller / name
            place.mkdir()
            if controller == "cpu":
                (place / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (place / old).write_text(value)
        if place not in self._places:
            self._places.append(place)

    def throttled(self) -> int:
        """How often its processes had to wait for the next period."""
        for place in self._places:
            with contextlib.suppress(OSError):
                for line in (place / "cpu.stat").read_text().splitlines():
                    if line.startswith("nr_throttled "):
                        return int(line.split()[1])
        return 0

    def empty(self) -> bool:
        """Whether none of its processes is left."""
        return not any((place / "cgroup.procs").read_text() for place in self._places)

    def remove(self) -> None:
        """Take the group away, once it is empty."""
        openssh.wait_for(self.empty, 10.0)
        for place in self._places:
            with contextlib.suppress(OSError):
                os.rmdir(place)
