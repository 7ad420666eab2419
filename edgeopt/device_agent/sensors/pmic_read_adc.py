"""The Raspberry Pi 5's power management chip: twelve rails, without what hangs on 5 V directly."""

import re

from sensors import base, firmware

_LINE = re.compile(r"^\s*(\w+)_([AV])\s+(current|volt)\(\d+\)=(-?\d+(?:\.\d+)?)([AV])$")
_NO_CURRENT = (
    "this Raspberry Pi measures voltages, no currents: use a meter in its supply (`meter` in the "
    "device's entry)"
)
_NO_ACCESS = "vcgencmd may not talk to the firmware: add the user to the group `video` (%s)"


class PmicReadAdc(base.Sensor):
    """The sum over the rails that have a voltage and a current."""

    gain = None
    note = "not traceable: nobody states the converter's error; USB, fan and HATs are not in it"

    def __init__(self, path, labels=(), reason=""):
        base.Sensor.__init__(self, "pmic_read_adc", "pmic", labels, labels, {}, 8.0, reason)
        self._path = path

    def read(self):
        """Watts by rail."""
        found = parse(firmware.ask(self._path, "pmic_read_adc"))
        if set(found) != set(self.labels):
            raise ValueError("the rails are not the same any more")
        return found


def parse(said):
    """Watts by rail from what the firmware prints; a rail without a partner is left out.

    Raises:
        ValueError: A line is none of its kind: then none of the others is believed either.
    """
    amperes, volts = {}, {}
    for line in said.splitlines():
        if not line.strip():
            continue
        match = _LINE.match(line)
        if match is None or match.group(2) != match.group(5):
            raise ValueError("this line is no reading: " + line.strip()[:60])
        (amperes if match.group(2) == "A" else volts)[match.group(1)] = float(match.group(4))
    return {rail: amperes[rail] * volts[rail] for rail in amperes if rail in volts}


def detect():
    """The sensor of a Raspberry Pi 5; on an older one a sensor that says that there is none."""
    path = firmware.command()
    if path is None:
        return []
    try:
        rails = parse(firmware.ask(path, "pmic_read_adc"))
    except OSError as error:
        denied = "VCHI" in str(error) or "vcio" in str(error)
        return [PmicReadAdc(path, (), _NO_ACCESS % error if denied else _NO_CURRENT)]
    except ValueError as error:
        return [PmicReadAdc(path, (), str(error))]
    return [PmicReadAdc(path, sorted(rails), "" if rails else _NO_CURRENT)]
