"""Facts of the machine, read where Linux keeps them; elsewhere a fact is None, never guessed.

`EDGEOPT_SYSROOT` names another root for the files, so that boards can be told apart in tests.
"""

import os
import platform

_GROUP_MEMORY = (
    ("", ("memory.max", "memory.current", "memory.stat")),
    ("memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat")),
)
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


def place(path):
    """A system file's path below the root."""
    return os.path.join(_ROOT, path.lstrip("/"))


def text(path):
    """The text of a system file without spaces at its ends.

    Raises:
        OSError: It cannot be read.
    """
    with open(place(path), "rb") as stream:
        return stream.read().decode("utf-8", "replace").strip("\0 \n\t")


def read(path):
    """The same; None where it cannot be read."""
    try:
        return text(path)
    except (IOError, OSError):
        return None


def exists(path):
    """Whether the system has such a file or folder."""
    return os.path.exists(place(path))


def names(path, prefix=""):
    """Names in a system folder that start so, sorted; empty where it cannot be read."""
    try:
        found = os.listdir(place(path))
    except (IOError, OSError):
        return []
    return sorted(name for name in found if name.startswith(prefix))


def root():
    """The folder that system files are read below."""
    return _ROOT


def pretended():
    """Whether another root than the real one is read."""
    return "EDGEOPT_SYSROOT" in os.environ


def facts(runtime, providers):
    """Everything about this machine that a measurement depends on, and their fingerprint."""
    import inventory  # here: it reads through this module

    return inventory.facts(runtime, providers)


def architecture():
    """`x86_64`, `aarch64`, …; of another root, what its kernel says it is, if it does."""
    said = read("/proc/sys/kernel/arch") if pretended() else None
    return word_of(said or platform.machine())


def word_of(name):
    """The usual word for an architecture."""
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name.lower(), name.lower())


def cores():
    """How many logical processors there are, switched on or off."""
    if pretended():
        lines = (read("/proc/cpuinfo") or "").splitlines()
        return sum(line.partition(":")[0].strip() == "processor" for line in lines) or None
    return os.cpu_count()


def _cpu_fields():
    fields = {}
    for line in (read("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    return fields


def cpu_model():
    """The processor's name; on ARM the numbers of its maker and part."""
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
    """Processors that the control groups grant (a fraction is possible); None without a limit."""
    found = []
    for text in group_files("", "cpu.max"):
        quota, _, period = text.partition(" ")
        found.append((quota, period or "100000"))
    periods = group_files("cpu", "cpu.cfs_period_us")
    found.extend(zip(group_files("cpu", "cpu.cfs_quota_us"), periods))
    granted = [float(q) / float(p) for q, p in found if q.isdigit() and p.isdigit() and int(p)]
    return min(granted) if granted else None


def memory_limit():
    """Bytes that the control groups grant; None without a limit (version 1 writes a huge one)."""
    texts = group_files("", "memory.max") + group_files("memory", "memory.limit_in_bytes")
    found = [int(text) for text in texts if text.isdigit() and int(text) < 2**60]
    return min(found) if found else None


def group_files(controller, name):
    """What a file of this process's control group says, there and in every group above.

    `controller` is empty for version 2, where all files lie in one tree.
    """
    return [text for text in _in_groups(controller, name) if text]


def _in_groups(controller, name):
    """The same, with None for every group that does not have the file."""
    place = "/sys/fs/cgroup/" + controller
    path = ""
    for line in (read("/proc/self/cgroup") or "").splitlines():
        _, names_of_it, group = (line.split(":", 2) + ["", ""])[:3]
        if controller in names_of_it.split(","):
            path = group.strip("/")
    found, parts = [], [part for part in path.split("/") if part]
    for length in range(len(parts), -1, -1):
        found.append(read("/".join([place.rstrip("/")] + parts[:length] + [name])))
    return found


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


def available_bytes():
    """What can be had without swapping: the system's word, or less where a control group says so.

    Of every group around this process what it may still take; pages of files that nothing uses
    count as free there too. None where unknown.
    """
    known = [memory().get("MemAvailable")]
    for controller, names_of_it in _GROUP_MEMORY:
        for limit, used, stat in zip(*(_in_groups(controller, name) for name in names_of_it)):
            if limit and limit.isdigit() and used and used.isdigit() and int(limit) < 2**60:
                known.append(int(limit) - int(used) + _idle_file_bytes(stat))
    found = [value for value in known if value is not None]
    return max(0, min(found)) if found else None


def _idle_file_bytes(stat):
    """Of a group with those below it: version 1 says that apart."""
    found = dict(line.split(" ", 1) for line in (stat or "").splitlines() if " " in line)
    text = found.get("total_inactive_file", found.get("inactive_file", ""))
    return int(text) if text.isdigit() else 0


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
    """What changes between two blocks: load, processor seconds, swap, heat, clocks, throttling."""
    import throttle  # here: it reads through this module

    found = {
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "busy_s": _busy_s(),
        "swapped_pages": _swapped_pages(),
        "temperature_c": _temperature_c(),
        "clock_hz": _clock_hz(),
    }
    found.update(throttle.state())
    return found


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
    for zone in names("/sys/class/thermal", "thermal_zone"):
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
