"""What every sensor is, and how it reads numbers and finds chips."""

import machine


class Sensor(object):
    """One source of power or energy readings with one scope.

    Args:
        name: Of the file; where a board has several of a kind, with the chip's place behind it.
        scope: What it sees: module, board, "soc-rails (partial)", package, pmic, battery, gpu.
        labels: Of the readings, all rails that are there.
        total: The labels whose sum is the scope's power; only these are read.
        resolution: One step of each label of `total`, in W or J; None where it is not known.
        max_hz: Faster than this shows the same reading again, or disturbs what is measured.
        reason: Why it cannot be read; empty where it can.
    """

    kind = "power"  # or "counter": the readings are joules that add up
    gain = 0.01  # relative error of the scale; None: nobody vouches for it
    note = ""
    gpu = None  # which GPU it sees, as CUDA counts
    lag_s = None  # how old a reading may be where that is more than 1 / max_hz

    def __init__(self, name, scope, labels=(), total=(), resolution=None, max_hz=20.0, reason=""):
        self.name = name
        self.scope = scope
        self.labels = list(labels)
        self.total = list(total)
        self.resolution = {
            label: None if step is None else float("%.3g" % step)
            for label, step in (resolution or {}).items()
        }
        self.max_hz = float(max_hz)
        self.reason = reason

    @property
    def readable(self):
        """Whether readings can be had."""
        return not self.reason

    def ranges(self):
        """For each label of a counter the amount at which it starts again, in J."""
        return {}

    def read(self):
        """One reading: a dict of label to W, or to J for a counter.

        Raises:
            OSError: The source is not there (any more).
            ValueError: It says something that is no reading.
        """
        raise NotImplementedError

    def describe(self):
        """The sensor without readings."""
        steps = [self.resolution.get(label) for label in self.total]
        known = bool(steps) and None not in steps
        return {
            "name": self.name,
            "scope": self.scope,
            "kind": self.kind,
            "labels": self.labels,
            "total": self.total,
            "resolution_w": sum(steps) if known and self.kind == "power" else None,
            "resolution": {label: self.resolution.get(label) for label in self.total},
            "ranges_j": self.ranges(),
            "max_hz": self.max_hz,
            "lag_s": self.lag_s,
            "gain": self.gain,
            "note": self.note,
            "readable": self.readable,
            "reason": self.reason,
        }


def number(path):
    """A system file's number.

    Raises:
        OSError: It cannot be read.
        ValueError: It holds no number.
    """
    return float(machine.text(path))


def known(path):
    """A system file's number; None where there is none."""
    try:
        return number(path)
    except (OSError, ValueError):
        return None


def hwmon(*wanted):
    """Folders of the hwmon devices whose driver has one of these names: (name, path).

    Numbers change from boot to boot, so only names count.
    """
    found = []
    for entry in machine.names("/sys/class/hwmon"):
        path = "/sys/class/hwmon/" + entry
        name = machine.read(path + "/name")
        if name in wanted:
            found.append((name, path))
    return found


def is_jetson():
    """Whether this is an NVIDIA Tegra board."""
    compatible = machine.read("/proc/device-tree/compatible") or ""
    return machine.exists("/etc/nv_tegra_release") or "nvidia,tegra" in compatible
