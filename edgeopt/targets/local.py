"""`local`: this machine. The same agent as on any board, over a pipe."""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from edgeopt.errors import EdgeOptError
from edgeopt.targets.bundle import agent_bundle
from edgeopt.targets.connection import LocalConnection
from edgeopt.targets.pipe import PipeTarget, Session


class LocalTarget(PipeTarget):
    """A running agent on this machine. Implements `core.protocols.Target`.

    The agent has a session of its own, so that Ctrl-C in a terminal does not reach it, and ends
    when its input does, however this process ends. When it ends by itself, that is final.

    Args:
        name: Under which the study knows it.
        folder: Where the agent's file is kept; None for a temporary place.
        python: The interpreter that runs the agent; it needs numpy and onnxruntime.
        environment: Variables beside this process's own.

    Raises:
        DeviceError: The interpreter cannot be started.
    """

    def __init__(
        self,
        name: str = "local",
        *,
        folder: Path | None = None,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="edgeopt-local-")
        try:
            bundle = agent_bundle(folder or Path(self._folder.name))
            super().__init__(
                name,
                lambda: Session(
                    LocalConnection(name), [python, str(bundle)], environment or {}, where=name
                ),
            )
        except EdgeOptError:
            self._folder.cleanup()
            raise

    def close(self) -> None:
        """End the agent."""
        super().close()
        self._folder.cleanup()


PLUGIN = LocalTarget
