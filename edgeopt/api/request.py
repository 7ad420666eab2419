"""`RunRequest`: everything that `edgeopt run` was asked, checked before anything is started."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgeopt.core.objective import DIRECTIONS, Objective
from edgeopt.errors import UsageError
from edgeopt.plugins import STRATEGIES
from edgeopt.units import Drop

FAMILIES = ("rewrite", "fuse", "prune", "quantize", "repair")
OBJECTIVES = ("latency", "energy", "accuracy", "size", "peak_memory")


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """A search, as asked for.

    Args:
        model: File or zoo name.
        device: Device names, separated by commas.
        data, metric: See `subject.open_subject`.
        budget_s: Wall time for searching and for confirming what was found.
        trials: At most so many candidates; None is as many as the time holds.
        strategy: Runs after `static`, which always comes first; empty is the best one installed.
        policy: Weights of `edgeopt train`, for a strategy that takes them.
        families: Which actions may be used.
        objectives: Metric names; accuracy is left out where there is no data.
        max_drop: How much accuracy may be lost.
        max_latency_s, max_size_bytes: Bounds of the front.
        threads: Of the runtime, for the given model and what is tried first.
        tune: Whether runtime settings (threads, spinning, processors, provider options) are
            searched as well.
        rate_hz: Inferences a second that the user needs; None measures no paced latency.
        wait_s: How long to wait for an idle device before each measurement.
        contrib: Whether the built models may use operators of `com.microsoft`.
        shapes: Input name to shape, for models with free axes and without data.
        freeze: Input name to the only shape that the built models need to take (None: stays
            free); of an input that is one number, the value that it always has. Empty keeps
            what the given model takes.
        drop_outputs: Names of outputs that the built models need not have.
        seed: Of data splitting and search.
        fresh: Forget earlier trials of the same study.
        out: Folder for the report; None is `reports/<study>`.
        store: Workspace folder; None is `.edgeopt`.
    """

    model: str
    device: str = "local"
    data: str | None = None
    metric: str | None = None
    budget_s: float = 1200.0
    trials: int | None = None
    strategy: str = ""
    policy: Path | None = None
    families: tuple[str, ...] = FAMILIES
    objectives: tuple[str, ...] = OBJECTIVES
    max_drop: Drop = field(default_factory=lambda: Drop(0.01, "points"))
    max_latency_s: float | None = None
    max_size_bytes: int | None = None
    threads: int = 1
    tune: bool = False
    rate_hz: float | None = None
    wait_s: float = 0.0
    contrib: bool = True
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    freeze: Mapping[str, tuple[int | float | None, ...]] = field(
        default_factory=dict[str, tuple[int | float | None, ...]]
    )
    drop_outputs: tuple[str, ...] = ()
    seed: int = 0
    fresh: bool = False
    out: Path | None = None
    store: Path | None = None

    @property
    def devices(self) -> tuple[str, ...]:
        """The device names, each once."""
        names = (name.strip() for name in self.device.split(","))
        return tuple(dict.fromkeys(name for name in names if name))

    def checked(self) -> "RunRequest":
        """The same request, after every name and number was found usable.

        Raises:
            UsageError: Which one is not, and what would be.
        """
        chosen = self.strategy or best_installed()
        factory = STRATEGIES.load(chosen)
        if self.policy is not None:
            _usable(self.policy, chosen, factory)
        _known("action family", self.families, FAMILIES)
        _known("objective", self.objectives, tuple(DIRECTIONS))
        if not self.devices:
            raise UsageError(
                "no device was named", hint="write --device local, or see `edgeopt device list`"
            )
        if not self.objectives:
            raise UsageError("there is nothing to optimise", hint="give --objectives latency,size")
        if self.trials is not None and self.trials < 1:
            raise UsageError("--trials must be at least 1", hint="the given model is the first one")
        if self.budget_s <= 0:
            raise UsageError("--budget must be more than nothing", hint="write --budget 20m")
        # In one order: the same question from the command line and from Python is one study.
        families = tuple(name for name in FAMILIES if name in self.families)
        dropped = tuple(sorted(set(self.drop_outputs)))
        return replace(self, strategy=chosen, families=families, drop_outputs=dropped)

    def objectives_for(self, metric: str, baseline_accuracy: float | None) -> tuple[Objective, ...]:
        """The objectives with their bounds; the accuracy one under the metric's own name."""
        found: list[Objective] = []
        bounds = {"latency": self.max_latency_s, "size": self.max_size_bytes}
        name = "agreement" if metric == "agreement" else "accuracy"
        for objective in dict.fromkeys(self.objectives):
            if objective in {"accuracy", "agreement"}:
                if baseline_accuracy is not None:
                    floor = self.max_drop.floor(baseline_accuracy)
                    found.append(Objective(metric=name, direction="max", bound=floor))
                continue
            bound = bounds.get(objective)
            found.append(
                Objective(
                    metric=objective,
                    direction=DIRECTIONS[objective],
                    bound=None if bound is None else float(bound),
                )
            )
        return tuple(found)


def _usable(policy: Path, strategy: str, factory: Callable[..., Any]) -> None:
    """The strategy takes weights, and the file holds some.

    Raises:
        UsageError: It does not.
    """
    if "policy" not in inspect.signature(factory).parameters:
        raise UsageError(
            f"the strategy {strategy} takes no policy",
            hint="--policy goes with --strategy portfolio, rl or rl_group",
        )
    from edgeopt.search.policy.weights import load

    load(policy)


def best_installed() -> str:
    """`portfolio`, which does without what is not installed (decision 0007)."""
    return "portfolio"


def _known(kind: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise UsageError(f"there is no {kind} {name!r}", hint=f"known: {', '.join(known)}")
