"""Power sensors that a board may have, one file each; all of them untried on hardware.

A file offers `detect()`, which returns `base.Sensor` objects: readable ones, or such that say why
not. The order of `_FILES` is the order of preference: what sees the whole board or module first.
"""

import importlib

_FILES = (
    "ina238",
    "ina3221_hwmon",
    "ina3221_iio",
    "ina2xx",
    "pmic_read_adc",
    "rapl",
    "power_supply",
    "nvml",
)


def find():
    """Every sensor of this machine, readable or not, the preferred first."""
    found = []
    for name in _FILES:
        found.extend(importlib.import_module("sensors." + name).detect())
    return found


def describe():
    """What the probe tells about the sensors: a list of objects without readings."""
    return [sensor.describe() for sensor in find()]


def named(name):
    """The sensor of that name; None where it is not there or cannot be read."""
    for sensor in find():
        if sensor.name == name and sensor.readable:
            return sensor
    return None


def choose(names=(), gpu=None):
    """The sensor to measure with, and where there is none, why.

    Args:
        names: Names by preference. Where the board has none of them its own order counts; one
            that it has but that cannot be read is not replaced, since others see something else.
        gpu: The GPU that the work runs on, as its provider counts; None for none. A discrete one's
            own sensor then comes first, whatever the names say; that of another GPU is no choice.

    Returns:
        The sensor or None, and a reason (empty with a sensor).
    """
    # A discrete GPU's sensor says nothing of work elsewhere, unless somebody wants it.
    everything = [e for e in find() if e.gpu in (None, gpu) or (gpu is None and e.name in names)]
    found = [each for name in names for each in everything if each.name == name] or everything
    if gpu is not None:
        own = [each for each in everything if each.gpu == gpu]
        found = own + [each for each in found if each not in own]
    for sensor in found:
        if sensor.readable:
            return sensor, ""
    if found:
        return None, "; ".join("%s: %s" % (each.name, each.reason) for each in found)
    return None, "this board has no power sensor that edgeopt can read; name a meter"
