"""Running a part through a model and a metric, sample by sample, in order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Feed, Part
from edgeopt.core.protocols import AccuracyMetric, Arrays
from edgeopt.data.accuracy_metric import Judges
from edgeopt.errors import DataError

Floats = npt.NDArray[np.float64]
Run = Callable[[Feed], Arrays]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What a metric saw on one part.

    Args:
        evidence: [rows, columns], in the order of the samples.
        groups: [rows], what is resampled together: the sample's group, else the sample.
        value: The metric over all rows.
        right: [rows], how right each row is, higher is better.
        origin: Where the outputs come from, in words.
        samples: Number of samples behind the rows; 0 where it was not counted.
    """

    evidence: Floats
    groups: npt.NDArray[np.int64]
    value: float
    right: Floats
    origin: str = "host outputs"
    samples: int = 0


def score_part(
    part: Part,
    run: Run,
    metric: AccuracyMetric,
    *,
    state: Mapping[str, str] | None = None,
    reference: Run | Sequence[Arrays] | None = None,
) -> Scored:
    """Evidence and value of a model on a part.

    Args:
        part: Its samples run in order; a group's samples stand together.
        run: Feed to outputs by name.
        metric: What judges the outputs.
        state: Output to input: fed on within a group, reset to the feed's own at its start.
        reference: The baseline, for metrics that compare with it: a runner (its own state is
            fed on beside), or its outputs by sample.

    Raises:
        DataError: The part is empty, lacks what the metric needs, or labels and outputs do not
            fit each other; says which sample.
    """
    _require(part, metric, reference)
    running, beside = Fed(run, state or {}), _reference(reference, state or {})
    rows: list[Floats] = []
    owners: list[int] = []
    for index in range(len(part)):
        begins = begins_group(part, index)
        feed = part.feeds[index]
        outputs = running(feed, begins=begins)
        expected = None
        if metric.needs_reference:
            expected = beside(index, feed, begins)
        rows.append(sample_evidence(metric, part, index, outputs, expected))
        owners += [index if part.group is None else int(part.group[index])] * len(rows[-1])
    evidence = _joined(rows, part)
    value = metric.value(evidence)
    if not np.isfinite(value):
        raise DataError(
            f"the metric has no value over these {len(evidence)} rows",
            where=f"{part.name} part, {name_of(metric)}",
            hint="both classes must occur, and texts must not all be empty",
        )
    right = metric.right(evidence) if isinstance(metric, Judges) else evidence[:, 0]
    return Scored(
        evidence=evidence,
        groups=np.array(owners),
        value=value,
        right=right,
        samples=len(part),
    )


def outputs_of(part: Part, run: Run, state: Mapping[str, str] | None = None) -> list[Arrays]:
    """Outputs by sample, to be kept as the reference of many candidates."""
    running = Fed(run, state or {})
    return [
        running(part.feeds[index], begins=begins_group(part, index)) for index in range(len(part))
    ]


class Fed:
    """A runner that feeds its state outputs into the state inputs of the next sample."""

    def __init__(self, run: Run, state: Mapping[str, str]) -> None:
        self._run = run
        self._state = state
        self._carried: dict[str, npt.NDArray[np.generic]] = {}

    def __call__(self, feed: Feed, *, begins: bool) -> Arrays:
        """Outputs for a feed; at a group's start the feed's own state counts.

        Raises:
            DataError: A state output is not among the outputs.
        """
        outputs = self._run(feed if begins else {**feed, **self._carried})
        for output, name in self._state.items():
            if output not in outputs:
                raise DataError(
                    f"the state output {output!r} is not among the outputs",
                    hint=f"outputs: {', '.join(outputs)}",
                )
            self._carried[name] = outputs[output]
        return outputs


def name_of(metric: AccuracyMetric) -> str:
    """What messages call a metric."""
    return f"metric {type(metric).__name__.lower()}"


def _reference(
    reference: Run | Sequence[Arrays] | None, state: Mapping[str, str]
) -> Callable[[int, Feed, bool], Arrays | None]:
    if reference is None:
        return lambda _index, _feed, _begins: None
    if callable(reference):
        running = Fed(reference, state)
        return lambda _index, feed, begins: running(feed, begins=begins)
    known = reference
    return lambda index, _feed, _begins: known[index]


def begins_group(part: Part, index: int) -> bool:
    """Whether a sample is the first of its group: state starts from its own feed."""
    return index == 0 or part.group is None or part.group[index] != part.group[index - 1]


def _require(part: Part, metric: AccuracyMetric, reference: object) -> None:
    where = f"{part.name} part, {name_of(metric)}"
    if not len(part):
        raise DataError("there are no samples to judge", where=where)
    if metric.needs_target and part.target is None:
        raise DataError(
            "the metric needs labels and the data has none",
            where=where,
            hint="add the key 'label', or use the metric agreement",
        )
    if metric.needs_reference and reference is None:
        raise DataError("the metric compares with the baseline, which was not given", where=where)


def sample_evidence(
    metric: AccuracyMetric, part: Part, index: int, outputs: Arrays, reference: Arrays | None
) -> Floats:
    """What one sample of a part says: [rows, columns].

    Raises:
        DataError: Label and outputs do not fit each other; says which sample.
    """
    target = None if part.target is None else np.asarray(part.target[index])
    try:
        found = np.asarray(metric.evidence(outputs, target, reference), dtype=np.float64)
    except DataError as error:
        place = f"{part.name} part, sample {index}, {name_of(metric)}"
        raise DataError(error.what, where=place, hint=error.hint) from error
    return found.reshape(-1, found.shape[-1]) if found.ndim else found.reshape(1, 1)


def _joined(rows: Sequence[Floats], part: Part) -> Floats:
    widths = {row.shape[1] for row in rows}
    if len(widths) > 1:
        raise DataError(
            f"the metric gave rows of different widths: {sorted(widths)}", where=f"{part.name} part"
        )
    return np.concatenate(rows, axis=0)
