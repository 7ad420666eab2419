"""Trials for tests of what reads them."""

from edgeopt.core.action import Action, Recipe
from edgeopt.core.candidate import Candidate
from edgeopt.core.measurement import Failure, Measurement, Value, Verdict
from edgeopt.core.samples import Interval
from edgeopt.core.trial import Trial

BASELINE = "sha256:" + "0" * 64


def trial(
    number: int,
    *,
    actions: int | None = None,
    strategy: str = "s",
    protocol: str = "quick",
    status: str = "valid",
    device: str = "d",
    **values: float,
) -> Trial:
    """A trial of its own candidate with these metrics; `latency` gets an interval of 2 %."""
    count = number if actions is None else actions
    recipe = Recipe(baseline=BASELINE, data=str(number))
    recipe = recipe.then(*(Action.of("rule", f"s{i}") for i in range(count)))
    shown = {
        name: Value(
            value=value,
            unit="1",
            interval=Interval(value=value, low=value * 0.99, high=value * 1.01)
            if name == "latency"
            else None,
        )
        for name, value in values.items()
    }
    return Trial(
        number=number,
        candidate=Candidate(recipe=recipe),
        device=device,
        protocol=protocol,
        strategy=strategy,
        outcome=Measurement(values=shown, verdict=Verdict(status=status)),
        device_s=1.5,
        host_s=0.5,
    )


def failed(number: int, strategy: str = "s") -> Trial:
    """A trial that ended as a failure."""
    recipe = Recipe(baseline=BASELINE).then(Action.of("bad", f"s{number}"))
    return Trial(
        number=number,
        candidate=Candidate(recipe=recipe),
        device="d",
        protocol="quick",
        strategy=strategy,
        outcome=Failure(stage="load", reason="refused"),
        device_s=0.25,
    )
