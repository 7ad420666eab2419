"""`vcgencmd`, the door to the Raspberry Pi's firmware. Each call is a process of its own."""

import os
import shutil
import subprocess

import machine

_PLACES = ("/usr/bin/vcgencmd", "/bin/vcgencmd", "/opt/vc/bin/vcgencmd")
_TIMEOUT_S = 5.0


def command():
    """The path of vcgencmd; None where there is none. Another root hides the real one."""
    for path in _PLACES:
        if os.access(machine.place(path), os.X_OK):
            return machine.place(path)
    return None if "EDGEOPT_SYSROOT" in os.environ else shutil.which("vcgencmd")


def ask(path, *words):
    """What the firmware says.

    Raises:
        OSError: It cannot be asked, or says an error.
    """
    try:
        done = subprocess.run(
            (path,) + words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise OSError("vcgencmd gave no answer") from None
    said = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode or said.startswith("error"):
        raise OSError(said or "vcgencmd failed")
    return said
