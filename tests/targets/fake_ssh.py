"""A program in the place of ssh that runs commands here, and writes down how it was called."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_PROGRAM = """#!{python}
import json, os, subprocess, sys
words = sys.argv[1:]
with open({log!r}, "a") as stream:
    stream.write(json.dumps(words) + "\\n")
settings = json.load(open({settings!r}))
if "-G" in words:
    print("\\n".join(settings["facts"]))
elif "-O" in words:
    sys.exit(0 if settings["master"] else 255)
elif settings["stderr"]:
    sys.stderr.write(settings["stderr"])
    sys.exit(255)
else:
    sys.stdout.write(settings["motd"])
    sys.stdout.flush()
    os.execve("/bin/sh", ["sh", "-c", words[-1]], dict(os.environ, **settings["variables"]))
"""


class FakeSsh:
    """The program, and what it does.

    Args:
        folder: For its files.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "calls.jsonl"
        self._settings = folder / "settings.json"
        self.program = folder / "fake ssh"
        self.program.write_text(
            _PROGRAM.format(python=sys.executable, log=str(self._log), settings=str(self._settings))
        )
        self.program.chmod(0o755)
        self.behave()

    def behave(
        self,
        *,
        stderr: str = "",
        motd: str = "",
        facts: Sequence[str] = ("hostname board.lan", "port 22", "stricthostkeychecking ask"),
        master: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """What happens from now on: `stderr` with exit code 255, or the command after `motd`."""
        settings = {
            "stderr": stderr,
            "motd": motd,
            "facts": list(facts),
            "master": master,
            "variables": dict(variables or {}),
        }
        self._settings.write_text(json.dumps(settings))

    def calls(self) -> list[list[str]]:
        """The words of every call that ran a command."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        found = [json.loads(line) for line in lines]
        return [words for words in found if "-G" not in words and "-O" not in words]
