"""`Front`: the non-dominated trials of one device on point estimates, ties marked.

a dominates b when it is no worse in every objective and better in one. Points, not intervals,
decide: an interval rule is not transitive, so a front built with it would depend on the order of
the trials. What noise leaves open is said beside the front: a member *ties* with another where
neither can be told from the other in latency.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgeopt.core.objective import Objective
from edgeopt.core.trial import Trial

Matrix = npt.NDArray[np.float64]


def dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether costs `a` are nowhere above `b` and somewhere below."""
    return all(x <= y for x, y in zip(a, b, strict=True)) and any(
        x < y for x, y in zip(a, b, strict=True)
    )


def non_dominated(costs: Matrix) -> npt.NDArray[np.bool_]:
    """Mask of the rows [n, objectives] that no other row dominates; equal rows all stay."""
    no_worse = (costs[:, None, :] <= costs[None, :, :]).all(axis=2)
    better = (costs[:, None, :] < costs[None, :, :]).any(axis=2)
    return np.logical_not(np.logical_and(no_worse, better).any(axis=0))


@dataclass(frozen=True, kw_only=True)
class Front:
    """The best trade-offs found on one device.

    Args:
        device: The device's name.
        objectives: Those that every member has a value for.
        members: Non-dominated feasible trials, by the first objective.
        dropped: Objectives that were left out, with the reason.
    """

    device: str
    objectives: tuple[Objective, ...]
    members: tuple[Trial, ...]
    dropped: tuple[tuple[str, str], ...] = ()

    def costs(self) -> Matrix:
        """[members, objectives], minimised."""
        return cost_matrix(self.members, self.objectives)

    def ties(self, trial: Trial) -> tuple[Trial, ...]:
        """Other members whose latency cannot be told from this one's."""
        mine = trial.value("latency")
        if mine is None or mine.interval is None:
            return ()
        found: list[Trial] = []
        for other in self.members:
            theirs = other.value("latency")
            if other.number == trial.number or theirs is None or theirs.interval is None:
                continue
            if (
                mine.interval.low <= theirs.interval.high
                and theirs.interval.low <= mine.interval.high
            ):
                found.append(other)
        return tuple(found)


def cost_matrix(trials: Sequence[Trial], objectives: Sequence[Objective]) -> Matrix:
    """Costs [trials, objectives]; infinity where a trial has no value."""
    rows = [[_or_inf(objective.cost(trial)) for objective in objectives] for trial in trials]
    return np.array(rows, dtype=np.float64).reshape(len(trials), len(objectives))


def _or_inf(cost: float | None) -> float:
    return float("inf") if cost is None else cost


def front_of(trials: Iterable[Trial], objectives: Sequence[Objective], device: str) -> Front:
    """The front of one device: the same for any order of the trials.

    Of several trials of one candidate the one under the strongest protocol counts, then the
    latest. An objective that no trial has a value for is dropped with a note. Of equal costs the
    shorter recipe stays.
    """
    mine = strongest(trial for trial in trials if trial.device == device)
    usable = [trial for trial in mine if trial.measurement is not None]
    kept = tuple(o for o in objectives if any(o.cost(trial) is not None for trial in usable))
    dropped = tuple((o.metric, _why_absent(o, mine)) for o in objectives if o not in kept)
    feasible = [t for t in usable if all(o.feasible(t) for o in kept)]
    if not feasible or not kept:
        return Front(device=device, objectives=kept, members=(), dropped=dropped)
    feasible.sort(key=lambda t: (len(t.candidate.recipe.actions), t.number))
    costs = cost_matrix(feasible, kept)
    _, first = np.unique(costs, axis=0, return_index=True)
    chosen = sorted(int(i) for i in first)
    mask = non_dominated(costs[chosen])
    members = [feasible[i] for i, keep in zip(chosen, mask, strict=True) if keep]
    members.sort(key=lambda t: (_or_inf(kept[0].cost(t)), t.number))
    return Front(device=device, objectives=kept, members=tuple(members), dropped=dropped)


_RUNGS = ("quick", "normal", "publish")


def strongest(trials: Iterable[Trial]) -> list[Trial]:
    """One trial a candidate: the strongest protocol, then the latest; ordered by number."""
    best: dict[str, Trial] = {}
    for trial in trials:
        held = best.get(trial.candidate.key)
        if held is None or _rank(trial) > _rank(held):
            best[trial.candidate.key] = trial
    return sorted(best.values(), key=lambda trial: trial.number)


def _rank(trial: Trial) -> tuple[int, int]:
    known = trial.protocol in _RUNGS
    return (_RUNGS.index(trial.protocol) if known else -1, trial.number)


def _why_absent(objective: Objective, trials: Iterable[Trial]) -> str:
    for trial in trials:
        if trial.measurement and objective.metric in trial.measurement.absent:
            return trial.measurement.absent[objective.metric]
    return "no trial has a value for it"
