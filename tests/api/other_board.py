"""A device that computes something else than it is sent."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeopt.core.protocols import Target


class OtherBoard:
    """A device that computes something else: it runs another file than it is sent.

    Args:
        target: The device that really runs.
        files: File to the one that runs in its place.
    """

    def __init__(self, target: Target, files: Mapping[Path, Path]) -> None:
        self._target = target
        self._files = files
        self.asked: list[Mapping[str, Any]] = []

    @property
    def name(self) -> str:
        return self._target.name

    def put(self, path: Path) -> str:
        return self._target.put(self._files.get(path, path))

    def request(self, verb: str, *, deadline_s: float, **arguments: Any) -> Mapping[str, Any]:
        self.asked.append(arguments)
        return self._target.request(verb, deadline_s=deadline_s, **arguments)

    def fetch(self, place: str) -> Path:
        return self._target.fetch(place)

    def close(self) -> None:
        self._target.close()
