"""`Budget`, `Waiver` and `Gate`: what a project allows itself, as edgeopt.toml says it."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from edgeopt.gate.lines import Place, line_of

Kind = Literal["exact", "measured", "scored"]
Level = Literal["error", "warn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Something a budget can be set on.

    Args:
        name: In edgeopt.toml.
        unit: `s`, `B`, `J`, `1` for a share, or empty for a count.
        kind: `exact` from the file alone, `measured` on a device, `scored` on labelled data.
        higher: Whether more is better.
        title: For people.
    """

    name: str
    unit: str
    kind: Kind
    title: str
    higher: bool = False


METRICS = {
    metric.name: metric
    for metric in (
        Metric(name="size", unit="B", kind="exact", title="size of the file"),
        Metric(name="params", unit="", kind="exact", title="parameters"),
        Metric(name="ops", unit="", kind="exact", title="operators"),
        Metric(name="macs", unit="", kind="exact", title="multiply-adds"),
        Metric(name="static_peak_memory", unit="B", kind="exact", title="peak of activations"),
        Metric(name="unsupported_ops", unit="", kind="exact", title="unsupported operators"),
        Metric(name="latency.p50", unit="s", kind="measured", title="median latency"),
        Metric(name="latency.p90", unit="s", kind="measured", title="90th percentile of latency"),
        Metric(name="latency.p99", unit="s", kind="measured", title="99th percentile of latency"),
        Metric(name="energy", unit="J", kind="measured", title="energy of an inference"),
        Metric(name="peak_memory", unit="B", kind="measured", title="peak memory of the process"),
        Metric(name="load", unit="s", kind="measured", title="time to load"),
        Metric(name="accuracy", unit="1", kind="scored", title="accuracy", higher=True),
    )
}


PAIRED = "latency.p50"
"""The measured metric of which block beside block gives a change against the base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One limit.

    Args:
        id: Unique in the file; the metric's name, with the device where there is one, by default.
        metric: What is limited.
        device: On which device, by name; of `unsupported_ops` the profile's name. Empty for none.
        limit: Most (for accuracy least) that is allowed, SI; None where there is only `change`.
        change: How much worse than the base model is allowed, as a share of it (0.03 is 3 %; of
            accuracy in absolute points, 0.01 is one); None where there is only `limit`.
        tolerance: Share on top of a limit or a change before it is missed.
        level: `warn` never fails a run.
        hint: What the project tells who misses it.
        line: Of the budget in the file, from 1.
    """

    id: str
    metric: Metric
    device: str = ""
    limit: float | None = None
    change: float | None = None
    tolerance: float = 0.0
    level: Level = "error"
    hint: str = ""
    line: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """For how long a missed budget is accepted, up to which value, and why.

    Args:
        budget: Its id.
        ceiling: Most that is accepted meanwhile, SI; None accepts anything.
        until: Last day.
        reason: For who reads it later.
        line: In the file, from 1.
    """

    budget: str
    ceiling: float | None
    until: datetime.date
    reason: str
    line: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The `[gate]` table of a project.

    Args:
        path: Of edgeopt.toml; relative paths in it start from its folder.
        model: The model that is held to the budgets.
        data: Spec of labelled data; empty without.
        metric: Accuracy metric; empty is the data's own.
        protocol: Rung of measurements.
        lock: File of receipts.
        budgets: In the order of the file.
        waivers: In the order of the file.
        lines: Where in the file what stands.
    """

    path: Path
    model: Path
    data: str = ""
    metric: str = ""
    protocol: str = "normal"
    lock: Path
    budgets: tuple[Budget, ...]
    waivers: tuple[Waiver, ...] = ()
    lines: Mapping[Place, int] = field(default_factory=dict[Place, int])

    def place(self, key: str) -> str:
        """File and line of a key of the `[gate]` table."""
        return f"{self.path}:{line_of(self.lines, 'gate', key)}"

    def waiver_of(self, budget: Budget) -> Waiver | None:
        """The one that names the budget; the last one counts."""
        return next((w for w in reversed(self.waivers) if w.budget == budget.id), None)
