"""RAPL: energy counters of x86 processors. The package, not the board, and often root only."""

import machine
from sensors import base

_BASE = "/sys/class/powercap"
_LOCKED = (
    "energy_uj is readable by root only: sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj,"
    ' or for good, a udev rule: SUBSYSTEM=="powercap", KERNEL=="intel-rapl:*", '
    'RUN+="/bin/chmod a+r /sys%p/energy_uj"'
)


class Rapl(base.Sensor):
    """All packages together."""

    kind = "counter"
    note = "processor package only: no board, no supply, often no memory; not traceable"
    gain = None

    def __init__(self, zones, reason=""):
        # The unit stands in a register that the driver does not show: the step is unknown here.
        labels = list(zones)
        base.Sensor.__init__(self, "rapl", "package", labels, labels, {}, 50.0, reason)
        self._zones = zones

    def ranges(self):
        """Where the counters start again, in J: one unit above the largest value."""
        found = {}
        for label, path in self._zones.items():
            largest = base.known(path + "/max_energy_range_uj")
            if largest:
                found[label] = (largest + 1) * 1e-6
        return found

    def read(self):
        """Joules by package, as the counters say."""
        found = {}
        for label, path in self._zones.items():
            found[label] = base.number(path + "/energy_uj") * 1e-6
        return found


def detect():
    """Package zones by their names; sub-zones are part of them, `psys` is another scope."""
    zones = {}
    for entry in machine.names(_BASE):
        path = "%s/%s" % (_BASE, entry)
        if entry.startswith("intel-rapl:") and entry.count(":") == 1:
            try:
                name = machine.text(path + "/name")
            except OSError:
                continue
            if name.startswith("package-"):
                zones[name] = path
    if not zones:
        return []
    sensor = Rapl(zones)
    try:
        sensor.read()
    except PermissionError:
        return [Rapl(zones, _LOCKED)]
    except (OSError, ValueError) as error:
        return [Rapl(zones, "the counter cannot be read: %s" % error)]
    return [sensor]
