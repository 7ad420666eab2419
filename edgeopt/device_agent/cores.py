"""The processors: kinds of cores, clocks, governors, which of them are switched on."""

import machine

# Names of cores by implementer and part (Linux, arch/arm64/include/asm/cputype.h).
_CORES = {
    "0x41:0xd03": "Cortex-A53",
    "0x41:0xd05": "Cortex-A55",
    "0x41:0xd07": "Cortex-A57",
    "0x41:0xd08": "Cortex-A72",
    "0x41:0xd0b": "Cortex-A76",
    "0x41:0xd42": "Cortex-A78AE",
    "0x41:0xd80": "Cortex-A520",
    "0x41:0xd81": "Cortex-A720",
    "0x41:0xd82": "Cortex-X4",
    "0x41:0xd83": "Neoverse-V3AE",
    "0x4e:0x003": "Denver 2",
    "0x4e:0x004": "Carmel",
}
_CPU = "/sys/devices/system/cpu"


def facts():
    """Cores, clocks and what governs them, by key of the probe."""
    found = clusters()
    return {
        "clusters": found,
        "cpu_parts": sorted({each["part"] for each in found if each["part"]}),
        "online": machine.read(_CPU + "/online"),
        "governor": machine.read(_CPU + "/cpu0/cpufreq/scaling_governor"),
        "governors": governors(),
        "turbo": _turbo(),
        "smt": _switch(machine.read(_CPU + "/smt/active")),
        "clock_max_hz": max([each["max_hz"] or 0.0 for each in found] or [0.0]) or None,
        "devfreq": devfreq(),
    }


def clusters():
    """Cores of one kind each: name, part, which, highest clock in Hz, capacity; fastest first."""
    groups = {}
    for number, part in enumerate_parts():
        limit = _integer("%s/cpu%d/cpufreq/cpuinfo_max_freq" % (_CPU, number))
        capacity = _integer("%s/cpu%d/cpu_capacity" % (_CPU, number))
        groups.setdefault((part or "", limit or 0, capacity or 0), []).append(number)
    return [
        {
            "name": _CORES.get(part),
            "part": part or None,
            "cores": numbers,
            "max_hz": limit * 1000.0 or None,
            "capacity": capacity or None,
        }
        for (part, limit, capacity), numbers in sorted(
            groups.items(), key=lambda item: (-item[0][2], -item[0][1], item[1])
        )
    ]


def enumerate_parts():
    """(number, `implementer:part` or None) of each processor that /proc/cpuinfo shows."""
    found, number, implementer = [], None, None
    for line in (machine.read("/proc/cpuinfo") or "").splitlines():
        key, _, value = (word.strip() for word in line.partition(":"))
        if key == "processor" and value.isdigit():
            number = int(value)
            found.append((number, None))
        elif key == "CPU implementer":
            implementer = value
        elif key == "CPU part" and found and implementer:
            found[-1] = (number, ("%s:%s" % (implementer, value)).lower())
    return found


def governors():
    """Governor by policy, where the kernel has policies."""
    found = {}
    for policy in machine.names(_CPU + "/cpufreq", "policy"):
        found[policy] = machine.read("%s/cpufreq/%s/scaling_governor" % (_CPU, policy))
    return found


def devfreq():
    """Governor and highest clock in Hz of the GPU and the memory controller, by node."""
    found = {}
    for node in machine.names("/sys/class/devfreq", ""):
        if any(word in node for word in ("gpu", "gv11b", "dmc")):
            path = "/sys/class/devfreq/" + node
            limit = _integer(path + "/max_freq")
            found[node] = {"governor": machine.read(path + "/governor"), "max_hz": limit}
    return found


def _turbo():
    """Whether clocks above the nominal one are allowed; None where that is not said."""
    off = _switch(machine.read(_CPU + "/intel_pstate/no_turbo"))
    if off is not None:
        return not off
    return _switch(machine.read(_CPU + "/cpufreq/boost"))


def _switch(text):
    return {"0": False, "1": True}.get(text)


def _integer(path):
    text = machine.read(path)
    return int(text) if text and text.isdigit() else None
