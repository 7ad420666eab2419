"""One study on several devices: how alike they rank models, and what one model for all costs.

A model is a recipe: the same file, with whatever runtime settings are fastest on each device.
Everything here was measured on the device it is said of. What was not measured is absent with a
reason; how far one device foretells another is `core.transfer`'s.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgeopt.core.front import strongest
from edgeopt.core.measurement import Failure
from edgeopt.core.objective import Objective
from edgeopt.core.samples import Interval
from edgeopt.core.transfer import rank_correlation
from edgeopt.core.trial import Trial

FEWEST = 3
"""Models in common below which no rank correlation is told."""
Bounds = Mapping[str, Sequence[Objective]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One recipe on the devices of a study.

    Args:
        recipe: Its digest.
        measured: Device to the fastest usable trial of it, feasible ones first.
        missing: Device to the reason why it has no usable measurement there.
        infeasible: Device to the bounds that it breaks there, or lacks a value for.
    """

    recipe: str
    measured: Mapping[str, Trial]
    missing: Mapping[str, str]
    infeasible: Mapping[str, tuple[str, ...]]

    @property
    def trial(self) -> Trial | None:
        """Any trial of it, for its recipe and label: the first that was measured."""
        return min(self.measured.values(), key=lambda trial: trial.number, default=None)

    def usable(self, device: str) -> Trial | None:
        """Its trial on a device, where it was measured and keeps the bounds."""
        return None if device in self.infeasible else self.measured.get(device)

    def why_not(self, device: str) -> str:
        """Why it cannot be used on a device; empty where it can."""
        if device in self.missing:
            return self.missing[device]
        broken = self.infeasible.get(device, ())
        return f"breaks a bound there ({', '.join(broken)})" if broken else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """How alike two devices rank the models that both have run, by latency.

    Args:
        devices: The two.
        value: Spearman's rank correlation; None where too little is known.
        count: Models in common.
        reason: Why there is no value.
    """

    devices: tuple[str, str]
    value: float | None
    count: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """What one device's pick costs on another: extra latency against that device's own pick.

    Args:
        pick_of: Whose pick is used.
        used_on: Where.
        value: Share of latency: 0.12 is 12 % slower; negative where the own pick gave speed
            away for something else. None where it is not known.
        interval: From the ends of the two latencies' intervals, on the safe side.
        reason: Why there is no value.
    """

    pick_of: str
    used_on: str
    value: float | None
    interval: Interval | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Robust:
    """One model for all devices, and what it costs on each.

    Args:
        model: The model.
        price: By device, against the device's own pick.
        worst: The largest price, a share.
        mean: Of the prices.
    """

    model: Model
    price: Mapping[str, Regret]
    worst: float
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustPicks:
    """The models that cost least where one must serve all.

    Args:
        minimax: Smallest worst price; None where no model can serve all devices.
        mean: Smallest mean price.
        considered: Number of models that can serve all devices.
        excluded: Models that were measured somewhere and cannot serve all, with the reason.
    """

    minimax: Robust | None
    mean: Robust | None
    considered: int
    excluded: tuple[tuple[Model, str], ...]


def models(trials: Iterable[Trial], devices: Sequence[str], bounds: Bounds) -> tuple[Model, ...]:
    """Every recipe of a study with what became of it on each device, in the order of the trials.

    Args:
        trials: Of all devices, in any order.
        devices: Which of them.
        bounds: Device to objectives with their bounds. An objective that no trial of a device
            has a value for does not bind there.
    """
    held: dict[str, dict[str, list[Trial]]] = {}
    every = list(trials)
    for device in devices:
        for trial in strongest(each for each in every if each.device == device):
            held.setdefault(trial.candidate.recipe.digest, {}).setdefault(device, []).append(trial)
    first = {recipe: min(t.number for ts in by.values() for t in ts) for recipe, by in held.items()}
    binding = {device: _binding(every, device, bounds.get(device, ())) for device in devices}
    ordered = sorted(held, key=lambda recipe: (first[recipe], recipe))
    return tuple(_model(recipe, held[recipe], devices, binding) for recipe in ordered)


def _binding(
    trials: Sequence[Trial], device: str, objectives: Sequence[Objective]
) -> tuple[Objective, ...]:
    mine = [trial for trial in trials if trial.device == device]
    return tuple(o for o in objectives if any(o.cost(trial) is not None for trial in mine))


def _model(
    recipe: str, by_device: Mapping[str, Sequence[Trial]], devices: Sequence[str], bounds: Bounds
) -> Model:
    measured: dict[str, Trial] = {}
    missing: dict[str, str] = {}
    infeasible: dict[str, tuple[str, ...]] = {}
    for device in devices:
        tried = by_device.get(device, ())
        known = [trial for trial in tried if trial.value("latency") is not None]
        if not known:
            missing[device] = _why_missing(tried)
            continue
        ranked = [(len(_broken(t, bounds[device])) > 0, latency_s(t), t.number, t) for t in known]
        best = min(ranked, key=lambda entry: entry[:3])[3]
        measured[device] = best
        if broken := _broken(best, bounds[device]):
            infeasible[device] = broken
    return Model(recipe=recipe, measured=measured, missing=missing, infeasible=infeasible)


def _broken(trial: Trial, objectives: Sequence[Objective]) -> tuple[str, ...]:
    return tuple(each.metric for each in objectives if not each.feasible(trial))


def _why_missing(tried: Sequence[Trial]) -> str:
    if not tried:
        return "not measured there"
    outcome = tried[-1].outcome
    if isinstance(outcome, Failure):
        return f"failed there in {outcome.stage}: {outcome.reason}"
    if outcome.verdict.status == "invalid":
        return f"its measurement there is invalid: {'; '.join(outcome.verdict.reasons)}"
    return outcome.absent.get("latency", "it has no latency there")


def latency_s(trial: Trial) -> float:
    """Latency in seconds; infinity where the trial has none."""
    found = trial.value("latency")
    return float("inf") if found is None else found.value


def correlations(found: Sequence[Model], devices: Sequence[str]) -> tuple[Correlation, ...]:
    """Spearman's rank correlation of latency between each two devices, over common models.

    Models that break a bound count too: they were measured, and ranks are about speed.
    """
    pairs = [(a, b) for index, a in enumerate(devices) for b in devices[index + 1 :]]
    return tuple(_correlation(found, pair) for pair in pairs)


def _correlation(found: Sequence[Model], pair: tuple[str, str]) -> Correlation:
    common = [m for m in found if all(device in m.measured for device in pair)]
    if len(common) < FEWEST:
        reason = f"fewer than {FEWEST} models were measured on both"
        return Correlation(devices=pair, value=None, count=len(common), reason=reason)
    x, y = (np.array([latency_s(m.measured[device]) for m in common]) for device in pair)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        reason = "all models take the same time on one of the two"
        return Correlation(devices=pair, value=None, count=len(common), reason=reason)
    return Correlation(devices=pair, value=rank_correlation(x, y), count=len(common))


def fastest(found: Sequence[Model], device: str) -> Trial | None:
    """The fastest trial within the bounds of a device; of equals the shorter recipe."""
    usable = [trial for model in found if (trial := model.usable(device)) is not None]
    return min(
        usable,
        key=lambda t: (latency_s(t), len(t.candidate.recipe.actions), t.number),
        default=None,
    )


def regrets(
    found: Sequence[Model], picks: Mapping[str, Trial | None], devices: Sequence[str]
) -> tuple[Regret, ...]:
    """Each device's pick used on each device, row by row.

    Args:
        found: From `models`.
        picks: Device to its own pick; None where it has none.
        devices: In the order of the rows.
    """
    by_recipe = {model.recipe: model for model in found}
    return tuple(
        _of_pick(a, b, picks.get(a), picks.get(b), by_recipe) for a in devices for b in devices
    )


def _of_pick(
    pick_of: str,
    used_on: str,
    pick: Trial | None,
    own: Trial | None,
    by_recipe: Mapping[str, Model],
) -> Regret:
    for device, trial in ((pick_of, pick), (used_on, own)):
        if trial is None:
            reason = f"{device} has no pick"
            return Regret(pick_of=pick_of, used_on=used_on, value=None, reason=reason)
    if pick is None or own is None or pick_of == used_on:
        return Regret(pick_of=pick_of, used_on=used_on, value=0.0)
    model = by_recipe.get(pick.candidate.recipe.digest)
    return regret(model, used_on, own, pick_of=pick_of)


def regret(model: Model | None, used_on: str, own: Trial, *, pick_of: str = "") -> Regret:
    """What a model costs on a device against the device's own pick.

    Args:
        model: None where no trial of it is known.
        used_on: The device.
        own: The device's own pick.
        pick_of: Whose pick the model is.
    """
    why = "not measured there" if model is None else model.why_not(used_on)
    used = None if model is None else model.usable(used_on)
    if used is None:
        return Regret(pick_of=pick_of, used_on=used_on, value=None, reason=why)
    if used.candidate.recipe.digest == own.candidate.recipe.digest:
        return Regret(pick_of=pick_of, used_on=used_on, value=0.0)
    share = latency_s(used) / latency_s(own) - 1
    return Regret(
        pick_of=pick_of, used_on=used_on, value=share, interval=_interval(used, own, share)
    )


def _interval(used: Trial, own: Trial, share: float) -> Interval | None:
    mine, theirs = used.value("latency"), own.value("latency")
    ends = [None if each is None else each.interval for each in (mine, theirs)]
    if ends[0] is None or ends[1] is None or ends[1].low <= 0:
        return None
    low, high = ends[0].low / ends[1].high - 1, ends[0].high / ends[1].low - 1
    return Interval(value=share, low=low, high=high)


def robust(
    found: Sequence[Model], picks: Mapping[str, Trial | None], devices: Sequence[str]
) -> RobustPicks:
    """The models that cost least where one must serve all devices.

    Candidates are the models that were measured within the bounds on every device. Of equals
    the one with the better other figure is taken, then the shorter recipe.

    Args:
        found: From `models`.
        picks: Device to its own pick; a device without one excludes every model.
        devices: All that must be served.
    """
    able: list[Robust] = []
    excluded: list[tuple[Model, str]] = []
    for model in found:
        priced = _price(model, picks, devices)
        if isinstance(priced, Robust):
            able.append(priced)
        elif model.measured:
            excluded.append((model, priced))
    return RobustPicks(
        minimax=min(able, key=lambda r: (r.worst, r.mean, *_order(r.model)), default=None),
        mean=min(able, key=lambda r: (r.mean, r.worst, *_order(r.model)), default=None),
        considered=len(able),
        excluded=tuple(excluded),
    )


def _price(model: Model, picks: Mapping[str, Trial | None], devices: Sequence[str]) -> Robust | str:
    price: dict[str, Regret] = {}
    for device in devices:
        own = picks.get(device)
        if own is None:
            return f"{device} has no pick to compare with"
        price[device] = regret(model, device, own)
        if price[device].value is None:
            return f"{device}: {price[device].reason}"
    values = [each.value for each in price.values() if each.value is not None]
    return Robust(model=model, price=price, worst=max(values), mean=float(np.mean(values)))


def _order(model: Model) -> tuple[int, int]:
    trial = model.trial
    return (0, 0) if trial is None else (len(trial.candidate.recipe.actions), trial.number)
