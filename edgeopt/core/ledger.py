"""`Ledger`: what a search has cost, by strategy; a view over the stored trials."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from edgeopt.core.measurement import Failure, Overhead
from edgeopt.core.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What one strategy has spent and what came of it."""

    strategy: str
    trials: int
    failures: int
    device_s: float
    host_s: float
    overhead: Overhead = field(default=Overhead())


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """One account a strategy, by name."""

    accounts: tuple[Account, ...]

    @staticmethod
    def over(trials: Iterable[Trial]) -> "Ledger":
        """The accounts of these trials."""
        counts: Counter[str] = Counter()
        failures: Counter[str] = Counter()
        device: dict[str, float] = {}
        host: dict[str, float] = {}
        overhead: dict[str, Overhead] = {}
        for trial in trials:
            name = trial.strategy
            counts[name] += 1
            failures[name] += isinstance(trial.outcome, Failure)
            device[name] = device.get(name, 0.0) + trial.device_s
            host[name] = host.get(name, 0.0) + trial.host_s
            overhead[name] = overhead.get(name, Overhead()) + trial.overhead
        return Ledger(
            accounts=tuple(
                Account(
                    strategy=name,
                    trials=counts[name],
                    failures=failures[name],
                    device_s=device[name],
                    host_s=host[name],
                    overhead=overhead[name],
                )
                for name in sorted(counts)
            )
        )
