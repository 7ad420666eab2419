"""Small studies and trials, built from the values of core."""

from edgeopt.core.action import Action, Recipe
from edgeopt.core.candidate import Candidate
from edgeopt.core.measurement import Failure, Measurement, Value
from edgeopt.core.objective import Objective
from edgeopt.core.samples import Interval, Samples
from edgeopt.core.study import Study
from edgeopt.core.trial import Trial

BASELINE = "sha256:" + "b" * 64


def study(name: str = "digits", seed: int = 0) -> Study:
    return Study(
        model_name=name,
        baseline=BASELINE,
        data="sha256:" + "d" * 64,
        metric="top1",
        objectives=(Objective(metric="latency"), Objective(metric="accuracy", direction="max")),
        devices=("local",),
        strategy="nsga2",
        seed=seed,
        options={"protocol": "quick"},
    )


def candidate(site: str) -> Candidate:
    recipe = Recipe(baseline=BASELINE)
    return Candidate(recipe=recipe.then(Action.of("fold", site)) if site else recipe)


def trial(number: int, site: str = "", *, failed: bool = False, protocol: str = "quick") -> Trial:
    samples = Samples(
        unit="s", blocks=((0.1 + number, 0.2),), baseline=((0.3, float("inf")),), rounds=(0,)
    )
    interval = Interval(value=0.1, low=0.0, high=float("inf"))
    value = Value(value=0.1, unit="s", interval=interval, samples=samples, note="größer – 1")
    outcome = (
        Failure(stage="build", reason="no") if failed else Measurement(values={"latency": value})
    )
    return Trial(
        number=number,
        candidate=candidate(site),
        device="local",
        protocol=protocol,
        strategy="nsga2",
        outcome=outcome,
        device_s=1.5,
    )
