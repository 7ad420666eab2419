"""The first steps on a device: which interpreter, which folder, and the agent's file put there.

What runs there before the agent does is Python source on a command line: one line without a line
break or a doubled backslash, since every login shell passes that on as it is. It also runs on
Python 2, to say so.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from edgeopt.core.device import DeviceEntry

MARK = "edgeopt-bootstrap "
DEFAULT_CACHE = "~/.cache/edgeopt"

_SURVEY = """
import sys, os, json
found = {"version": list(sys.version_info[:3]), "executable": sys.executable or "", "words": ""}
cache = os.path.abspath(os.path.expanduser(sys.argv[1]))
agent = os.path.join(cache, sys.argv[2])
found.update(cache=cache, agent=agent, present=False, problem="", free=None)
try:
    import hashlib, platform
    found["machine"], found["system"] = platform.machine(), platform.system()
    if not os.path.isdir(cache):
        os.makedirs(cache, 0o700)
    trial = os.path.join(cache, ".part-trial-%d" % os.getpid())
    open(trial, "w").close()
    os.remove(trial)
    disk = os.statvfs(cache)
    found["free"] = disk.f_bavail * disk.f_frsize
    if os.path.isfile(agent):
        with open(agent, "rb") as stream:
            found["present"] = hashlib.sha256(stream.read()).hexdigest() == sys.argv[3]
except (IOError, OSError) as error:
    found["problem"] = error.strerror or str(error)
print("")
print(sys.argv[4] + json.dumps(found))
"""

_RECEIVE = """
import sys, os, json, hashlib
place, digest, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
found = {"ok": False, "problem": ""}
part = os.path.join(os.path.dirname(place), ".part-%d" % os.getpid())
try:
    data = sys.stdin.buffer.read(size)
    if hashlib.sha256(data).hexdigest() != digest:
        found["problem"] = "%d of %d bytes arrived" % (len(data), size)
    else:
        with open(part, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(part, place)
        found["ok"] = True
except (IOError, OSError) as error:
    found["problem"] = error.strerror or str(error)
    if os.path.exists(part):
        os.remove(part)
print("")
print(sys.argv[4] + json.dumps(found))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A command that starts Python on the device, and how a person would call it."""

    argv: tuple[str, ...]

    @property
    def shown(self) -> str:
        """As a person writes it."""
        return shlex.join(self.argv)


def interpreters(entry: DeviceEntry) -> tuple[Interpreter, ...]:
    """What to try, in order: what the entry says and nothing else, or the usual places."""
    if entry.exec:
        return (Interpreter(argv=tuple(shlex.split(entry.exec))),)
    if entry.python:
        return (Interpreter(argv=(entry.python,)),)
    cache = entry.cache_dir or DEFAULT_CACHE
    return tuple(
        Interpreter(argv=(path,)) for path in (f"{cache}/venv/bin/python", "python3", "python")
    )


def survey_command(
    tried: Sequence[Interpreter], cache: str, agent: str, digest: str
) -> tuple[str, ...]:
    """Finds interpreter, folder and free space in one go; see `read_survey`.

    Args:
        tried: Interpreters, the first that starts is taken.
        cache: The agent's folder.
        agent: Name of its file.
        digest: SHA-256 of that file in hexadecimal digits.
    """
    steps = ["echo; echo " + shlex.quote(MARK + "uname") + ' "$(uname -sm)"']
    for number, each in enumerate(tried):
        command = _shell([*each.argv, "-c", one_line(_SURVEY), cache, agent, digest, MARK])
        mark = shlex.quote(f"{MARK}chosen {number}")
        steps.append(f"{command} </dev/null && echo {mark} && exit 0")
        steps.append("echo " + shlex.quote(f"{MARK}tried {number}") + " $?")
    return ("sh", "-c", "; ".join(steps))


def receive_command(interpreter: Interpreter, place: str, digest: str, size: int) -> list[str]:
    """Writes so many bytes of stdin to a file, if they have that SHA-256."""
    return [*interpreter.argv, "-c", one_line(_RECEIVE), place, digest, str(size), MARK]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What the first command found.

    Args:
        found: Of the interpreter that started; None where none did.
        chosen: Its number.
        codes: Exit codes of those before it, by number.
        system: What `uname -sm` says; empty where there is none.
    """

    found: dict[str, object] | None
    chosen: int
    codes: dict[int, int]
    system: str


def read_survey(output: str) -> Survey:
    """What the device answered, whatever its login printed before."""
    found: dict[str, object] | None = None
    chosen, codes, system = -1, dict[int, int](), ""
    for line in output.splitlines():
        _, mark, rest = line.partition(MARK)
        if not mark:
            continue
        word, _, value = rest.partition(" ")
        if word == "uname":
            system = value.strip()
        elif word == "tried":
            number, _, code = value.partition(" ")
            codes[int(number)] = int(code)
        elif word == "chosen":
            chosen = int(value)
        else:
            found = decoded(rest)
    return Survey(found=found if chosen >= 0 else None, chosen=chosen, codes=codes, system=system)


def answer(output: str) -> dict[str, object] | None:
    """The one answer of a command; None where it gave none."""
    for line in output.splitlines():
        _, mark, rest = line.partition(MARK)
        if mark:
            return decoded(rest)
    return None


def decoded(text: str | bytes) -> dict[str, Any] | None:
    """The object of a line; None where the connection was cut in the middle of it."""
    try:
        found: Any = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def one_line(source: str) -> str:
    """Python source as one expression without a line break."""
    return f"exec({json.dumps(source.strip())})"


def _shell(argv: Sequence[str]) -> str:
    """Words of a shell script; `~/` at the beginning of the first is the home directory."""
    first = argv[0]
    head = '"$HOME"/' + shlex.quote(first[2:]) if first.startswith("~/") else shlex.quote(first)
    return " ".join([head, *(shlex.quote(word) for word in argv[1:])])
