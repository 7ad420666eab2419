"""A study of any size, as a search leaves it: for the size of the page and for a browser.

Run as a script it writes the page: python tests/report/large_report.py report.html
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from report_factory import OBJECTIVES, context, latency, samples, study, trial

from edgeopt.core.layers import BuiltLayer, LayerTable
from edgeopt.core.lowered import Layer, Lowered
from edgeopt.core.measurement import Failure, Measurement, Value
from edgeopt.core.objective import Objective
from edgeopt.core.samples import Interval, Samples
from edgeopt.core.trial import Trial
from edgeopt.report.document import document, tabled

DEVICES = ("jetson", "pi5", "local")
_PROBES = ("noise", "blur", "scale")
_LAYERS = 120
_FAILED = 0.06
_PEERS = ("static:int8", "static:ort")


def large_study(devices: Sequence[str] = DEVICES, candidates: int = 500) -> dict[str, object]:
    """The document of a study with that many candidates on each device, layers and probes too."""
    asked = replace(study(devices=tuple(devices)), objectives=_objectives())
    found: list[Trial] = []
    for place, device in enumerate(devices):
        found += _trials(device, place, candidates, first=place * candidates)
    known = context(flips={}, peer_labels=_PEERS, models={}, objectives=_objectives())
    shown = tabled(asked, found, known)  # of 1500 candidates a report shows the layers of some
    built = {t.model_digest: _table(t.number % candidates) for t in shown}
    return document(asked, found, replace(known, layer_tables=built))


def _objectives() -> tuple[Objective, ...]:
    return (*OBJECTIVES, Objective(metric="peak_memory"))


def _trials(device: str, place: int, count: int, *, first: int) -> list[Trial]:
    draw = np.random.default_rng(place)
    # Few raw samples, many candidates: what takes time to draw is not what is looked at here.
    taken = [samples(ratio, spread=0.04, seed=i) for i, ratio in enumerate(_ratios(draw, 40))]
    found = [trial(first, _measured(draw, samples(1.0), 0.0), label="baseline", device=device)]
    for number in range(1, count):
        depth = number / count
        sites = [f"/features/block{number % 7}/conv{k}" for k in range(1 + number % 4)]
        outcome: Measurement | Failure
        if draw.random() < _FAILED and number > len(_PEERS):
            outcome = Failure(stage="verify", reason="output 0 differs by 3.1 where 0.1 is allowed")
        else:
            outcome = _measured(draw, taken[int(draw.integers(len(taken)))], depth)
        peer = number <= len(_PEERS)
        label = _PEERS[number - 1] if peer else ""
        strategy = "static" if peer else "nsga2" if number % 3 else "random"
        made = trial(first + number, outcome, *sites, str(number), label=label, device=device)
        found.append(replace(made, strategy=strategy))
    return found


def _ratios(draw: np.random.Generator, count: int) -> list[float]:
    return [float(r) for r in np.exp(draw.normal(-0.35, 0.4, count))]


def _measured(draw: np.random.Generator, taken: Samples, depth: float) -> Measurement:
    speed = latency(taken)
    size = 1_200_000 * float(np.exp(-1.3 * depth + 0.2 * draw.standard_normal() * (depth > 0)))
    lost = 0.02 * float(draw.exponential()) * depth - 0.004 * depth
    accuracy = min(0.999, 0.945 - lost)
    values = {
        "latency": speed,
        "size": Value(value=float(int(size)), unit="B"),
        "peak_memory": Value(value=float(int(size * 2.2 + 4e6)), unit="B"),
        "accuracy": _share(accuracy),
        "accuracy_test": _share(accuracy - 0.002),
        "load": Value(value=0.01 + size / 1e9, unit="s"),
        "first_run": Value(value=1.4 * speed.value, unit="s"),
        **{f"accuracy@{name}": _share(accuracy - 0.04) for name in _PROBES},
    }
    lowered = Lowered(layers=_ran(), asked=12, ran=9)
    facts = {"repeated": "1"} if depth > 0.5 else {}
    return Measurement(values=values, environment=facts, lowered=lowered)


def _share(value: float) -> Value:
    interval = Interval(value=value, low=value - 0.01, high=min(1.0, value + 0.01))
    return Value(value=value, unit="1", interval=interval, note="1872 samples, 3 lost, 2 won")


def _table(seed: int) -> LayerTable:
    """Convolutions with their activations; what was quantized depends on the candidate."""
    layers: list[BuiltLayer] = []
    for place in range(_LAYERS):
        weighted = place % 2 == 0
        integer = weighted and seed > 0 and (place // 2 + seed) % 3 == 0
        name = f"/features/block{place // 12}/{'conv' if weighted else 'act'}{place % 12}"
        layers.append(
            BuiltLayer(
                value=f"{name}_output_0",
                name=name,
                operator="Conv" if weighted else "Relu",
                asked="int8" if integer else "float32",
                shape=(1, 64 + place, 28, 28),
                width=64 + place if weighted else None,
                weight_bytes=9216 // (4 if integer else 1) if weighted else 0,
                macs=1_000_000 + 997 * place if weighted else None,
                source=None if place == 0 else place - 1,
                snr_db=None if seed == 0 else 41.0 - place / 10,
                actions=(f'static_qdq@1 "{name}" activation="uint8"',) if integer else (),
            )
        )
    return LayerTable(layers=tuple(layers), absent={} if seed else {"snr_db": "the given model"})


def _ran() -> tuple[Layer, ...]:
    return tuple(
        Layer(
            name=f"/features/block{place // 12}/conv{place % 12}",
            operator="QLinearConv",
            precision="int8",
            provider="CPUExecutionProvider",
            time_s=2e-5,
        )
        for place in range(0, _LAYERS, 2)
    )


if __name__ == "__main__":
    from edgeopt.report.page import page

    text = page(large_study())
    Path(sys.argv[1]).write_text(text, encoding="utf-8")
    print(f"{len(text.encode()):,} bytes for {len(DEVICES)} devices and 500 candidates on each")
