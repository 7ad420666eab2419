"""A study with a front, peers, failures and an infeasible candidate, from the values of core."""

from dataclasses import replace

import numpy as np

from edgeopt.core.action import Action, Recipe
from edgeopt.core.candidate import Candidate
from edgeopt.core.layers import SAME_DB, BuiltLayer, LayerTable
from edgeopt.core.lowered import Layer, Lowered, Precision
from edgeopt.core.measurement import Failure, Measurement, Value, Verdict
from edgeopt.core.objective import Objective
from edgeopt.core.samples import Interval, Samples
from edgeopt.core.study import Study
from edgeopt.core.trial import Trial
from edgeopt.report.document import ReportContext

BASELINE = "sha256:" + "b" * 64
GIVEN_S = 8e-3
OBJECTIVES = (
    Objective(metric="latency"),
    Objective(metric="size"),
    Objective(metric="accuracy", direction="max", bound=0.93),
)


def study(*, devices: tuple[str, ...] = ("local",), data: str = "sha256:" + "d" * 64) -> Study:
    return Study(
        model_name="ppocr-cls",
        baseline=BASELINE,
        data=data,
        metric="top1",
        objectives=OBJECTIVES,
        devices=devices,
        strategy="nsga2",
        seed=7,
    )


def samples(ratio: float, *, spread: float = 0.01, rounds: int = 3, seed: int = 0) -> Samples:
    """Blocks around ratio × the given model's 8 ms, beside the given model's own."""
    draw = np.random.default_rng(seed)
    count = 4 * rounds
    given = GIVEN_S * (1 + spread * draw.standard_normal((count, 5)))
    mine = ratio * GIVEN_S * (1 + spread * draw.standard_normal((count, 5)))
    return Samples(
        unit="s",
        blocks=tuple(tuple(row) for row in mine.tolist()),
        baseline=tuple(tuple(row) for row in given.tolist()),
        rounds=tuple(index // 4 for index in range(count)),
    )


def latency(taken: Samples) -> Value:
    ratio = taken.ratio
    return Value(
        value=GIVEN_S * ratio.value, unit="s", interval=ratio.scaled(GIVEN_S), samples=taken
    )


def measurement(
    ratio: float,
    size: float,
    accuracy: float | None,
    *,
    taken: Samples | None = None,
    verdict: Verdict | None = None,
    test: float | None = None,
    asked: int = 0,
) -> Measurement:
    values = {
        "latency": latency(taken or samples(ratio, seed=int(size))),
        "size": Value(value=size, unit="B"),
        "peak_memory": Value(value=2.5 * size, unit="B"),
    }
    if accuracy is not None:
        interval = Interval(value=accuracy, low=accuracy - 0.01, high=min(accuracy + 0.01, 1.0))
        values["accuracy"] = Value(value=accuracy, unit="1", interval=interval)
        held_out = accuracy - 0.002 if test is None else test
        values["accuracy_test"] = Value(value=held_out, unit="1")
    return Measurement(
        values=values,
        absent={"energy": "the device has no power sensor"},
        verdict=verdict or Verdict(),
        environment={"cpu": "test", "number": str(ratio)},
        lowered=Lowered(layers=(), asked=asked, ran=asked),
    )


def candidate(*sites: str, transform: str = "static_qdq") -> Candidate:
    actions = [Action.of(transform, site, activation="uint8") for site in sites]
    return Candidate(recipe=Recipe(baseline=BASELINE).then(*actions))


def trial(
    number: int,
    outcome: Measurement | Failure,
    *sites: str,
    label: str = "",
    strategy: str = "nsga2",
    device: str = "local",
) -> Trial:
    return Trial(
        number=number,
        candidate=candidate(*sites),
        device=device,
        protocol="normal",
        strategy=strategy,
        outcome=outcome,
        label=label,
        model_digest=f"sha256:{number:064x}",
        device_s=12.0,
        host_s=3.0,
    )


def trials(device: str = "local", first: int = 0) -> tuple[Trial, ...]:
    """Given, two peers, five of the search: two more on the front, one dominated, bad ones."""
    suspect = Verdict(status="suspect", reasons=("the clock moved by 12 %",))
    invalid = Verdict(status="invalid", reasons=("throttled from the second block on",))
    found = [
        trial(first, measurement(1.0, 1_200_000, 0.945), label="baseline", strategy="static"),
        trial(first + 1, measurement(0.7, 420_000, 0.936, asked=9), "a", label="static:int8",
              strategy="static"),
        trial(first + 2, measurement(0.5, 400_000, 0.61, asked=20), "a", "b", label="static:ort",
              strategy="static"),
        trial(first + 3, measurement(0.48, 380_000, 0.941, asked=14), "b", "c"),
        trial(first + 4, measurement(0.8, 330_000, 0.943, verdict=suspect, asked=3), "c"),
        trial(first + 5, measurement(0.85, 900_000, 0.935), "d"),
        trial(first + 6, measurement(0.3, 100_000, 0.99, verdict=invalid), "e"),
        trial(first + 7, Failure(stage="verify", reason="output 0 differs by 3.1"), "f"),
        trial(first + 8, Failure(stage="build", reason="no kernel"), "g", strategy="random"),
    ]  # fmt: skip
    return tuple(Trial(**{**_fields(each), "device": device}) for each in found)


def _fields(each: Trial) -> dict[str, object]:
    return {name: getattr(each, name) for name in Trial.__dataclass_fields__}


def context(**more: object) -> ReportContext:
    settings: dict[str, object] = {
        "models": {f"sha256:{3:064x}": "reports/x/c3.onnx"},
        "peer_labels": ("static:int8", "static:ort"),
        "allowed_drop": "1.5pt",
        "decidable_drop": 0.0081,
        "samples": {"calibration": 100, "search": 2000, "test": 1000},
        "flips": {3: (14, 6)},
        "command": "edgeopt run ppocr-cls --device local",
        "versions": {"edgeopt": "0.1.0", "onnxruntime": "1.22.0"},
        "created": "2025-01-31T12:00:00+00:00",
        "report": "reports/x/report.html",
    }
    return ReportContext(**{**settings, **more})  # type: ignore[arg-type]


SPEEDS = {
    "local": {"a": 0.7, "b": 0.48, "c": 0.8, "d": 0.85},
    "jetson": {"a": 0.4, "b": 0.9, "c": 0.42, "d": 1.3},
    "lab-arm64": {"a": 0.6, "b": 0.55, "c": 1.1, "d": 0.5},
}
"""Device to the time of each recipe (by site) over the given model's."""
FACTS = {
    "local": {"cpu": "x86", "profile": "x86-vnni"},
    "jetson": {"profile": "jetson-orin-nano", "energy_scope": "board"},
    "lab-arm64": {"profile": "generic-arm64", "time": "emulated"},
}
SIZES = {"a": 420_000, "b": 380_000, "c": 330_000, "d": 900_000}
_JOULES = 0.02


def device_trials(device: str, first: int, *, given_s: float = GIVEN_S) -> tuple[Trial, ...]:
    """The given model and four recipes on one device: its own speeds, facts, sensor and data."""
    speeds = SPEEDS.get(device, SPEEDS["local"])
    rows = [("", 1.0), *speeds.items()]
    return tuple(
        trial(
            first + index,
            _on(device, measurement(ratio, SIZES.get(site, 1_200_000), 0.945), given_s),
            *([site] if site else []),
            label="" if site else "baseline",
            device=device,
        )
        for index, (site, ratio) in enumerate(rows)
    )


def _on(device: str, found: Measurement, given_s: float) -> Measurement:
    """A measurement as that device makes it: energy with its scope where it has a sensor."""
    facts = FACTS.get(device, {})
    held = found.values["latency"]
    scale = given_s / GIVEN_S
    interval = None if held.interval is None else held.interval.scaled(scale)
    values = {**found.values, "latency": replace(held, value=held.value * scale, interval=interval)}
    if "energy_scope" in facts:
        joules = _JOULES * held.value / GIVEN_S
        values["energy"] = Value(value=joules, unit="J", note="board")
        values["deadline_misses"] = Value(value=0.01, unit="1")
        values["build"] = Value(value=41.0, unit="s")
    absent = {} if "energy_scope" in facts else found.absent
    host = {"agreement_with_host": "at most 0.031 (0.4 % of the range), mean 0.002 (64 samples)"}
    more = host if "time" in facts else {}
    return replace(found, values=values, absent=absent, environment={**facts, **more})


def three_devices() -> tuple[Trial, ...]:
    """One study on three devices that rank the same recipes otherwise."""
    return (
        *device_trials("local", 0),
        *device_trials("jetson", 10, given_s=3e-3),
        *device_trials("lab-arm64", 20, given_s=0.4),
    )


def layer_table(*, integers: bool = False) -> LayerTable:
    """Two convolutions with an activation between them, and the end in float."""
    asked = "int8" if integers else "float32"
    action = 'static_qdq@1 "b" activation="uint8"'
    snr = 38.2 if integers else SAME_DB
    return LayerTable(
        layers=(
            BuiltLayer(value="a", name="conv_a", operator="Conv", asked="float32", width=16,
                       shape=(1, 16, 24, 24), weight_bytes=1728, macs=248_832, snr_db=SAME_DB),
            BuiltLayer(value="a_relu", name="relu_a", operator="Relu", asked="float32", source=0,
                       shape=(1, 16, 24, 24), macs=0, snr_db=SAME_DB),
            BuiltLayer(value="b", name="conv_b", operator="Conv", asked=asked, width=32, source=1,
                       shape=(1, 32, 12, 12), weight_bytes=4608 if integers else 18_432,
                       macs=663_552, snr_db=snr, actions=(action,) if integers else ()),
            BuiltLayer(value="out", name="softmax", operator="Softmax", asked="float32", source=2,
                       shape=(1, 32), macs=0, snr_db=snr),
        ),
        snr_inputs=4,
    )  # fmt: skip


def lowered_layers(*, integers: bool = False) -> Lowered:
    """What a runtime made of `layer_table`: names of its own, one layer merged, one beside."""
    kernel = "com.microsoft:QLinearConv" if integers else "com.microsoft.nchwc:Conv"
    ran: Precision = "int8" if integers else "float32"
    cpu = "CPUExecutionProvider"
    return Lowered(
        layers=(
            Layer(name="a_relu_nchwc", operator="com.microsoft.nchwc:Conv", precision="float32",
                  provider=cpu, time_s=2e-3),
            Layer(name="ReorderOutput_token_3", operator="com.microsoft.nchwc:ReorderOutput",
                  precision="float32", provider=cpu, time_s=1e-4),
            Layer(name="conv_b_token_7", operator=kernel, precision=ran, provider=cpu,
                  time_s=1.5e-3 if integers else 4e-3),
            Layer(name="softmax", operator="Softmax", precision="float32", provider=cpu),
        ),
        asked=int(integers),
        ran=int(integers),
    )  # fmt: skip


def with_layers(found: tuple[Trial, ...]) -> tuple[tuple[Trial, ...], dict[str, LayerTable]]:
    """The trials with what ran in each, and the tables of their models by digest."""
    made: list[Trial] = []
    tables: dict[str, LayerTable] = {}
    for each in found:
        integers = bool(each.candidate.recipe.actions)
        tables[each.model_digest] = layer_table(integers=integers)
        if isinstance(each.outcome, Measurement):
            read = replace(each.outcome, lowered=lowered_layers(integers=integers))
            made.append(replace(each, outcome=read))
        else:
            made.append(each)
    return tuple(made), tables
