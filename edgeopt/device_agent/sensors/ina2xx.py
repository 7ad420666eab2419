"""INA219, 220, 226, 230, 231 by hwmon: a monitor that somebody put into the board's supply."""

import os

import machine
from sensors import base

# Step of the converter over the shunt in V, and how many of them one step of the power is.
_STEPS = {"ina219": (10e-6, 20), "ina220": (10e-6, 20)}
_FINE = (2.5e-6, 25)
_NAMES = ("ina219", "ina220", "ina226", "ina230", "ina231")


class Ina2xx(base.Sensor):
    """One chip. What it sees is what it was wired to: the board's supply, as far as is known."""

    note = "scope as wired: taken for the board's supply"

    def __init__(self, name, chip, path):
        shunt = base.known(path + "/shunt_resistor")  # micro-ohms
        step_v, factor = _STEPS.get(chip, _FINE)
        step = step_v / (shunt * 1e-6) * factor if shunt else None
        interval = base.known(path + "/update_interval") or 20.0
        max_hz = min(50.0, 1000.0 / max(interval, 1.0))
        base.Sensor.__init__(self, name, "board", ["POWER"], ["POWER"], {"POWER": step}, max_hz)
        self._chip = chip
        self._path = path

    def read(self):
        """Watts: the driver's power file is in microwatts."""
        if machine.text(self._path + "/name") != self._chip:
            raise OSError("the %s is not at its place any more" % self._chip)
        return {"POWER": base.number(self._path + "/power1_input") * 1e-6}


def detect():
    """One sensor a chip; several are told apart by the chip's place on its bus."""
    found = base.hwmon(*_NAMES)
    if len(found) == 1:
        return [Ina2xx("ina2xx", *found[0])]
    return [Ina2xx("ina2xx/" + _bus(path), chip, path) for chip, path in found]


def _bus(path):
    """Such as `1-0040`: the folder above `hwmon/hwmonN`."""
    return os.path.realpath(machine.place(path)).split(os.sep)[-3]
