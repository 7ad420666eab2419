"""What the tests of transforms share."""

from pathlib import Path

import pytest

from edgeopt.store.artifacts import ArtifactStore


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    """An empty place for artifacts."""
    return ArtifactStore(tmp_path)
