"""`docs/environment.md`: its example runs as it stands, on the digits net."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from edgeopt.core.action import Recipe

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_runs(tmp_path: Path):
    """Six steps on real graphs; the state is a recipe, and the costs are there."""
    page = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", page, re.S)
    assert found is not None
    digits = ROOT / "models" / "digits"
    names: dict[str, Any] = {
        "MODEL": digits / "digits.onnx",
        "DATA": str(digits / "digits.npz"),
        "STORE": tmp_path,
    }
    exec(found.group(1), names)
    assert Recipe.parse(names["recipe"]).actions
    assert set(names["costs"]) == {"macs", "size_bytes", "activation_bytes"}
    assert all(np.isfinite(value) for value in names["costs"].values())
