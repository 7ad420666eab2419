"""Outputs that the built models need not have: `--drop-output aux`."""

from collections.abc import Mapping, Sequence

import numpy as np

from edgeopt.api.accuracy import Accuracy
from edgeopt.api.subject import Subject
from edgeopt.core.action import Recipe
from edgeopt.core.data import Array, Part
from edgeopt.core.protocols import AccuracyMetric, Arrays
from edgeopt.data.accuracy_metric import Reducible
from edgeopt.data.evaluate import sample_evidence
from edgeopt.data.reduction import reduction
from edgeopt.errors import DataError, UsageError
from edgeopt.transforms.stages import dropped_outputs

_LOOKED_AT = 8
_TRANSFORM = "drop_output"


def refuse_unfit(names: Sequence[str], subject: Subject) -> None:
    """Refuse outputs that the model does not have, that carry state, or all that there are.

    Raises:
        UsageError: Which one, and what there is.
    """
    outputs = [spec.name for spec in subject.model.outputs]
    state = dict[str, str]() if subject.data is None else subject.data.state
    for name in names:
        if name not in outputs:
            raise UsageError(
                f"the model has no output {name!r} to drop", hint=f"outputs: {', '.join(outputs)}"
            )
        if name in state:
            raise UsageError(
                f"the output {name!r} is state: it is fed into {state[name]!r}",
                hint="keep it; without it the next sample cannot be computed",
            )
    if names and not set(outputs) - set(names):
        raise UsageError("no output would be left", hint="keep at least one output")


def refuse_read(names: Sequence[str], accuracy: Accuracy | None) -> None:
    """Refuse outputs that the accuracy metric reads, found out on some samples.

    Raises:
        UsageError: Which one.
    """
    if not names or accuracy is None:
        return
    part, metric = accuracy.data.search, accuracy.metric
    for index in range(min(_LOOKED_AT, len(part))):
        whole = accuracy.run_baseline(part.feeds[index])
        target = None if part.target is None else np.asarray(part.target[index])
        for name in names:
            if _is_read(metric, whole, name, part, index, target):
                raise UsageError(
                    f"accuracy is read from the output {name!r}",
                    hint="keep it, or let the metric option output name another one",
                )


def _is_read(
    metric: AccuracyMetric,
    whole: Arrays,
    name: str,
    part: Part,
    index: int,
    target: Array | None,
) -> bool:
    """Whether a metric says so itself, or judges a sample otherwise without the output."""
    if isinstance(metric, Reducible) and reduction(metric, whole, target)[name] != "drop":
        return True
    left: Mapping[str, Array] = {key: array for key, array in whole.items() if key != name}
    reference = whole if metric.needs_reference else None
    own = sample_evidence(metric, part, index, whole, reference)
    try:
        found = sample_evidence(metric, part, index, left, reference)
    except DataError:
        return True
    return not np.array_equal(own, found, equal_nan=True)


def remarks(names: Sequence[str]) -> list[str]:
    """What the built models no longer do, one sentence each."""
    return [
        f"outputs: models with {_TRANSFORM} no longer have {name!r}, as you allowed"
        for name in names
    ]


def said(recipe: Recipe) -> list[str]:
    """What whoever deploys a model of the recipe must know, one sentence an output."""
    return [
        f"It has no output {name!r}; the given model has."
        for name in sorted(dropped_outputs(recipe.actions))
    ]
