"""Discrete NVIDIA GPUs through libnvidia-ml: the board of the GPU, without the host around it."""

import ctypes
import os

from sensors import base

_LIBRARY = "libnvidia-ml.so.1"
_NOT_SUPPORTED = 3
_JETSON = "NVML does not support the power of a Jetson's GPU: its rails are read instead"


class Nvml(base.Sensor):
    """The GPU that the work runs on: the first of CUDA_VISIBLE_DEVICES where that is a number."""

    gain = None  # NVIDIA states 5 per cent for Fermi and Kepler, and nothing for newer ones
    lag_s = 1.0  # newer GPUs report the mean of the last second (NVML reference)
    note = "GPU board as its driver reports it, averaged over a second; not traceable"

    def __init__(self, library, handle, index, reason=""):
        label = "gpu%d" % index
        base.Sensor.__init__(self, "nvml", "gpu", [label], [label], {label: 1e-3}, 10.0, reason)
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
    """The GPU's sensor; none without a driver. On a Jetson a refusal that says why."""
    if base.is_jetson():
        return [Nvml(None, None, 0, _JETSON)]
    library = _load()
    if library is None or library.nvmlInit_v2():
        return []
    index, handle = _index(), ctypes.c_void_p()
    if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)):
        return []
    sensor = Nvml(library, handle, index)
    try:
        sensor.read()
    except OSError as error:
        unsupported = str(error).endswith(" %d" % _NOT_SUPPORTED)
        reason = "this GPU does not report its power" if unsupported else str(error)
        return [Nvml(library, handle, index, reason)]
    return [sensor]


def _load():
    """The driver's library. Another root than the real one must bring its own."""
    name = _LIBRARY
    if "EDGEOPT_SYSROOT" in os.environ:
        name = base.place("/usr/lib/" + _LIBRARY)
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _index():
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
    return int(first) if first.isdigit() else 0
