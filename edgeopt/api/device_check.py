"""`edgeopt device check`: what measuring on a device will depend on, step by step, with the cure.

A step that fails does not hide what can still be said. Nothing is changed on the device.
"""

import dataclasses
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgeopt.api.device import PROVE_S
from edgeopt.api.device_facts import Check, checks_of_facts, checks_of_health
from edgeopt.api.devices import how
from edgeopt.core.device import DeviceEntry
from edgeopt.core.protocols import Target
from edgeopt.errors import DeviceError, EdgeOptError
from edgeopt.targets.connection import SshConnection
from edgeopt.targets.devices import resolve
from edgeopt.targets.open import open_target

_ANSWER_S = 30.0
_PROBE_S = 180.0
_HEALTH_S = 60.0
_WINDOW_S = 1.0
_SLOW_S = 0.5


def check(name: str) -> Iterator[Check]:
    """Every check of one device, as soon as its result is known."""
    try:
        entry = resolve(name)
    except EdgeOptError as error:
        yield _failed("name", error)
        return
    yield Check("name", "OK", f"{how(entry)}; from: {entry.origin}")
    reached = list(_connection(entry))
    yield from reached
    if any(each.status == "FAIL" for each in reached):
        return
    yield from _agent(entry)


def _connection(entry: DeviceEntry) -> Iterator[Check]:
    """Whether ssh gets there at all: its own trouble is told apart from Python's."""
    if entry.kind != "ssh":
        return
    start = time.monotonic()
    try:
        connection = SshConnection(entry.host or entry.name, name=entry.name)
        _run_true(connection)
    except DeviceError as error:
        yield _failed("connection", error)
        return
    took_s = time.monotonic() - start
    text = f"{connection.describe()}: key and host key accepted, {took_s:.1f} s"
    yield Check("connection", "OK", text)


def _run_true(connection: SshConnection) -> None:
    """Run `true` there.

    Raises:
        DeviceError: ssh fails, or nothing comes back.
    """
    with tempfile.TemporaryFile() as log:
        process = connection.start(["true"], {}, log=log)
        try:
            process.communicate(timeout=_ANSWER_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            connection.reset()
            raise DeviceError(
                f"the device gave no answer in {_ANSWER_S:g} s",
                where=connection.describe(),
                hint="is it busy, or out of memory? try again, then restart it",
            ) from None
        log.seek(0)
        words = log.read().decode("utf-8", "replace")
    failure = connection.failure(process.returncode, words)
    if failure is not None:
        raise failure


def _agent(entry: DeviceEntry) -> Iterator[Check]:
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="edgeopt-check-") as folder:
        try:
            target = open_target(dataclasses.replace(entry, power_mode=""), folder=Path(folder))
        except EdgeOptError as error:
            yield _failed("agent", error)
            return
        try:
            yield from _answers(entry, target, time.monotonic() - start)
        finally:
            target.close()


def _answers(entry: DeviceEntry, target: Target, opened_s: float) -> Iterator[Check]:
    """The rest is the agent's to say; where it ends in the middle, that is the last line."""
    try:
        facts = _asked(target, "probe", _PROBE_S)
        if entry.kind == "replay":
            yield Check("agent", "NOTE", "a recording: what it said when it was recorded")
            yield from checks_of_facts(entry, facts, {})
            return
        yield _round_trip(target, opened_s)
        health = _asked(target, "health", _HEALTH_S, window_s=_WINDOW_S)
        yield _lock(health)
        yield from checks_of_facts(entry, {**facts, **_proven(target, facts, health)}, health)
        yield from checks_of_health(health)
    except DeviceError as error:
        yield _failed("agent", error)


def _round_trip(target: Target, opened_s: float) -> Check:
    start = time.monotonic()
    _asked(target, "hello", _ANSWER_S, runtime=False)
    trip_s = time.monotonic() - start
    text = f"answers in {trip_s * 1e3:.0f} ms, started in {opened_s:.1f} s"
    if trip_s > _SLOW_S:
        return Check("agent", "WARN", f"{text}; a slow connection makes a run slow")
    return Check("agent", "OK", text)


def _lock(health: Mapping[str, Any]) -> Check:
    if health.get("measuring"):
        cure = "wait until that has ended, or ask them"
        return Check("lock", "WARN", f"{health['measuring']}; {cure}")
    return Check("lock", "OK", "nobody else measures there")


def _proven(
    target: Target, facts: Mapping[str, Any], health: Mapping[str, Any]
) -> Mapping[str, Any]:
    """What each provider makes of a small model; not tried while somebody measures."""
    if not facts.get("runtime") or health.get("measuring"):
        return {}
    reply = target.request("prove", deadline_s=PROVE_S)
    return {"providers_proven": reply["providers"] if reply["ok"] else {}}


def _asked(target: Target, verb: str, deadline_s: float, **arguments: Any) -> Mapping[str, Any]:
    """A reply that is no error.

    Raises:
        DeviceError: It is one, or none came.
    """
    reply = target.request(verb, deadline_s=deadline_s, **arguments)
    if not reply["ok"]:
        raise DeviceError(reply["error"]["text"], where=target.name, hint=reply["error"]["hint"])
    return reply


def _failed(name: str, error: EdgeOptError) -> Check:
    where = f"{error.where}: " if error.where else ""
    cure = f"; {error.hint}" if error.hint else ""
    return Check(name, "FAIL", " ".join(f"{where}{error.what}{cure}".split()))
