"""Evidence of throttling: counters of the board, and how busy and fast its GPU is.

`counters` are cumulative, so that only what rises during a run speaks against it: Jetson's
over-current events, and the Raspberry Pi's bits. Of the latter those "since boot" stick, and say
nothing when they were set before; of those of the moment it is counted how often this process
has seen them set. Untried on hardware.
"""

import machine
from sensors import base, firmware

# oc1: under-voltage, oc2: average over-current, oc3: instantaneous over-current.
_EVENTS = ("oc1_event_cnt", "oc2_event_cnt", "oc3_event_cnt")
_BITS = ("under_voltage", "frequency_capped", "throttled", "soft_temperature_limit")
_SINCE_BOOT = 16
_LOADS = (
    "/sys/devices/gpu.0/load",
    "/sys/devices/platform/gpu.0/load",
    "/sys/devices/platform/bus@0/17000000.gpu/load",
)
_GPUS = ("gpu", "gv11b", "gp10b", "ga10b", "gm20b", "mali")
_VCGENCMD = []
_SEEN = dict.fromkeys(_BITS, 0)


def counters():
    """Name to count, None for one that cannot be read just now; empty where there are none."""
    found = {}
    for _, path in base.hwmon("soctherm_oc"):
        for event in _EVENTS:
            if machine.exists("%s/%s" % (path, event)):
                found[event] = _whole(base.known("%s/%s" % (path, event)))
    found.update(_firmware())
    return found


def gpu():
    """Share of the time that the GPU works, and its clock in Hz: each None where not told."""
    load, clock = _devfreq()
    for path in _LOADS:
        thousandths = machine.read(path)
        if thousandths and thousandths.isdigit():
            load = int(thousandths) / 1000.0
    return load, clock


def state():
    """What `machine.state` adds: keys `throttle`, `gpu_busy`, `gpu_clock_hz`."""
    busy, clock = gpu()
    return {"throttle": counters() or None, "gpu_busy": busy, "gpu_clock_hz": clock}


def _whole(value):
    return None if value is None else int(value)


def _firmware():
    if not _VCGENCMD:
        _VCGENCMD.append(firmware.command())
    if _VCGENCMD[0] is None:
        return {}
    try:
        said = firmware.ask(_VCGENCMD[0], "get_throttled")
        mask = int(said.partition("=")[2], 16)
    except (OSError, ValueError):
        return dict.fromkeys(_BITS)
    found = {}
    for bit, name in enumerate(_BITS):
        found[name] = mask >> (bit + _SINCE_BOOT) & 1
        _SEEN[name] += mask >> bit & 1
        found[name + "_now"] = _SEEN[name]
    return found


def _devfreq():
    for name in machine.names("/sys/class/devfreq"):
        if not any(word in name for word in _GPUS):
            continue
        path = "/sys/class/devfreq/" + name
        load = machine.read(path + "/device/load")
        if load and load.isdigit():
            return int(load) / 1000.0, base.known(path + "/cur_freq")
        share = (machine.read(path + "/load") or "").partition("@")[0]
        busy = int(share) / 100.0 if share.isdigit() else None
        return busy, base.known(path + "/cur_freq")
    return None, None
