"""Facts of the machine, read where Linux keeps them; elsewhere a fact is None, never guessed.

`EDGEOPT_SYSROOT` names another root for the files, so that boards can be told apart in tests.
"""

import hashlib
import json
import os
import platform

_ROOT = os.environ.get("EDGEOPT_SYSROOT", "/")
# Features that decide which integer and half-precision kernels a runtime has; the ARM names of
# the kernel are given in the words of the field.
_FEATURES = {
    "sse4_1": "sse4_1",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "avx512f": "avx512f",
    "avx512_vnni": "avx512_vnni",
    "avx_vnni": "avx_vnni",
    "amx_int8": "amx_int8",
    "asimd": "neon",
    "neon": "neon",
    "asimdhp": "fp16",
    "asimddp": "dotprod",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
}
_STABLE = (
    "system",
    "kernel",
    "os",
    "architecture",
    "board",
    "cpu_model",
    "features",
    "cores",
    "affinity",
    "cpu_quota",
    "memory_bytes",
    "governor",
    "python",
    "runtime",
    "providers",
)


def read(path):
    """The text of a system file without spaces at its ends; None where it cannot be read."""
    try:
        with open(os.path.join(_ROOT, path.lstrip("/")), "rb") as stream:
            return stream.read().decode("utf-8", "replace").strip("\0 \n\t")
    except (IOError, OSError):
        return None


def facts(runtime, providers):
    """Everything about this machine that a measurement depends on, and their fingerprint."""
    found = {
        "system": platform.system(),
        "kernel": platform.release(),
        "os": _os_name(),
        "architecture": _architecture(),
        "board": read("/proc/device-tree/model") or read("/sys/class/dmi/id/product_name"),
        "cpu_model": _cpu_model(),
        "features": features(),
        "cores": os.cpu_count(),
        "affinity": affinity(),
        "cpu_quota": cpu_quota(),
        "memory_bytes": memory().get("MemTotal"),
        "swap_bytes": memory().get("SwapTotal"),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "python": platform.python_version(),
        "runtime": runtime,
        "providers": list(providers),
    }
    stable = json.dumps([found[key] for key in _STABLE], sort_keys=True)
    found["fingerprint"] = "sha256:" + hashlib.sha256(stable.encode("utf-8")).hexdigest()
    return found


def _architecture():
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def _os_name():
    for line in (read("/etc/os-release") or "").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return None


def _cpu_fields():
    fields = {}
    for line in (read("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    return fields


def _cpu_model():
    fields = _cpu_fields()
    if fields.get("model name"):
        return fields["model name"]
    parts = [fields.get(key) for key in ("CPU implementer", "CPU part")]
    return "implementer %s part %s" % tuple(parts) if all(parts) else None


def features():
    """Instruction-set features that matter, sorted; `vnni` stands for either of its encodings."""
    fields = _cpu_fields()
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    found = {_FEATURES[flag] for flag in flags if flag in _FEATURES}
    if found & {"avx512_vnni", "avx_vnni"}:
        found.add("vnni")
    return sorted(found)


def affinity():
    """How many logical processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def cpu_quota():
    """Processors that the control group grants (a fraction is possible); None without a limit."""
    text = read("/sys/fs/cgroup/cpu.max")
    if text and not text.startswith("max"):
        quota, _, period = text.partition(" ")
        return float(quota) / float(period or 100000)
    quota = read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
    period = read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if quota and period and int(quota) > 0:
        return float(quota) / float(period)
    return None


def processors():
    """Processors that this process can really keep busy."""
    return min(float(affinity() or 1), cpu_quota() or float("inf"))


def memory():
    """/proc/meminfo in bytes; empty where there is none."""
    found = {}
    for line in (read("/proc/meminfo") or "").splitlines():
        words = line.replace(":", " ").split()
        if len(words) == 3 and words[2] == "kB":
            found[words[0]] = int(words[1]) * 1024
    return found


def process_memory():
    """Resident bytes of this process, now and at its highest: (level, peak); None elsewhere."""
    found = {}
    try:
        with open("/proc/self/status") as stream:
            for line in stream:
                key, _, value = line.partition(":")
                if key in ("VmRSS", "VmHWM"):
                    found[key] = int(value.split()[0]) * 1024
    except (IOError, OSError):
        return None
    return (found["VmRSS"], found["VmHWM"]) if len(found) == 2 else None


def forget_peak():
    """Set this process's highest resident size back to the present one; False where refused."""
    try:
        with open("/proc/self/clear_refs", "w") as stream:
            stream.write("5")
        return True
    except (IOError, OSError):
        return False


def state():
    """What changes between two blocks: load, busy processor seconds, swap, heat, clocks."""
    return {
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "busy_s": _busy_s(),
        "swapped_pages": _swapped_pages(),
        "temperature_c": _temperature_c(),
        "clock_hz": _clock_hz(),
    }


def _busy_s():
    """Processor seconds that everything on this machine has used, stolen ones included."""
    words = (read("/proc/stat") or "").split("\n")[0].split()
    if len(words) < 9 or words[0] != "cpu":
        return None
    user, nice, system, _, _, irq, softirq, steal = (int(word) for word in words[1:9])
    return (user + nice + system + irq + softirq + steal) / float(os.sysconf("SC_CLK_TCK"))


def _swapped_pages():
    words = (read("/proc/vmstat") or "").split()
    counters = dict(zip(words[::2], words[1::2]))
    if "pswpin" not in counters:
        return None
    return int(counters["pswpin"]) + int(counters["pswpout"])


def _temperature_c():
    """The hottest zone; zones that are switched off cannot be read or show nonsense."""
    found = []
    for zone in _list("/sys/class/thermal", "thermal_zone"):
        text = read("/sys/class/thermal/%s/temp" % zone)
        if text and text.lstrip("-").isdigit() and 0 < int(text) < 200000:
            found.append(int(text) / 1000.0)
    return max(found) if found else None


def _clock_hz():
    """Mean clock of the processors this process may use."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    texts = [
        read("/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq" % number)
        for number in sorted(allowed)
    ]
    found = [int(text) * 1000.0 for text in texts if text and text.isdigit()]
    return sum(found) / len(found) if found else None


def _list(path, prefix):
    try:
        names = os.listdir(os.path.join(_ROOT, path.lstrip("/")))
    except (IOError, OSError):
        return []
    return sorted(name for name in names if name.startswith(prefix))
