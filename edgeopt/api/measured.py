"""What `edgeopt measure` has measured: kept by everything that the result depends on.

One JSON file a result in the workspace's folder `measured/`. Only what may be used is kept: an
invalid measurement is no knowledge. A file that cannot be read counts as none.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeopt.core import digest as digests
from edgeopt.core.codec import decode, encode
from edgeopt.core.written import write_whole
from edgeopt.measure.runner import Outcome

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A result of an earlier command.

    Args:
        outcome: As it was found.
        age_s: Seconds since then.
    """

    outcome: Outcome
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStore:
    """Results of earlier commands.

    Args:
        folder: Made on the first result.
        clock: Seconds since 1970.
    """

    folder: Path
    clock: Callable[[], float] = time.time

    def find(self, key: Mapping[str, Any]) -> Known | None:
        """The result of an equal question; None where there is none."""
        try:
            document = json.loads(self._path(key).read_text(encoding="utf-8"))
            if document["format"] != FORMAT or document["key"] != encode(key):
                return None
            outcome = decode(Outcome, document["outcome"])
            return Known(outcome=outcome, age_s=self.clock() - float(document["at"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, key: Mapping[str, Any], outcome: Outcome) -> None:
        """Keep a result, unless it is invalid; the one before it is replaced.

        Raises:
            StorageError: The folder cannot be written.
        """
        if outcome.verdict.status == "invalid":
            return
        document = {
            "format": FORMAT,
            "at": self.clock(),
            "key": encode(key),
            "outcome": encode(outcome),
        }
        path = self._path(key)
        write_whole(
            path,
            json.dumps(document),
            what="the result cannot be kept",
            hint="free space there, or choose another folder with --store",
        )

    def _path(self, key: Mapping[str, Any]) -> Path:
        text = json.dumps(encode(key), sort_keys=True)
        return self.folder / f"{digests.short(digests.of_text(text))}.json"
