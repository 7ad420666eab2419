"""INA3221 by hwmon: Jetson with JetPack 5 and newer. P = V * I, since there is no power file."""

import machine
from sensors import base, rails

_CHANNELS = (1, 2, 3)  # in7 is a sum of shunt voltages, no rail
_LOST = "the rail %s is not at its place any more"


class Ina3221(base.Sensor):
    """The rails of all chips of the board together."""

    def __init__(self, places):
        labels = list(places)
        chosen, scope = rails.total(labels)
        steps = {label: _step_w(*places[label]) for label in chosen}
        base.Sensor.__init__(
            self,
            "ina3221_hwmon",
            scope or "unknown rails",
            labels,
            chosen,
            steps,
            _max_hz(places),
            "" if chosen else rails.unknown(labels),
        )
        self._places = {label: places[label] for label in chosen}

    def read(self):
        """Watts by label. The label is read too: a renumbered device must not be taken for it."""
        found = {}
        for label, (path, channel) in self._places.items():
            if machine.text("%s/in%d_label" % (path, channel)) != label:
                raise OSError(_LOST % label)
            millivolts = base.number("%s/in%d_input" % (path, channel))
            milliamperes = base.number("%s/curr%d_input" % (path, channel))
            found[label] = millivolts * milliamperes * 1e-6
        return found


def detect():
    """One sensor for all chips; none where there is no chip with a named rail."""
    places = {}
    for _, path in base.hwmon("ina3221"):
        for channel in _CHANNELS:
            try:
                label = machine.text("%s/in%d_label" % (path, channel))
            except OSError:
                continue
            switched_off = base.known("%s/in%d_enable" % (path, channel)) == 0
            if label not in ("", "NC") and not switched_off:
                places.setdefault(label, (path, channel))
    return [Ina3221(places)] if places else []


def _step_w(path, channel):
    shunt = base.known("%s/shunt%d_resistor" % (path, channel))  # micro-ohms
    millivolts = base.known("%s/in%d_input" % (path, channel))
    if not shunt or not millivolts:
        return None
    return rails.STEP_V / (shunt * 1e-6) * millivolts * 1e-3


def _max_hz(places):
    """At most 50 a second: a register takes about half a millisecond over I2C."""
    intervals = [base.known(path + "/update_interval") or 0.0 for path, _ in places.values()]
    return min(50.0, 1000.0 / max(max(intervals), 20.0))
