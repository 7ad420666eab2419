"""`device_numbers`: a device as a row of numbers, for policies that are to tell devices apart.

What its agent found out, what its kind's profile says, and where models were profiled on it, how
fast it was: medians over its cost tables. What is not known is 0, and `profiled` says whether the
last three are there. Nothing of it is ever a result.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edgeopt.api.costs import tables_of
from edgeopt.api.device import Device

ARCHITECTURES = ("x86_64", "aarch64", "armv7l")
FEATURES = ("avx2", "avx512f", "vnni", "amx_int8", "dotprod", "i8mm", "fp16", "sve")
PROVIDERS = ("CPU", "CUDA", "Tensorrt", "OpenVINO", "XNNPACK")
DEVICE_COLUMNS = (
    *(*ARCHITECTURES, *FEATURES, *PROVIDERS),
    *("cores", "memory", "channel_block", "int8", "symmetric", "reduce_range", "float16"),
    *("bandwidth", "fp16_tflops", "int8_tops"),
    *("profiled", "macs_rate", "bytes_rate", "launch"),
)
"""Truth values, and logarithms to base 2 (of 1 and more: cores, GiB, GB/s, 10^12/s; of measured
rates: 10^9 multiply-adds/s, GB/s, and microseconds a kernel)."""
_SUFFIX = "ExecutionProvider"


def device_numbers(device: Device, folder: Path) -> tuple[float, ...]:
    """`DEVICE_COLUMNS` of a device.

    Args:
        device: Open.
        folder: The workspace's, where its cost tables are kept.
    """
    return tuple(_numbers(device, folder))


def _numbers(device: Device, folder: Path) -> Iterator[float]:
    facts, profile = device.facts, device.profile
    yield from (float(profile.architecture == each) for each in ARCHITECTURES)
    found = {*(facts.get("features") or ()), *profile.features}
    yield from (float(each in found) for each in FEATURES)
    provider = device.provider.provider.removesuffix(_SUFFIX)
    yield from (float(provider == each) for each in PROVIDERS)
    yield _log(float(facts.get("cores") or 0))
    yield _log(float(facts.get("memory_bytes") or profile.memory_bytes) / 2**30)
    yield _log(float(profile.channel_block))
    types = profile.quantization
    yield float(types is not None)
    yield float(types is not None and types.symmetric)
    yield float(types is not None and types.reduce_range)
    yield float(bool(profile.float16))
    yield _log(profile.bandwidth.peak_gb_per_s)
    units = [unit for unit in profile.accelerators if unit.provider == device.provider.provider]
    yield _log(max((unit.fp16_tflops for unit in units), default=0.0))
    yield _log(max((unit.int8_tops for unit in units), default=0.0))
    yield from _speeds(device, folder)


def _speeds(device: Device, folder: Path) -> Iterator[float]:
    lines = [table.roofline for table in tables_of(folder, device)]
    yield float(bool(lines))
    for rates in (
        [line.rate / 1e9 for line in lines],
        [line.bandwidth / 1e9 for line in lines],
        [line.launch_s * 1e6 for line in lines],
    ):
        known = [rate for rate in rates if math.isfinite(rate) and rate > 0]
        yield math.log2(float(np.median(known))) if known else 0.0


def _log(value: float) -> float:
    return math.log2(1.0 + max(value, 0.0))
