"""`DeviceEntry`: how to reach one device and what runs on it. What it *is* says its profile."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["local", "ssh", "replay"]


@dataclass(frozen=True, kw_only=True)
class DeviceEntry:
    """One device of the user, from the devices file, the environment, or the ssh configuration.

    Args:
        name: Under which the user and every study know it.
        kind: `local` runs the agent on this machine, `ssh` on another, `replay` answers from a
            recording.
        host: What `ssh` is called with; empty is the name.
        python: The interpreter on the device, with numpy and onnxruntime; empty is the one that
            runs edgeopt on `local`, and `python3` on `ssh`.
        exec: A whole command that starts such an interpreter where a path is not enough
            (`docker exec -i ort python3`, `chroot /srv/arm64 python3`); empty runs `python`.
        cache_dir: The agent's folder on the device; empty is `~/.cache/edgeopt`.
        profile: Name of its hardware profile; empty finds it by what the device says it is.
        provider: Execution provider; empty takes the profile's first that runs there.
        power_mode: By name; set only where the user allows it.
        meter: External power meter on the host: a command or a CSV file (see docs/devices.md).
        meter_scope: What the meter sees: `board`, `module`, `package`, `wall`.
        twin: Name of a device that takes over its jobs when it goes away.
        recording: File of a `replay` device.
        environment: Variables of the agent.
        origin: Where the entry was found, for messages.
    """

    name: str
    kind: Kind = "ssh"
    host: str = ""
    python: str = ""
    exec: str = ""
    cache_dir: str = ""
    profile: str = ""
    provider: str = ""
    power_mode: str = ""
    meter: str = ""
    meter_scope: str = "board"
    twin: str = ""
    recording: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    origin: str = ""
