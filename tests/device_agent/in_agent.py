"""A few lines against the agent's modules in a fresh interpreter, and agents of one's own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import edgeopt

FOLDER = Path(edgeopt.__file__).parent / "device_agent"


def in_agent(program: str, **environment: str) -> Any:
    """What the program leaves in `answer`, by way of JSON."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport json; print(json.dumps(answer))"],
        env={**os.environ, **environment, "PYTHONPATH": str(FOLDER)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def apart(folder: Path) -> dict[str, str]:
    """An agent whose locks and files lie in a folder of its own: other tests do not hold it up."""
    return {"TMPDIR": str(folder), "EDGEOPT_CACHE": str(folder / "cache")}
