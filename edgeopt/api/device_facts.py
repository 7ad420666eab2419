"""What a device says about itself, as lines for a person: pure functions of the agent's answers."""

import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from edgeopt.core.device import DeviceEntry
from edgeopt.core.profile import DeviceProfile
from edgeopt.errors import EdgeOptError
from edgeopt.targets.profiles import disagreement, load_profile, match_profile, search_path
from edgeopt.targets.runtimes import RuntimeAdvice, advice
from edgeopt.units import format_bytes

Status = Literal["OK", "NOTE", "WARN", "FAIL"]
Facts = Mapping[str, Any]
_ROOM_BYTES = 500 << 20
_MEMORY_BYTES = 300 << 20
_BUSY = 0.10
_HOT_C = 80.0
_FIXED_CLOCK = frozenset({"performance", "userspace"})
_CPU = "CPUExecutionProvider"
# In every stock wheel; it runs models elsewhere.
_REMOTE = frozenset({"AzureExecutionProvider"})
_UNREAL = frozenset({"emulated", "vm", "container in a vm"})


@dataclass(frozen=True, slots=True)
class Check:
    """One line: what was looked at, how it is, and what to do where it is not well."""

    name: str
    status: Status
    text: str


def checks_of_facts(entry: DeviceEntry, facts: Facts, health: Facts) -> Iterator[Check]:
    """Interpreter, folder, runtime, providers, board, profile, sensors.

    Args:
        entry: How the device is reached.
        facts: Of the agent's probe.
        health: Of its `health`; empty where that is not known.
    """
    told = advice(facts)
    yield _python(facts, health)
    yield from _folder(health)
    yield from _runtime(entry, facts, told, str(health.get("executable") or "python3"))
    yield from _providers(facts)
    yield _board(facts)
    yield from _profile(entry, facts)
    yield from _power(entry, facts)
    yield from _sensors(entry, facts)


def checks_of_health(health: Facts) -> Iterator[Check]:
    """Clocks, heat, throttling, memory, load: as they are now."""
    if not health:
        return
    state = cast("Facts", health.get("state") or {})
    yield from _heat(state)
    yield from _throttle(state)
    yield from _memory(health)
    yield from _load(health, state)


def _python(facts: Facts, health: Facts) -> Check:
    where = health.get("executable") or "the interpreter"
    libc = f", glibc {facts['glibc']}" if facts.get("glibc") else ""
    return Check("python", "OK", f"{facts['python']} ({where}) on {facts['architecture']}{libc}")


def _folder(health: Facts) -> Iterator[Check]:
    if not health.get("cache"):
        return
    cache, free = health["cache"], health["cache_free_bytes"]
    if free is None:
        cure = 'name another with cache_dir = "/path" in the devices file'
        yield Check("folder", "FAIL", f"{cache} cannot be written; {cure}")
    elif free < _ROOM_BYTES:
        text = f"{cache}: {format_bytes(free)} free; models and a runtime may not fit"
        yield Check("folder", "WARN", text)
    else:
        yield Check("folder", "OK", f"{cache}: writable, {format_bytes(free)} free")


def _runtime(entry: DeviceEntry, facts: Facts, told: RuntimeAdvice, python: str) -> Iterator[Check]:
    if facts.get("runtime"):
        yield Check("onnxruntime", "OK", f"version {facts['runtime']}")
    else:
        problem = " ".join(str(facts.get("runtime_error") or "is not there").split())
        yield Check("onnxruntime", "FAIL", f"{_last(problem)}; {cure(entry, told, python)}")
    if told.warning:
        yield Check("onnxruntime", "WARN", told.warning)
    if told.gpu_note:
        yield Check("onnxruntime", "NOTE", told.gpu_note)


def cure(entry: DeviceEntry, told: RuntimeAdvice, python: str = "python3") -> str:
    """How a runtime gets onto a device."""
    if not told.requirement:
        return told.why
    words = " ".join(f"'{each}'" if set(each) & set("<>!") else each for each in told.requirements)
    setup = f"`edgeopt device setup {entry.name}` puts it into the agent's own folder"
    itself = entry.kind == "local" and not (entry.python or entry.exec)
    return f"the right one is {words} ({told.why}): " + (
        f"{python} -m pip install {words}"
        if itself
        else f"{setup}, or on the device: {python} -m pip install {words}"
    )


def _last(text: str) -> str:
    """The end of a trace is its reason."""
    return text if len(text) < 200 else "… " + text[-200:]


def _providers(facts: Facts) -> Iterator[Check]:
    listed = [str(name) for name in facts.get("providers") or () if name not in _REMOTE]
    if not listed:
        return
    proven = cast("Mapping[str, Facts]", facts.get("providers_proven") or {})
    if not proven:
        yield Check("providers", "NOTE", f"listed, not tried: {', '.join(listed)}")
    for name, found in proven.items():
        if name in _REMOTE:
            continue
        if found["ok"]:
            text = f"{name}: a small model ran" + ("" if name == _CPU else f", {found['text']}")
            yield Check("provider", "OK", text)
        else:
            reason = _last(" ".join(str(found.get("text") or "no reason given").split()))
            status: Status = "FAIL" if name == _CPU else "WARN"
            yield Check("provider", status, f"{name} is listed but does not run: {reason}")


def _board(facts: Facts) -> Check:
    words = [facts.get("board_model") or facts.get("board"), facts.get("os")]
    words.append(f"JetPack {facts['jetpack']}" if facts.get("jetpack") else None)
    words.append(facts.get("cpu_model"))
    text = ", ".join(str(word) for word in words if word) or "it does not say what it is"
    kind = str(facts.get("machine_kind") or "")
    if kind == "emulated":
        return Check("board", "WARN", f"{text}; emulated: its times mean nothing")
    if kind in _UNREAL:
        return Check("board", "NOTE", f"{text}; {kind}: its times are those of shared hardware")
    return Check("board", "OK", text)


def _profile(entry: DeviceEntry, facts: Facts) -> Iterator[Check]:
    folders = search_path(Path.cwd())
    try:
        chosen = load_profile(entry.profile, folders) if entry.profile else None
        profile = chosen or match_profile(facts, folders)
    except EdgeOptError as error:
        yield Check("profile", "FAIL", " ".join(str(error).split()))
        return
    yield Check("profile", "OK", _profile_text(profile, chosen is not None))
    if chosen and (warning := disagreement(chosen, facts, folders)):
        yield Check("profile", "WARN", warning)
    for trap in profile.traps:
        yield Check("trap", "NOTE", trap)


def _profile_text(profile: DeviceProfile, chosen: bool) -> str:
    how = "as its entry says" if chosen else "by what the device says it is"
    tried = "" if profile.tried_on_hardware else "; its facts are from documents, not tried here"
    return f"{profile.name}: {profile.title}, {how}{tried}"


def _power(entry: DeviceEntry, facts: Facts) -> Iterator[Check]:
    mode = facts.get("power_mode")
    if entry.power_mode and entry.power_mode != mode:
        text = f"{mode or 'not known'}, and its entry asks for {entry.power_mode}"
        cure = "a run sets it while it has the board open, for which `sudo -n nvpmodel` must work"
        yield Check("power mode", "WARN", f"{text}: {cure}")
    elif mode:
        yield Check("power mode", "OK", f"{mode}; part of the device's fingerprint")
    governor = facts.get("governor")
    if governor is None:
        yield Check("governor", "NOTE", "not readable: whether clocks vary is not known")
    elif governor in _FIXED_CLOCK:
        yield Check("governor", "OK", str(governor))
    else:
        text = f"{governor}: clocks follow the load; times vary less with the governor performance"
        yield Check("governor", "NOTE", text + " (yours to set: edgeopt changes nothing)")


def _sensors(entry: DeviceEntry, facts: Facts) -> Iterator[Check]:
    yield from _meter(entry)
    found = [cast("Facts", each) for each in facts.get("sensors") or ()]
    for each in found:
        name = f"{each['name']} ({each['scope']})"
        if each.get("readable"):
            yield Check("sensor", "OK", f"{name}: readable{_resolution(each)}")
        else:
            yield Check("sensor", "WARN", f"{name}: {each.get('reason') or 'not readable'}")
    if not found and not entry.meter:
        text = "no power sensor: energy needs an external meter (see docs/devices.md)"
        yield Check("sensor", "NOTE", text)


def _meter(entry: DeviceEntry) -> Iterator[Check]:
    """An external meter is a file or a command of this machine; it is not started here."""
    if not entry.meter:
        return
    text = f"{entry.meter} ({entry.meter_scope})"
    if Path(entry.meter).expanduser().is_file():
        yield Check("meter", "OK", f"{text}: the file is there")
    elif shutil.which(next(iter(shlex.split(entry.meter)), "")):
        yield Check("meter", "OK", f"{text}: the program is there")
    else:
        yield Check("meter", "WARN", f"{text}: neither a file nor a program on this machine")


def _resolution(sensor: Facts) -> str:
    step, rate = sensor.get("resolution_w"), sensor.get("max_hz")
    words = [f"steps of {step:g} W" if step else "", f"up to {rate:g} Hz" if rate else ""]
    return "".join(f", {word}" for word in words if word)


def _heat(state: Facts) -> Iterator[Check]:
    clock, heat = state.get("clock_hz"), state.get("temperature_c")
    if clock:
        yield Check("clock", "OK", f"{clock / 1e9:.2f} GHz now")
    if heat is None:
        yield Check("temperature", "NOTE", "not readable")
    elif heat > _HOT_C:
        yield Check("temperature", "WARN", f"{heat:.0f} °C: let it cool, or give it a fan")
    else:
        yield Check("temperature", "OK", f"{heat:.0f} °C")


def _throttle(state: Facts) -> Iterator[Check]:
    counters = cast("Mapping[str, Any]", state.get("throttle") or {})
    counted = {name: value for name, value in counters.items() if isinstance(value, int)}
    active = {name: value for name, value in counted.items() if value}
    if active:
        words = ", ".join(f"{name}: {value}" for name, value in active.items())
        text = f"since it was switched on: {words}; check supply and cooling"
        yield Check("throttling", "WARN", text)
    elif counted:
        yield Check("throttling", "OK", "none since it was switched on")


def _memory(health: Facts) -> Iterator[Check]:
    free, swapped = health.get("memory_available_bytes"), health.get("swap_used_bytes") or 0
    if free is None:
        return
    text = f"{format_bytes(free)} available"
    text += f", {format_bytes(swapped)} swapped out" if swapped else ""
    short = free < _MEMORY_BYTES
    status: Status = "WARN" if short else "OK"
    cure = "; close other programs: swapping ruins a measurement" if short else ""
    yield Check("memory", status, text + cure)


def _load(health: Facts, state: Facts) -> Iterator[Check]:
    busy, gpu = health.get("busy_share"), state.get("gpu_busy")
    if busy is None:
        return
    words = f"{busy:.0%} of {health['processors']} processors busy"
    words += f", GPU {gpu:.0%} busy" if gpu is not None else ""
    noisy = busy > _BUSY or (gpu or 0.0) > _BUSY
    cure = "; measurements will be noisy: close other programs, or wait" if noisy else ""
    yield Check("load", "WARN" if noisy else "OK", words + cure)
