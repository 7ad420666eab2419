"""Replies of `energy` as values: a sensor model over a known power, with the true joules."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Power = Callable[[Floats], Floats]
RUNS = 100


@dataclass(frozen=True, kw_only=True)
class Model:
    """A sensor: rails with their shares and steps, how often it is read, how wrong its scale is."""

    name: str = "ina3221_hwmon"
    scope: str = "module"
    kind: str = "power"
    shares: Mapping[str, float] = field(default_factory=lambda: {"VDD_IN": 1.0})
    steps: Mapping[str, float] = field(default_factory=lambda: {"VDD_IN": 0.04})
    stated: bool = True
    hz: float = 20.0
    gain: float | None = 0.01
    range_j: float = 1000.0


def windows(blocks: int, idle_s: float, window_s: float) -> list[dict[str, Any]]:
    """Idle, busy, idle, ... from 1 s on."""
    at, found = 1.0, []
    idle = [at, at + idle_s]
    for _ in range(blocks):
        busy = [idle[1] + 0.05, idle[1] + 0.05 + window_s]
        after = [busy[1] + 0.2, busy[1] + 0.2 + idle_s]
        found.append({"idle_before": idle, "busy": busy, "idle_after": after, "runs": RUNS})
        idle = after
    return found


def load(blocks: list[dict[str, Any]], idle_w: float, busy_w: float, ripple: float = 0.0) -> Power:
    """Power that steps up while the model runs, with a ripple of its own."""

    def watts(t: Floats) -> Floats:
        busy = np.zeros(len(t), dtype=bool)
        for block in blocks:
            busy |= (t >= block["busy"][0]) & (t < block["busy"][1])
        return np.where(busy, busy_w * (1 + ripple * np.sin(2 * np.pi * 1.7 * t)), idle_w)

    return watts


def true_j(power: Power, window: list[float]) -> float:
    """The integral, on a fine grid."""
    edges = np.linspace(window[0], window[1], 20001)
    middles = (edges[1:] + edges[:-1]) / 2
    return float(power(middles).mean() * (window[1] - window[0]))


def reply(
    power: Power,
    blocks: list[dict[str, Any]],
    model: Model | None = None,
    *,
    seed: int = 0,
    noise_w: float = 0.0,
) -> dict[str, Any]:
    """What the agent would send: jittered instants, rounding, a scale that is off."""
    model = model or Model()
    random = np.random.default_rng(seed)
    end = blocks[-1]["idle_after"][1] + 0.1
    times = np.arange(0.0, end, 1 / model.hz)
    times = np.sort(times + random.uniform(-0.25, 0.25, len(times)) / model.hz)
    scale = 1 + random.uniform(-1, 1) * (model.gain or 0.0)
    rows: list[Floats] = []
    for label, share in model.shares.items():
        step = model.steps[label]
        if model.kind == "counter":
            fine = np.linspace(times[0], times[-1], 200001)
            held = np.concatenate([[0.0], np.cumsum(power(fine[:-1]) * np.diff(fine))])
            seen = share * np.interp(times, fine, held) * scale + model.range_j - 5.0
            rows.append(np.floor(seen / step) * step % model.range_j)
        else:
            seen = share * power(times) * scale + random.normal(0, noise_w, len(times))
            rows.append(np.round(seen / step) * step)
    labels = list(model.shares)
    return {
        "sensor": {
            "name": model.name,
            "scope": model.scope,
            "kind": model.kind,
            "labels": labels,
            "total": labels,
            "resolution": {k: model.steps[k] if model.stated else None for k in labels},
            "ranges_j": dict.fromkeys(labels, model.range_j) if model.kind == "counter" else {},
            "max_hz": 1000.0,
            "gain": model.gain,
            "note": "",
        },
        "sampling_hz": model.hz,
        "samples": {
            "labels": labels,
            "t_s": times.tolist(),
            "values": np.array(rows).T.tolist(),
            "events": [],
        },
        "blocks": blocks,
    }
