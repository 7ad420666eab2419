"""`power_mode`: a Jetson's power mode by name, for one session; untried on hardware.

Only where the user set it in the device's entry does a host ask for it. What was active is written
down before the change and put back when the agent ends; where the agent was killed, or the board
lost power, the next one puts it back. A mode that needs a reboot is refused: nothing here reboots.
"""

import json
import os
import re
import subprocess
import sys

import board
import cache
import machine
import presence
from failures import JobError

_FILE = "power_mode.json"
_LIMIT_S = 60.0
_HINT = "set the mode yourself (sudo nvpmodel -m ...) and leave power_mode out of the entry"


def power_mode(job):
    """Make the mode of a name the active one: `mode`, `before`, and whether it was `changed`.

    Raises:
        JobError: `power_mode`, it cannot be done; the text says what stands in its way.
    """
    wanted = job.get("name", str)
    modes = _modes()
    if wanted not in modes:
        offered = ", ".join(sorted(modes)) or "none (no nvpmodel.conf)"
        raise _refused("there is no power mode %s; the board has %s" % (wanted, offered))
    before = board.power_mode()
    record = _read()
    if before == wanted:
        if record is not None:
            _note(record["mode"], _living(record) + [presence.mine()])
        return {"mode": wanted, "before": before, "changed": False}
    if record is not None and set(_living(record)) - {presence.mine()}:
        raise _refused("another session uses the board in mode %s" % before)
    if before not in modes:
        raise _refused("the active mode is not known, so it could not be put back")
    _remember(before)
    try:
        _switch(modes[wanted])
    except JobError:
        if board.power_mode() == before:
            _forget()
        raise
    if board.power_mode() != wanted:
        raise _refused("nvpmodel ran, and the board is in mode %s" % board.power_mode())
    return {"mode": wanted, "before": before, "changed": True}


def restore():
    """Put back the mode that was found, unless a living agent uses this one. Logs failures."""
    record = _read()
    if record is None:
        return
    others = [agent for agent in _living(record) if agent != presence.mine()]
    if others:
        _note(record["mode"], others)
        return
    try:
        modes = _modes()
        if board.power_mode() != record["mode"]:
            _switch(modes[record["mode"]])
        _forget()
    except (JobError, KeyError) as error:
        sys.stderr.write("the power mode %s is not put back: %s\n" % (record["mode"], error))


def _modes():
    """Name to number, from the board's own table."""
    table = machine.read("/etc/nvpmodel.conf") or ""
    found = re.findall(r"<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=([^\s>]+)", table)
    return {name: number for number, name in found}


def _switch(number):
    tool, sudo = board.program("nvpmodel"), board.program("sudo")
    if tool is None:
        raise _refused("this board has no nvpmodel")
    command = [tool, "-m", number]
    if sudo is not None and (os.geteuid() != 0 or machine.pretended()):
        command = [sudo, "-n"] + command
    try:
        # Without an input: asked whether to reboot, the tool gets no answer, and changes nothing.
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LIMIT_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise _refused("nvpmodel cannot be run: %s" % error) from error
    said = " ".join(done.stdout.decode("utf-8", "replace").split())[-300:]
    if "reboot" in said.lower():
        raise _refused("the mode needs a reboot, which is yours to do: " + said)
    if done.returncode != 0:
        raise _refused("nvpmodel failed (sudo without a password is needed): " + said)


def _refused(text):
    return JobError("power_mode", text, _HINT)


def _place():
    folder = cache.folder()
    return os.path.join(folder, _FILE) if folder else None


def _remember(mode):
    """What to put back: of several changes the first one's, whoever made it."""
    if _place() is None:
        raise _refused("there is no folder to note the present mode in")
    record = _read()
    _note(mode if record is None else record["mode"], [presence.mine()])


def _note(mode, agents):
    """The mode to put back, and the sessions of the agents that use another one now."""
    boot = machine.read("/proc/sys/kernel/random/boot_id")
    record = {"mode": mode, "agents": sorted(set(agents)), "boot": boot}
    cache.write_aside(_place(), json.dumps(record).encode("utf-8"))


def _read():
    try:
        with open(_place() or os.devnull) as stream:
            record = json.load(stream)
    except (IOError, OSError, ValueError):
        return None
    whole = isinstance(record, dict) and {"mode", "agents", "boot"} <= set(record)
    return record if whole else None


def _forget():
    try:
        os.remove(_place())
    except (IOError, OSError):
        pass


def _living(record):
    """The agents of a record that still run; after a restart of the board none does."""
    if record["boot"] != machine.read("/proc/sys/kernel/random/boot_id"):
        return []
    living = presence.sessions(cache.folder())
    return [agent for agent in record["agents"] if agent in living]
