"""The battery: only while it is what feeds the device. Vendors differ in sign and in unit."""

import machine
from sensors import base

_BASE = "/sys/class/power_supply"
_LEAST_W, _MOST_W = 0.05, 30.0
_CHARGING = "the device is on external power: pull the plug (and reach it without USB)"


class Battery(base.Sensor):
    """What leaves the battery."""

    gain = None
    note = "not traceable: the fuel gauge's error is not stated; it refreshes every 1 to 10 s"

    def __init__(self, path, reason=""):
        label = path.rpartition("/")[2]
        base.Sensor.__init__(self, "power_supply", "battery", [label], [label], {}, 2.0, reason)
        self._path = path

    def read(self):
        """Watts, positive while discharging whatever the vendor's sign is.

        Raises:
            ValueError: It is charging, or the figure is no device's power in either unit.
        """
        if machine.text(self._path + "/status") != "Discharging":
            raise ValueError(_CHARGING)
        return {self.labels[0]: abs(_watts(self._path))}


def _watts(path):
    if machine.exists(path + "/power_now"):
        return base.number(path + "/power_now") * 1e-6
    volts = base.number(path + "/voltage_now") * 1e-6
    microamperes = base.number(path + "/current_now")
    for unit in (1e-6, 1e-3):  # the standard says microamperes, some vendors give milliamperes
        if _LEAST_W <= abs(microamperes) * unit * volts <= _MOST_W:
            return microamperes * unit * volts
    raise ValueError("%g at %g V is no device's power in uA or mA" % (microamperes, volts))


def detect():
    """The first battery that has a current or a power."""
    for entry in machine.names(_BASE):
        path = "%s/%s" % (_BASE, entry)
        measures = any(machine.exists(path + name) for name in ("/current_now", "/power_now"))
        if not measures or not _is_battery(path):
            continue
        sensor = Battery(path)
        try:
            sensor.read()
        except (OSError, ValueError) as error:
            return [Battery(path, str(error))]
        return [sensor]
    return []


def _is_battery(path):
    try:
        return machine.text(path + "/type") == "Battery"
    except OSError:
        return False
