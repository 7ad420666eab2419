"""Discrete NVIDIA GPUs through libnvidia-ml: the board of the GPU, without the host around it."""

import ctypes
import os

import machine
from sensors import base

_LIBRARY = "libnvidia-ml.so.1"
_NOT_SUPPORTED = 3
_ORDER = "with CUDA_DEVICE_ORDER=PCI_BUS_ID unset, CUDA may count unlike GPUs in another order"
_JETSON = "NVML does not support the power of a Jetson's GPU: its rails are read instead"


class Nvml(base.Sensor):
    """One GPU that this process may use.

    Args:
        library: NVML, initialised.
        handle: Of the GPU.
        number: As CUDA counts those that CUDA_VISIBLE_DEVICES shows.
        which: The number that the driver gives it, or what CUDA_VISIBLE_DEVICES calls it.
        note: What else must be known.
        reason: Why it cannot be read.
    """

    gain = None  # NVIDIA states 5 per cent for Fermi and Kepler, and nothing for newer ones
    lag_s = 1.0  # newer GPUs report the mean of the last second (NVML reference)
    note = "GPU board as its driver reports it, averaged over a second; not traceable"

    def __init__(self, library, handle, number=0, which=0, note="", reason=""):
        label = "gpu%d" % which if isinstance(which, int) else which
        name = "nvml/%d" % number if number else "nvml"
        base.Sensor.__init__(self, name, "gpu", [label], [label], {label: 1e-3}, 10.0, reason)
        self.gpu = number
        self.note = "; ".join(text for text in (self.note, note) if text)
        self._library = library
        self._handle = handle

    def read(self):
        """Watts."""
        milliwatts = ctypes.c_uint()
        code = self._library.nvmlDeviceGetPowerUsage(self._handle, ctypes.byref(milliwatts))
        if code:
            raise OSError("NVML says error %d" % code)
        return {self.labels[0]: milliwatts.value * 1e-3}


def detect():
    """A sensor a visible GPU; none without a driver. On a Jetson a refusal that says why."""
    if base.is_jetson():
        return [Nvml(None, None, reason=_JETSON)]
    library = _load()
    if library is None or library.nvmlInit_v2():
        return []
    count = ctypes.c_uint()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return []
    by_bus = os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    note = "" if count.value < 2 or by_bus else _ORDER
    found = []
    for number, which in enumerate(_visible(count.value)):
        handle = _handle(library, which)
        if handle is None:
            break  # CUDA, too, sees nothing behind the first that is not there.
        found.append(_checked(library, handle, number, which, note))
    return found


def _checked(library, handle, number, which, note):
    """The sensor, with the reason where it cannot be read."""
    sensor = Nvml(library, handle, number, which, note)
    try:
        sensor.read()
    except OSError as error:
        unsupported = str(error).endswith(" %d" % _NOT_SUPPORTED)
        reason = "this GPU does not report its power" if unsupported else str(error)
        return Nvml(library, handle, number, which, note, reason)
    return sensor


def _visible(count):
    """What CUDA_VISIBLE_DEVICES shows: numbers, or texts that begin an identifier."""
    told = os.environ.get("CUDA_VISIBLE_DEVICES")
    if told is None:
        return list(range(count))
    words = [word.strip() for word in told.split(",")]
    return [int(word) if word.isdigit() else word for word in words if word]


def _handle(library, which):
    """NVML's handle of a number or an identifier; None where there is no such GPU."""
    handle = ctypes.c_void_p()
    if isinstance(which, int):
        code = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(which), ctypes.byref(handle))
    else:
        code = library.nvmlDeviceGetHandleByUUID(which.encode("utf-8"), ctypes.byref(handle))
    return None if code else handle


def _load():
    """The driver's library. Another root than the real one must bring its own."""
    name = machine.place("/usr/lib/" + _LIBRARY) if machine.pretended() else _LIBRARY
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None
