"""INA3221 by iio: Jetson with JetPack 4."""

import machine
from sensors import base, rails

_DRIVER = "/sys/bus/i2c/drivers/ina3221x"
_SHUNT_OHM = 0.005  # the driver does not say it; these boards have 5 milli-ohms


class Ina3221Iio(base.Sensor):
    """The rails of all chips of the board together."""

    note = "step computed for a shunt of 5 milli-ohms"

    def __init__(self, places):
        labels = list(places)
        chosen, scope = rails.total(labels)
        steps = {label: _step_w(*places[label]) for label in chosen}
        reason = "" if chosen else rails.unknown(labels)
        base.Sensor.__init__(
            self, "ina3221_iio", scope or "unknown rails", labels, chosen, steps, 50.0, reason
        )
        self._places = {label: places[label] for label in chosen}

    def read(self):
        """Watts by label."""
        found = {}
        for label, (path, channel) in self._places.items():
            if machine.text("%s/rail_name_%d" % (path, channel)) != label:
                raise OSError("the rail %s is not at its place any more" % label)
            found[label] = base.number("%s/in_power%d_input" % (path, channel)) * 1e-3
        return found


def detect():
    """One sensor for all chips; none where the driver is not there."""
    places = {}
    for chip in machine.names(_DRIVER):
        for device in machine.names("%s/%s" % (_DRIVER, chip)):
            if not device.startswith("iio:device"):
                continue
            path = "%s/%s/%s" % (_DRIVER, chip, device)
            for channel in range(3):
                try:
                    label = machine.text("%s/rail_name_%d" % (path, channel))
                except OSError:
                    continue
                if label not in ("", "NC"):
                    places.setdefault(label, (path, channel))
    return [Ina3221Iio(places)] if places else []


def _step_w(path, channel):
    millivolts = base.known("%s/in_voltage%d_input" % (path, channel))
    return rails.STEP_V / _SHUNT_OHM * millivolts * 1e-3 if millivolts else None
