"""`edgeopt device setup`: a runtime in the agent's own folder on a device, only when asked.

The wheels are downloaded here by pip, for the device's Python and C library, and sent through the
connection that is there anyway: the device needs no route out, no pip and no administrator. What
is installed on its system stays as it is.
"""

import dataclasses
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeopt.api.device import PROVE_S
from edgeopt.core.device import DeviceEntry
from edgeopt.core.protocols import Target
from edgeopt.errors import DeviceError, UsageError
from edgeopt.targets import device_store
from edgeopt.targets.devices import devices_file, resolve
from edgeopt.targets.open import open_target
from edgeopt.targets.runtimes import RuntimeAdvice, advice, has_gpu_build, jetpack_major, platforms
from edgeopt.units import format_bytes

_PROBE_S = 180.0
_DOWNLOAD_S = 1800
_INSTALL_S = 900.0
_CPU = "CPUExecutionProvider"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupPlan:
    """What `setup` would do.

    Args:
        entry: The device as it is reached now.
        facts: Of its probe.
        told: The runtime that fits.
        text: The plan in sentences, one a line.
    """

    entry: DeviceEntry
    facts: Mapping[str, Any]
    told: RuntimeAdvice
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupDone:
    """What `setup` did.

    Args:
        entry: The device as it is reached from now on.
        runtime: Version that the new interpreter imports.
        new: False where the very same runtime was there already.
        saved: The devices file that says so; None where the entry stands elsewhere.
        text: What a person should know, one sentence a line.
    """

    entry: DeviceEntry
    runtime: str
    new: bool
    saved: Path | None
    text: str


def plan(name: str, *, cpu: bool = False) -> SetupPlan:
    """What would be installed on a device, after asking it what it is.

    Args:
        name: Of the device.
        cpu: Put a CPU runtime beside a GPU build that is there.

    Raises:
        UsageError: It is no device that can be set up, or no wheel fits it.
        DeviceError: It does not answer.
    """
    entry = resolve(name)
    if entry.kind == "replay" or (entry.kind == "local" and not (entry.python or entry.exec)):
        raise UsageError(
            f"{name} cannot be set up: "
            + (
                "a recording has no runtime" if entry.kind == "replay" else "it runs edgeopt itself"
            ),
            hint="name a device that is reached by ssh, or one with a python of its own",
        )
    with tempfile.TemporaryDirectory(prefix="edgeopt-setup-") as folder:
        target = open_target(dataclasses.replace(entry, power_mode=""), folder=Path(folder))
        try:
            facts = _asked(target, "probe", _PROBE_S)
        finally:
            target.close()
    return plan_for(entry, facts, cpu=cpu)


def plan_for(entry: DeviceEntry, facts: Mapping[str, Any], *, cpu: bool = False) -> SetupPlan:
    """The plan for a device that says this about itself; nothing is asked of it any more.

    Raises:
        UsageError: A GPU build is there and `cpu` is not given, or no wheel fits.
    """
    told = advice(facts)
    if jetpack_major(facts) and has_gpu_build(facts) and not cpu:
        raise UsageError(
            f"{entry.name} has a GPU build of onnxruntime {facts['runtime']}, made for its JetPack",
            hint="keep it: edgeopt can use it as it is; --cpu puts a CPU runtime beside it",
        )
    if facts.get("system") != "Linux":
        raise UsageError(
            f"{entry.name} runs {facts.get('system')}, and setup knows Linux only",
            hint="install onnxruntime there yourself and name its python in the devices file",
        )
    if not told.requirement:
        raise UsageError(
            f"there is no onnxruntime for {entry.name}: {told.why}",
            hint="see docs/devices.md for what can be done",
        )
    return SetupPlan(entry=entry, facts=facts, told=told, text=_plan_text(entry, facts, told))


def _plan_text(entry: DeviceEntry, facts: Mapping[str, Any], told: RuntimeAdvice) -> str:
    cache = entry.cache_dir or "~/.cache/edgeopt"
    there = facts.get("runtime")
    lines = [
        f"{entry.name}: Python {facts['python']} on {facts['architecture']}, "
        + (f"onnxruntime {there} is there" if there else "no onnxruntime"),
        f"download here: {', '.join(told.requirements)} with numpy ({told.why})",
        f"send it and unpack it into {cache}/venv; the system's Python stays as it is",
        f"let a small model run there, then write its {'exec' if entry.exec else 'python'} "
        f"into {devices_file()}",
    ]
    lines += [told.gpu_note] if told.gpu_note else []
    return "\n".join(lines)


def carry_out(chosen: SetupPlan, progress: Callable[[str], None]) -> SetupDone:
    """Download, send, unpack, prove by running, and only then write the devices file.

    Raises:
        DeviceError: pip finds no wheels, or the device cannot take or import them.
        StorageError: The devices file cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="edgeopt-setup-") as folder:
        place = Path(folder)
        progress("downloading")
        wheels = _download(chosen, place / "wheels")
        size = sum(wheel.stat().st_size for wheel in wheels)
        progress(f"sending {len(wheels)} wheels, {format_bytes(size)}")
        tried = _install(chosen.entry, wheels, place)
        progress("proving it")
        runtime = _prove(entry_with(chosen.entry, str(tried["python"])), place)
        reply = _install(chosen.entry, wheels, place, adopt=True)
    entry = entry_with(chosen.entry, str(reply["python"]))
    return _finish(chosen, entry, runtime, bool(tried["new"]))


def _download(chosen: SetupPlan, folder: Path) -> list[Path]:
    """Wheels for the device, everything they need included.

    Raises:
        DeviceError: pip does not find or fetch them.
    """
    version = ".".join(str(chosen.facts["python"]).split(".")[:2])
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(folder)]
    command += ["--implementation", "cp", "--python-version", version]
    command += [word for tag in platforms(chosen.facts) for word in ("--platform", tag)]
    command += chosen.told.requirements
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_DOWNLOAD_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _no_wheels(chosen, "pip did not finish") from error
    if done.returncode != 0:
        raise _no_wheels(chosen, _reason(done.stderr))
    return sorted(folder.glob("*.whl"))


def _no_wheels(chosen: SetupPlan, reason: str) -> DeviceError:
    return DeviceError(
        f"the wheels for {chosen.entry.name} could not be downloaded: {reason}",
        where=", ".join(chosen.told.requirements),
        hint="check this machine's network, or point pip at a mirror (PIP_INDEX_URL) or at a "
        "folder of wheels (PIP_FIND_LINKS with PIP_NO_INDEX=1)",
    )


def _reason(text: str) -> str:
    """pip's first error line, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR") or "No module named" in line]
    return (errors or lines[-1:] or ["no message"])[0]


def _install(
    entry: DeviceEntry, wheels: list[Path], folder: Path, *, adopt: bool = False
) -> Mapping[str, Any]:
    target = open_target(dataclasses.replace(entry, power_mode=""), folder=folder)
    try:
        sent = [{"name": wheel.name, "place": target.put(wheel)} for wheel in wheels]
        return _asked(target, "install", _INSTALL_S, wheels=sent, adopt=adopt)
    finally:
        target.close()


def entry_with(entry: DeviceEntry, python: str) -> DeviceEntry:
    """The device with another interpreter; of a command, the word that names one is replaced.

    Raises:
        DeviceError: The command names no interpreter that could be replaced.
    """
    if not entry.exec:
        return dataclasses.replace(entry, python=python)
    words = shlex.split(entry.exec)
    found = [n for n, word in enumerate(words) if Path(word).name.startswith("python")]
    if not found:
        raise DeviceError(
            f"the runtime is installed, but `{entry.exec}` names no python to replace",
            where=entry.name,
            hint=f"use {python} in its place in the devices file",
        )
    words[found[-1]] = python
    return dataclasses.replace(entry, exec=shlex.join(words))


def _prove(entry: DeviceEntry, folder: Path) -> str:
    """The version that the new interpreter reports, after a model ran there.

    Raises:
        DeviceError: The runtime cannot be imported, or does not run a model.
    """
    target = open_target(dataclasses.replace(entry, power_mode=""), folder=folder)
    try:
        facts = _asked(target, "probe", _PROBE_S)
        known = bool(facts.get("runtime"))
        reply = _asked(target, "prove", PROVE_S) if known else dict[str, Any]()
    finally:
        target.close()
    if not known:
        raise DeviceError(
            f"the new runtime cannot be imported: {facts.get('runtime_error')}",
            where=entry.name,
            hint=f"edgeopt device check {entry.name}",
        )
    found = reply["providers"].get(_CPU)
    if found is None or not found["ok"]:
        reason = "it lists no CPU provider" if found is None else found["text"]
        raise DeviceError(
            f"the new runtime does not run a model: {reason}",
            where=entry.name,
            hint=f"edgeopt device check {entry.name}",
        )
    return str(facts["runtime"])


def _finish(chosen: SetupPlan, entry: DeviceEntry, runtime: str, new: bool) -> SetupDone:
    how = "is ready" if new else "was there already, and works"
    lines = [f"onnxruntime {runtime} on {entry.name} {how}"]
    key, value = ("exec", entry.exec) if entry.exec else ("python", entry.python)
    saved = None
    if _is_users(chosen.entry):
        saved = device_store.save(dataclasses.replace(entry, origin=""))
        lines.append(f'{saved} says {key} = "{value}" now')
    else:
        lines.append(
            f'write {key} = "{value}" into {chosen.entry.origin}, which edgeopt does not edit'
        )
    return SetupDone(entry=entry, runtime=runtime, new=new, saved=saved, text="\n".join(lines))


def _is_users(entry: DeviceEntry) -> bool:
    """Whether an entry in the user's file would be the one that counts."""
    origin = Path(entry.origin)
    return origin == devices_file() or not (origin.suffix == ".toml" or entry.origin.isupper())


def _asked(target: Target, verb: str, deadline_s: float, **arguments: Any) -> Mapping[str, Any]:
    """A reply that is no error.

    Raises:
        DeviceError: It is one, or none came.
    """
    reply = target.request(verb, deadline_s=deadline_s, **arguments)
    if not reply["ok"]:
        raise DeviceError(reply["error"]["text"], where=target.name, hint=reply["error"]["hint"])
    return reply
