"""The lab's fixtures: a network of boards that lasts a test, and reasons to skip."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeopt.core.device import DeviceEntry
from edgeopt.core.protocols import Target
from edgeopt.targets.open import open_target
from edgeopt.targets.pipe import Patience
from tests.lab import openssh
from tests.lab.board import ARM64_PYTHON, Board, Network, Reach


@pytest.fixture(scope="session")
def server() -> None:
    """A real sshd can be run here; skips with the reason where none can."""
    if reason := openssh.lacks_ssh():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def arm64(server: None) -> Path:
    """The emulated arm64 Python with numpy and onnxruntime."""
    if reason := openssh.lacking("arm64"):
        pytest.skip(reason)
    return ARM64_PYTHON


@pytest.fixture(scope="session")
def mounts(server: None) -> None:
    """File systems can be mounted where only a board sees them."""
    if not openssh.can_mount():
        pytest.skip("mounting a file system for a board needs root and mount namespaces")


@pytest.fixture
def network(server: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    """A network without boards yet; what edgeopt needs to use it is in the environment."""
    # Not below tmp_path: the path of a socket has about a hundred letters.
    with tempfile.TemporaryDirectory(prefix="eo-lab-", ignore_cleanup_errors=True) as folder:
        made = Network(Path(folder))
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made
        made.close()


@pytest.fixture
def board(network: Network) -> Board:
    """One board, `lab-ssh`, that works."""
    return network.board("lab-ssh")


@pytest.fixture
def reach(network: Network, tmp_path: Path) -> Iterator[Reach]:
    """Opens a device by its entry; whatever happens, it is closed before the network is."""
    opened: list[Target] = []

    def call(entry: DeviceEntry, patience: Patience | None = None) -> Target:
        opened.append(open_target(entry, folder=tmp_path, patience=patience))
        return opened[-1]

    yield call
    for target in opened:
        target.close()
