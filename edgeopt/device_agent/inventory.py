"""Everything about this machine that the host wants to know, and the digest of what matters."""

import hashlib
import json
import os
import platform
import shutil

import board
import cores
import machine

# What changes a measurement. Not: the boot, free memory and disk, present clocks.
_STABLE = (
    "system",
    "kernel",
    "os",
    "architecture",
    "machine_kind",
    "board",
    "compatible",
    "module",
    "l4t",
    "power_mode",
    "cpu_model",
    "features",
    "cores",
    "online",
    "clusters",
    "affinity",
    "cpu_quota",
    "memory_bytes",
    "memory_limit_bytes",
    "swap_bytes",
    "governor",
    "governors",
    "turbo",
    "smt",
    "devfreq",
    "glibc",
    "python",
    "runtime",
    "providers",
)


def facts(runtime, providers):
    """All facts of the probe and their fingerprint.

    `runtime` is the version of onnxruntime (None without one), `providers` what it lists.
    """
    memory = machine.memory()
    found = {
        "system": platform.system(),
        "kernel": machine.read("/proc/sys/kernel/osrelease") or platform.release(),
        "architecture": machine.architecture(),
        "cpu_model": machine.cpu_model(),
        "features": machine.features(),
        "cores": machine.cores(),
        "affinity": machine.affinity(),
        "cpu_quota": machine.cpu_quota(),
        "memory_bytes": memory.get("MemTotal"),
        "memory_free_bytes": memory.get("MemAvailable"),
        "memory_limit_bytes": machine.memory_limit(),
        "swap_bytes": memory.get("SwapTotal"),
        "disk_free_bytes": disk_free(),
        "glibc": glibc(),
        "python": platform.python_version(),
        "runtime": runtime,
        "providers": list(providers),
        "sensors": sensors_found(),
    }
    found.update(board.facts())
    found.update(cores.facts())
    stable = json.dumps([found[key] for key in _STABLE], sort_keys=True)
    found["fingerprint"] = "sha256:" + hashlib.sha256(stable.encode("utf-8")).hexdigest()
    return found


def glibc():
    """Version of the C library; None with another one than glibc."""
    try:
        said = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        return None
    return said.partition(" ")[2] or None if said else None


def disk_free():
    """Free bytes where the agent keeps its files; None where the folder's disk is not known."""
    folder = os.path.expanduser(os.environ.get("EDGEOPT_CACHE") or "~/.cache/edgeopt")
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def sensors_found():
    """What the power sensors say of themselves; a sensor that cannot be told hides nothing else."""
    import sensors

    try:
        return sensors.describe()
    except (OSError, ValueError) as error:
        reason = "the board's sensors cannot be told: %s" % error
        return [{"name": "", "scope": "", "readable": False, "reason": reason}]
