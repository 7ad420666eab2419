"""Opening a device by name: its target, what it is, and the profile that fits it."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeopt.core.profile import DeviceProfile
from edgeopt.core.protocols import Target
from edgeopt.errors import UsageError
from edgeopt.targets.local import LocalTarget
from edgeopt.targets.profiles import match_profile


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device that answers.

    Args:
        name: As the user gave it.
        target: The live door.
        facts: What the agent found out about the machine.
        fingerprint: Digest of the facts that change a measurement.
        profile: Of its kind.
    """

    name: str
    target: Target
    facts: Mapping[str, Any]
    fingerprint: str
    profile: DeviceProfile


@contextmanager
def open_device(name: str, folder: Path) -> Generator[Device]:
    """Start the agent on a device and ask what the device is; ends the agent when left.

    Raises:
        UsageError: No such device.
        DeviceError: It does not answer.
    """
    if name != "local":
        raise UsageError(
            f"there is no device called {name!r}",
            hint="this version measures on this machine only: --device local",
        )
    with LocalTarget(folder=folder) as target:
        facts = target.request("probe", deadline_s=60.0)
        yield Device(
            name=name,
            target=target,
            facts=facts,
            fingerprint=str(facts["fingerprint"]),
            profile=match_profile(facts),
        )
