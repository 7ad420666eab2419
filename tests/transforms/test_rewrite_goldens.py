"""Every exact rule on models in text form: what it makes of them, and where it must not fire."""

from pathlib import Path

import pytest

from edgeopt import plugins
from edgeopt.testing.transform_exam import examine_golden
from edgeopt.transforms.stages import transform_of

GOLDEN = Path(__file__).parents[1] / "golden"
RULES = [(shelf, name) for shelf in ("rewrite", "fuse") for name in plugins.SHELVES[shelf].names()]


@pytest.mark.parametrize(("shelf", "name"), RULES)
def test_golden(shelf: str, name: str) -> None:
    """The rule makes the recorded graph of every `before`, and refuses every `must_not_fire`."""
    folder = GOLDEN / shelf / name
    made = examine_golden(name, folder)
    recorded = {
        path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("after*.txt"))
    }
    assert dict(made) == recorded


@pytest.mark.parametrize("shelf", ["rewrite", "fuse"])
def test_each_rule_owns_a_folder_and_each_folder_a_rule(shelf: str) -> None:
    """No rule without goldens, no goldens without a rule, and no step without a refusal."""
    folders = {path.name for path in (GOLDEN / shelf).iterdir() if path.is_dir()}
    assert folders == set(plugins.SHELVES[shelf].names())
    for name in folders:
        files = {path.name for path in (GOLDEN / shelf / name).iterdir()}
        assert {"before.txt", "after.txt"} <= files
        refusals = {file for file in files if file.startswith("must_not_fire_")}
        assert refusals or transform_of(name)[1].whole_model, f"{name} never has to refuse"
