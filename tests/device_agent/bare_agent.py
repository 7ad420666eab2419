"""A bare agent for tests: what a host sees without any of our host code."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0


class Pipe:
    """A bare agent: what a host sees without any of our host code."""

    def __init__(self, bundle: Path, environment: dict[str, str] | None = None) -> None:
        self.beats = 0
        self.process = subprocess.Popen(
            [sys.executable, str(bundle)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )

    def write(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def send(self, name: str, verb: str, deadline_s: float = 60.0, **arguments: Any) -> None:
        message = {"id": name, "verb": verb, "deadline_s": deadline_s, "arguments": arguments}
        self.write(json.dumps(message))

    def read(self) -> dict[str, Any]:
        """The next message that is no sign of life."""
        assert self.process.stdout
        while True:
            message = json.loads(self.process.stdout.readline())
            if "beat" not in message:
                return message
            self.beats += 1

    def ask(self, name: str, verb: str, deadline_s: float = 60.0, **arguments: Any) -> Any:
        self.send(name, verb, deadline_s, **arguments)
        return self.read()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()


def children(pid: int) -> list[int]:
    """Processes whose parent is that one, from /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_for(condition: Any) -> bool:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False
