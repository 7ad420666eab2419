"""INA238 by hwmon: the supply of the Jetson Thor developer kit (`VIN`), carrier included."""

import machine
from sensors import base

_STEP_V = 5e-6  # over the shunt, in the converter's wide range


class Ina238(base.Sensor):
    """The board's input."""

    def __init__(self, path):
        shunt = base.known(path + "/shunt_resistor")  # micro-ohms
        millivolts = base.known(path + "/in1_input")
        step = _STEP_V / (shunt * 1e-6) * millivolts * 1e-3 if shunt and millivolts else None
        base.Sensor.__init__(self, "ina238", "board", ["VIN"], ["VIN"], {"VIN": step}, 50.0)
        self._path = path

    def read(self):
        """Watts: this driver has a power file, in microwatts."""
        if machine.text(self._path + "/name") != "ina238":
            raise OSError("the INA238 is not at its place any more")
        return {"VIN": base.number(self._path + "/power1_input") * 1e-6}


def detect():
    """The first INA238; a second one would be something else than the board's input."""
    return [Ina238(path) for _, path in base.hwmon("ina238")[:1]]
