"""`ssh`: a device behind the system's OpenSSH."""

from pathlib import Path

from edgeopt.core.device import DeviceEntry
from edgeopt.targets.board import BoardTarget
from edgeopt.targets.connection import SshConnection
from edgeopt.targets.pipe import Patience


class SshTarget(BoardTarget):
    """A device that `ssh host` reaches. Implements `core.protocols.Target`.

    Args:
        entry: `host` (or else its name) is what ssh is called with.
        folder: Where the agent's file is made on this host.
        patience: With a device that goes away.

    Raises:
        ConnectionLostError: It cannot be reached.
        DeviceError: It refuses this user or its key is not the known one; no interpreter there,
            one that is too old, no folder to write in, no space.
    """

    def __init__(
        self, entry: DeviceEntry, *, folder: Path, patience: Patience | None = None
    ) -> None:
        connection = SshConnection(entry.host or entry.name, name=entry.name)
        super().__init__(entry, connection, folder=folder, patience=patience)


PLUGIN = SshTarget
