"""`edgeopt doctor`: what a measurement here will depend on, checked."""

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgeopt.api.device import open_device
from edgeopt.api.devices import listing
from edgeopt.api.workspace import Workspace
from edgeopt.errors import EdgeOptError

_EXTRAS = {
    "pymoo": ("search", "strategy nsga2"),
    "vl_convert": ("report", "figures in the report"),
    "torch": ("rl", "learned strategies"),
    "tokenizers": ("zoo", "data of the text models in the zoo"),
}
ROOM_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line: OK, WARN or FAIL, and what to do."""

    name: str
    status: Literal["OK", "WARN", "FAIL"]
    text: str


def examine(store: Path | None) -> list[Check]:
    """Every check, in the order in which a person would mend things."""
    return [*_agent(), *_devices(), *_store(store), *_room(), *_extras()]


def _agent() -> Iterator[Check]:
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            open_device("local", Path(folder)) as device,
        ):
            facts = device.facts
            yield Check(name="agent", status="OK", text="answers over its pipe")
            runtime = str(facts["runtime"])
            yield Check(name="onnxruntime", status="OK", text=f"version {runtime}")
            yield Check(
                name="profile",
                status="OK",
                text=f"{device.profile.name}: {device.profile.title}",
            )
            load, cores = os.getloadavg()[0], float(facts["cores"])
            busy = load > 0.5 * cores
            yield Check(
                name="load",
                status="WARN" if busy else "OK",
                text=f"{load:.1f} on {cores:.0f} cores"
                + ("; close other programs, measurements will be noisy" if busy else ""),
            )
    except EdgeOptError as error:
        yield Check(name="agent", status="FAIL", text=str(error).replace("\n", " "))


def _devices() -> Iterator[Check]:
    """One line: each device has a check of its own, which takes seconds."""
    try:
        found = listing()
    except EdgeOptError as error:
        yield Check(name="devices", status="FAIL", text=str(error).replace("\n", " "))
        return
    names = [entry.name for entry in found.entries[1:]]
    text = f"{len(names)} configured ({', '.join(names)})" if names else "none but local"
    yield Check(name="devices", status="OK", text=f"{text}; try one: edgeopt device check NAME")


def _store(store: Path | None) -> Iterator[Check]:
    try:
        with Workspace.open(store) as workspace:
            count = len(workspace.trials.studies())
            yield Check(name="store", status="OK", text=f"{workspace.folder}: {count} studies")
    except EdgeOptError as error:
        yield Check(name="store", status="FAIL", text=str(error).replace("\n", " "))


def _room() -> Iterator[Check]:
    free = shutil.disk_usage(Path.cwd()).free
    enough = free >= ROOM_BYTES
    text = f"{free / 1e9:.1f} GB free" + ("" if enough else "; built models may not fit")
    yield Check(name="disk", status="OK" if enough else "WARN", text=text)


def _extras() -> Iterator[Check]:
    for module, (extra, what) in _EXTRAS.items():
        here = importlib.util.find_spec(module) is not None
        text = "installed" if here else f"missing: {what} need it: pip install 'edgeopt[{extra}]'"
        yield Check(name=module, status="OK" if here else "WARN", text=text)
