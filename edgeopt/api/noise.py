"""`edgeopt device calibrate`: which differences a device cannot show, from a model beside itself.

Every measurement opens the device anew: fresh connection, fresh agent, fresh processes. The true
ratio is 1, so what is found instead is noise; the floor is the 95th percentile of |ratio - 1|.
It is kept by the device's fingerprint, the protocol and the runtime settings: any other board,
power mode or runtime version is another device.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgeopt.api.device import Device, open_device
from edgeopt.api.prepare import FEEDS
from edgeopt.api.subject import Progress, open_model
from edgeopt.core import digest as digests
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.codec import decode, encode
from edgeopt.core.measurement import Failure
from edgeopt.core.model import Model
from edgeopt.core.written import write_whole
from edgeopt.errors import InconclusiveError, UsageError
from edgeopt.graph.inputs import random_feeds
from edgeopt.measure.feeds import write_feeds
from edgeopt.measure.plan import Protocol, protocol
from edgeopt.measure.runner import measure
from edgeopt.units import format_age, format_value

TIMES, LEAST = 20, 5
MODEL = "digits"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """What a device cannot tell apart.

    Args:
        floor: Differences of the latency below this share are not seen.
        times: Measurements that it was taken from.
        excluded: Of these, how many had an interval that excludes the true ratio 1.
        unusable: Measurements beside them that were invalid.
        model: Name of the model that ran beside itself.
        latency_s: Its median latency: shorter models are noisier, longer ones less.
        protocol: Rung.
        runtime: Settings, as text.
        fingerprint: Of the device.
        at: When, in seconds since 1970.
    """

    floor: float
    times: int
    excluded: int
    unusable: int
    model: str
    latency_s: float
    protocol: str
    runtime: str
    fingerprint: str
    at: float

    @property
    def text(self) -> str:
        """What a reader of a difference must know."""
        age = format_age(max(0.0, time.time() - self.at))
        return (
            f"{self.floor:.1%} ({self.times} times {self.model} beside itself, "
            f"{format_value(self.latency_s, 's')} a run, {self.protocol} protocol, {age} ago)"
        )


def noise_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the floors lie: the user's cache, since one command brings them back."""
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".cache"
    return Path(base) / "edgeopt" / "noise"


def known_floor(
    fingerprint: str, rung: str, runtime: str, folder: Path | None = None
) -> NoiseFloor | None:
    """The floor of a device under a protocol and settings; None where it was not calibrated."""
    try:
        path = _path(folder or noise_folder(), fingerprint, rung, runtime)
        found = decode(NoiseFloor, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
    return found if found.fingerprint == fingerprint else None


def keep_floor(found: NoiseFloor, folder: Path | None = None) -> None:
    """Keep a floor; the one before it is replaced.

    Raises:
        StorageError: It cannot be written.
    """
    path = _path(folder or noise_folder(), found.fingerprint, found.protocol, found.runtime)
    write_whole(
        path,
        json.dumps(encode(found)),
        what="the noise floor cannot be kept",
        hint="free space there, or set XDG_CACHE_HOME",
    )


def calibrate(
    device: str,
    progress: Progress,
    *,
    model: str = MODEL,
    times: int = TIMES,
    rung: str = "normal",
    settings_of: Callable[[Device], RuntimeSettings],
    folder: Path | None = None,
) -> NoiseFloor:
    """Measure a model beside itself on a device, again and again, and keep the floor.

    Args:
        device: By name.
        progress: Told each ratio.
        model: A file, or a name of the zoo.
        times: Usable measurements that are wanted.
        rung: Protocol by name.
        settings_of: What a session on the device is opened with.
        folder: Where the floor is kept; None is the user's cache.

    Raises:
        EdgeOptError: Model or device cannot be used.
        InconclusiveError: The model does not run there, or too much was disturbed.
    """
    if times < LEAST:
        raise UsageError(f"{times} measurements say nothing of noise", hint=f"at least {LEAST}")
    # Two builds of one engine differ: what cannot be told apart must hold that too.
    chosen = replace(protocol(rung), fresh_engines=True)
    name, opened, _ = open_model(model, progress)
    ratios: list[tuple[float, bool, float]] = []
    unusable, seen = 0, ("", "")
    with tempfile.TemporaryDirectory(prefix="edgeopt-calibrate-") as place:
        feeds = Path(place) / "feeds.npz"
        write_feeds(random_feeds(opened, FEEDS, shapes={}), feeds)
        while len(ratios) < times:
            with open_device(device, Path(place) / "agent") as door:
                runtime = settings_of(door)
                now = (door.fingerprint, runtime.text)
                if seen not in (("", ""), now):
                    raise InconclusiveError("the device changed meanwhile", where=device)
                seen, found = now, _once(door, opened, feeds, runtime, chosen)
            if found is None:
                unusable += 1
                progress(f"disturbed: measurement {len(ratios) + unusable} is not counted")
                if unusable > times:
                    raise InconclusiveError("more than half was disturbed", where=device)
                continue
            ratios.append(found)
            progress(f"{len(ratios)} of {times}: ratio {found[0]:.3f}")
    off = [abs(ratio - 1) for ratio, _, _ in ratios]
    result = NoiseFloor(
        floor=float(np.quantile(off, 0.95)),
        times=times,
        excluded=sum(outside for _, outside, _ in ratios),
        unusable=unusable,
        model=name,
        latency_s=float(np.median([latency for _, _, latency in ratios])),
        protocol=chosen.name,
        runtime=seen[1],
        fingerprint=seen[0],
        at=time.time(),
    )
    keep_floor(result, folder)
    return result


def _once(
    device: Device, model: Model, feeds: Path, settings: RuntimeSettings, rung: Protocol
) -> tuple[float, bool, float] | None:
    """Ratio, whether its interval excludes 1, and latency in s; None where it is invalid."""
    found = measure(
        device.target,
        baseline=model.path,
        candidate=model.path,
        feeds=feeds,
        settings=settings,
        baseline_settings=settings,
        protocol=rung,
        identical=True,
    )
    if isinstance(found, Failure):
        raise InconclusiveError(found.reason, where=f"{model.path.stem} on {device.name}")
    latency = found.values["latency"]
    if latency.samples is None or found.verdict.status == "invalid":
        return None
    ratio = latency.samples.ratio
    return ratio.value, not ratio.contains(1.0), latency.value


def _path(folder: Path, fingerprint: str, rung: str, runtime: str) -> Path:
    text = json.dumps([fingerprint, rung, runtime])
    return folder / f"{digests.short(digests.of_text(text))}.json"
