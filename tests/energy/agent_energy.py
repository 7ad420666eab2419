"""The agent on a fake board: one short energy pass, and sensors asked in a process."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import edgeopt
from edgeopt.targets.local import LocalTarget
from edgeopt.testing.target_exam import material

AGENT = Path(edgeopt.__file__).parent / "device_agent"
JOB: Mapping[str, Any] = {
    "settings": {"provider": "CPUExecutionProvider", "threads": 1, "spinning": False},
    "warmup": {"floor_s": 0.02, "floor_runs": 3, "cap_s": 1.0, "tolerance": 0.5},
    "window_s": 1.2,
    "counter_window_s": 1.0,
    "idle_s": 0.4,
    "settle_s": 0.05,
    "blocks": 1,
    "min_runs": 5,
}


def energy_pass(root: Path, folder: Path, python: str = sys.executable, **changed: Any) -> Any:
    """The agent's reply of one energy pass on the board at `root`."""
    model, feeds = material(folder)
    environment = {"EDGEOPT_SYSROOT": str(root)}
    with LocalTarget(environment=environment, python=python) as target:
        job = {**JOB, "model": target.put(model), "feeds": target.put(feeds), **changed}
        return target.request("energy", deadline_s=120, **job)


def asked(
    root: Path, code: str, *, before: str = "", prefix: tuple[str, ...] = (), **environment: str
) -> Any:
    """What an expression of the agent's modules gives on the board at `root`, as JSON.

    `before` are statements, `prefix` a command in front of the interpreter.
    """
    script = f"import json, os, sensors, throttle, sampler\n{before}\nprint(json.dumps({code}))"
    done = subprocess.run(
        [*prefix, sys.executable, "-c", script],
        env={
            **os.environ,
            "EDGEOPT_SYSROOT": str(root),
            "PYTHONPATH": str(AGENT),
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)
