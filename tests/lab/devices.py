#!/usr/bin/env python3
"""The lab's devices for a person to try, until Ctrl-C; or for one command.

    python tests/lab/devices.py
    python tests/lab/devices.py edgeopt run ppocr-cls --device lab-arm64,local --trials 12

lab-ssh     this machine behind a real sshd
lab-arm64   an emulated Cortex-A76 behind a real sshd: agent and numerics are real, time is not
lab-slow    this machine with a fifth of a processor (needs root), behind a real sshd
lab-openvino    this machine with a runtime whose provider compiles (`make lab-openvino`)
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.lab import openssh  # (the repository's root is on the path only now)
from tests.lab.board import ARM64_PYTHON, Network
from tests.lab.groups import Group

OPENVINO = Path(__file__).resolve().parents[2] / ".lab" / "openvino" / "bin" / "python"


def fill(network: Network) -> list[Group]:
    """Put up every board that can be had here, and say what cannot."""
    groups: list[Group] = []
    network.board("lab-ssh")
    if reason := openssh.lacking("arm64"):
        print(f"no lab-arm64: {reason}", file=sys.stderr)
    else:
        network.board("lab-arm64", entry={"python": str(ARM64_PYTHON)})
    try:
        groups.append(Group(network.folder, processors=0.2))
        network.board("lab-slow", entry={"python": str(groups[0].python)})
    except OSError as error:
        print(f"no lab-slow: {error}", file=sys.stderr)
    devices = network.devices_file()
    if OPENVINO.exists():
        text = f'[devices.lab-openvino]\nkind = "local"\npython = {json.dumps(str(OPENVINO))}\n'
        with devices.open("a", encoding="utf-8") as stream:
            stream.write(text + 'provider = "OpenVINOExecutionProvider"\n')
    else:
        print("no lab-openvino: `make lab-openvino` fetches it", file=sys.stderr)
    return groups


def wait(network: Network) -> int:
    """Say how to use the boards, and keep them until Ctrl-C."""
    for name, value in network.environment.items():
        print(f"export {name}={shlex.quote(value)}")
    print(f"# {', '.join(network.boards)}: until Ctrl-C", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()
    return 0


def main() -> int:
    """Run the lab; the exit code is the command's."""
    if reason := openssh.lacks_ssh():
        print(f"no lab: {reason}", file=sys.stderr)
        return 3
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="eo-lab-", ignore_cleanup_errors=True) as folder:
        network, groups = Network(Path(folder)), list[Group]()
        try:
            groups = fill(network)
            if not sys.argv[1:]:
                return wait(network)
            environment = {**os.environ, **network.environment}
            return subprocess.run(sys.argv[1:], env=environment, check=False).returncode
        finally:
            network.close()
            for group in groups:
                group.remove()


sys.exit(main())
