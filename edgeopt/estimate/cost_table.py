"""`CostTable`: what operators take on one device, from the profiles of whole models there.

A table answers how long a graph would take that was never run on the device: the sum of its
operators, each by its own profiled time, or by the roofline where it was never seen. That is an
estimate and never a result: kernels of one run share caches, profiling costs time itself, and the
operators are those that this machine's runtime makes. How far off it is, is measured: every model
that was profiled is estimated from the others' profiles (`agreement`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from edgeopt.core.ranks import rank_correlation
from edgeopt.core.written import write_whole
from edgeopt.estimate.operators import Operator
from edgeopt.estimate.roofline import Roofline

FORMAT = 1
KEPT = 200
"""Profiles of one device: the latest. A table of 200 models of 300 operators is about 1 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """One model's profile on the device.

    Args:
        model: Digest of the file.
        latency_s: The whole model's time, measured beside the profile and without profiling.
        operators: Key and seconds of each executed operator, in order.
    """

    model: str
    latency_s: float
    operators: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """The estimated time of a model.

    Args:
        seconds: Of one run.
        profiled: Share of it that is of operators that were profiled on the device.
        operators: How many the model executes.
        unseen: How many of them the roofline answered for.
    """

    seconds: float
    profiled: float
    operators: int
    unseen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Estimates against whole-model measurements, each model estimated without its own profile.

    Args:
        models: How many.
        rank_correlation: Spearman's; None for fewer than three models.
        error: Median of |estimated / measured - 1|.
        worst: The largest.
        profiled: Median share of the estimate that other models' profiles knew.
    """

    models: int
    rank_correlation: float | None
    error: float
    worst: float
    profiled: float


@dataclass(frozen=True, kw_only=True)
class CostTable:
    """The table of one device under one setting of the runtime.

    Args:
        device: Its name.
        runtime: Runtime version and settings, in words; tables of others do not mix with it.
        optimization: The runtime's level, which decides what operators there are.
        profiles: What was profiled, oldest first.
    """

    device: str
    runtime: str
    optimization: str = "all"
    profiles: tuple[Profiled, ...] = ()

    def learned(self, profiled: Profiled) -> "CostTable":
        """The table with one more profile; it takes the place of an older one of the same file."""
        kept = [old for old in self.profiles if old.model != profiled.model]
        return replace(self, profiles=(*kept, profiled)[-KEPT:])

    def without(self, models: Iterable[str]) -> "CostTable":
        """The table as if these models had never been profiled."""
        left = frozenset(models)
        return replace(self, profiles=tuple(p for p in self.profiles if p.model not in left))

    @cached_property
    def costs(self) -> Mapping[str, float]:
        """Key of an operator to seconds: the median over the profiles that have it."""
        found: dict[str, list[float]] = {}
        for profile in self.profiles:
            for key, seconds in profile.operators:
                found.setdefault(key, []).append(seconds)
        return {key: float(np.median(times)) for key, times in found.items()}

    @cached_property
    def roofline(self) -> Roofline:
        """Fitted from the table.

        Raises:
            ValueError: The table is empty.
        """
        return Roofline.fitted([(Operator.parse(key), t) for key, t in self.costs.items()])

    @cached_property
    def overhead(self) -> float:
        """Time of a whole model over the sum of its operators' profiled times: the median."""
        ratios = [p.latency_s / sum(t for _, t in p.operators) for p in self.profiles if _told(p)]
        return float(np.median(ratios)) if ratios else 1.0

    def estimate(self, operators: Sequence[Operator]) -> Estimated:
        """How long a model of these operators would take.

        Raises:
            ValueError: The table is empty.
        """
        seen = [self.costs.get(operator.key) for operator in operators]
        known = sum(seconds for seconds in seen if seconds is not None)
        guessed = sum(
            self.roofline.seconds(operator)
            for operator, seconds in zip(operators, seen, strict=True)
            if seconds is None
        )
        total = known + guessed
        return Estimated(
            seconds=total * self.overhead,
            profiled=known / total if total else 0.0,
            operators=len(operators),
            unseen=sum(seconds is None for seconds in seen),
        )

    def agreement(self, groups: Mapping[str, str] | None = None) -> Agreement | None:
        """Every profiled model estimated without its own profile; None for fewer than two.

        Args:
            groups: Model digest to a name; models of one name are left out together.
        """
        names = {p.model: (groups or {}).get(p.model, p.model) for p in self.profiles}
        told: list[tuple[float, float, float]] = []
        for name in dict.fromkeys(names.values()):
            mine = [p for p in self.profiles if names[p.model] == name and _told(p)]
            others = self.without(p.model for p in self.profiles if names[p.model] == name)
            if not others.profiles:
                continue
            for profile in mine:
                made = others.estimate([Operator.parse(key) for key, _ in profile.operators])
                told.append((made.seconds, profile.latency_s, made.profiled))
        if len(told) < 2:
            return None
        estimated, measured, profiled = (np.array(side) for side in zip(*told, strict=True))
        errors = np.abs(estimated / measured - 1)
        return Agreement(
            models=len(told),
            rank_correlation=rank_correlation(estimated, measured),
            error=float(np.median(errors)),
            worst=float(errors.max()),
            profiled=float(np.median(profiled)),
        )

    def write(self, path: Path) -> None:
        """Keep the table.

        Raises:
            StorageError: The file cannot be written.
        """
        keys = {key: index for index, key in enumerate(self.costs)}
        profiles = [
            {
                "model": p.model,
                "latency_s": p.latency_s,
                "operators": [[keys[key], round(seconds, 9)] for key, seconds in p.operators],
            }
            for p in self.profiles
        ]
        document = {"format": FORMAT, "device": self.device, "runtime": self.runtime}
        document |= {"optimization": self.optimization, "keys": list(keys), "profiles": profiles}
        text = json.dumps(document, separators=(",", ":"))
        write_whole(path, text, what="the operator costs cannot be kept", hint="free disk space")

    @staticmethod
    def read(path: Path) -> "CostTable | None":
        """A kept table; None where there is none that this version can read."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document["format"] != FORMAT:
                return None
            keys = document["keys"]
            for key in keys:
                Operator.parse(key)
            profiles = tuple(
                Profiled(
                    model=str(row["model"]),
                    latency_s=float(row["latency_s"]),
                    operators=tuple((str(keys[i]), float(t)) for i, t in row["operators"]),
                )
                for row in document["profiles"]
            )
            return CostTable(
                device=str(document["device"]),
                runtime=str(document["runtime"]),
                optimization=str(document["optimization"]),
                profiles=profiles,
            )
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return None


def _told(profile: Profiled) -> bool:
    """Whether there is something to compare: a latency, and operators that took time."""
    return profile.latency_s > 0 and sum(seconds for _, seconds in profile.operators) > 0
