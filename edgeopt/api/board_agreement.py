"""Whether a device computes what the host computes, on the first samples of the search part.

Two things must hold. **Values** are near: for each output that the metric reads, the largest
difference is within `FACTOR` times what lies between the host's own results with optimizations
off and on (at least `FLOOR` of the largest magnitude), the tolerance of `graph.equivalence`.
Models that compute in integers are rounded to steps that other processors round otherwise, so
there the bound is `INTEGER_SHARE` of the output's range. **Decisions** are the same: the metric's
evidence is equal row by row; columns that are no whole numbers within the bound of the values.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed, Part
from edgeopt.core.protocols import AccuracyMetric, Arrays
from edgeopt.data.difference import OutputDifference, Running
from edgeopt.data.evaluate import Fed, Floats, begins_group, sample_evidence
from edgeopt.graph.read import open_graph
from edgeopt.graph.runtime import Session

SAMPLES = 64
FACTOR, FLOOR = 10.0, 2e-5
INTEGER_SHARE = 0.02
"""Five steps of eight bits: one rounding step in an inner layer moves an output by some of its."""
_INTEGER_OPERATORS = frozenset(
    {"QuantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"}
)


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What was found on one device for one model file.

    Args:
        ok: Whether the host's outputs may stand for the device's.
        samples: Samples compared.
        valued: Samples whose values were compared, not only their decisions.
        differences: By output.
        rows: Rows of evidence that differ.
        reason: Why they do not agree; empty where they do.
    """

    ok: bool
    samples: int
    valued: int
    differences: Mapping[str, OutputDifference] = field(default_factory=dict[str, OutputDifference])
    rows: int = 0
    reason: str = ""

    @property
    def origin(self) -> str:
        """Where the outputs that count come from, in words."""
        if self.ok:
            return f"host outputs, agreed on {self.samples} samples on the board"
        return "outputs of the device"

    @property
    def text(self) -> str:
        """How the device's outputs differ from the host's, in words."""
        parts = [
            f"{name}: {each.text}" if len(self.differences) > 1 else each.text
            for name, each in self.differences.items()
        ]
        said = "; ".join([*parts, self.reason] if self.reason else parts)
        return f"{said} ({self.samples} samples)"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What is compared with what.

    Args:
        part: The samples.
        metric: Judges both.
        reductions: Output to what the metric needs of it.
        state: Output to input.
        settings: Of the host's sessions.
        valued: Of the first so many samples the device sends whole outputs.
    """

    part: Part
    metric: AccuracyMetric
    reductions: Mapping[str, str]
    state: Mapping[str, str]
    settings: RuntimeSettings
    valued: int


def agree(
    compared: Compared,
    model: Path,
    board: Iterator[Arrays],
    reference: Path,
    board_reference: Iterator[Arrays] | None,
) -> Agreement:
    """Run the host beside the device's outputs, sample by sample.

    Args:
        compared: Samples and metric.
        model: The file.
        board: The device's outputs of it, in order.
        reference: The given model, for metrics that compare with it.
        board_reference: The device's outputs of that; None where the metric does not ask.

    Raises:
        RuntimeFailure: The host does not run the model, or the device does not.
        DataError: Label and outputs do not fit each other.
    """
    off = replace(compared.settings, optimization="off")
    host = _runner(model, compared.settings, compared.state)
    plain = _runner(model, off, compared.state)
    asked = board_reference is not None
    beside = _runner(reference, compared.settings, compared.state) if asked else None
    apart, own = Running(compared.reductions), Running(compared.reductions)
    mine: list[Floats] = []
    theirs: list[Floats] = []
    part, metric = compared.part, compared.metric
    for index in range(len(part)):
        feed, begins = part.feeds[index], begins_group(part, index)
        here, there = host(feed, begins), next(board)
        expected = None if beside is None else beside(feed, begins)
        heard = None if board_reference is None else next(board_reference)
        apart.add(here, there, values=index < compared.valued)
        own.add(plain(feed, begins), here)
        mine.append(sample_evidence(metric, part, index, here, expected))
        theirs.append(sample_evidence(metric, part, index, there, heard))
    bounds = _bounds(own.result(), integer=_computes_in_integers(model))
    return _judged(compared, apart.result(), bounds, mine, theirs)


def _runner(
    model: Path, settings: RuntimeSettings, state: Mapping[str, str]
) -> Callable[[Feed, bool], Arrays]:
    fed = Fed(Session(model, settings).run, state)
    return lambda feed, begins: fed(feed, begins=begins)


def _computes_in_integers(model: Path) -> bool:
    graph = open_graph(model, custom_ops=True).graph
    kinds = {node.op_type for node in graph.all_nodes()}
    return any(k in _INTEGER_OPERATORS or k.startswith(("QLinear", "DynamicQ")) for k in kinds)


def _bounds(own: Mapping[str, OutputDifference], *, integer: bool) -> dict[str, float]:
    """Output to the largest difference that counts as equal."""
    found: dict[str, float] = {}
    for name, spread in own.items():
        floor = FLOOR * spread.magnitude
        wide = INTEGER_SHARE * spread.span if integer else FACTOR * spread.largest
        found[name] = max(floor, wide if np.isfinite(wide) else 0.0)
    return found


def _judged(
    compared: Compared,
    apart: Mapping[str, OutputDifference],
    bounds: Mapping[str, float],
    mine: Sequence[Floats],
    theirs: Sequence[Floats],
) -> Agreement:
    far = [
        f"{name!r} differs by {each.largest:.3g}, {bounds.get(name, 0.0):.3g} is the tolerance"
        for name, each in apart.items()
        if each.largest > bounds.get(name, 0.0)
    ]
    sizes = [each.magnitude for name, each in apart.items() if name in bounds and each.magnitude]
    loosest = max([0.0, *bounds.values(), *(max(bounds.values()) / size for size in sizes)])
    pairs = list(zip(mine, theirs, strict=True))
    rows = sum(_rows_apart(one, other, loosest) for one, other in pairs)
    if rows:
        total = sum(len(one) for one in mine)
        far.append(f"{rows} of {total} rows of evidence differ")
    return Agreement(
        ok=not far,
        samples=len(compared.part),
        valued=min(compared.valued, len(compared.part)),
        differences=apart,
        rows=rows,
        reason="; ".join(far),
    )


def _rows_apart(one: Floats, other: Floats, loosest: float) -> int:
    """Rows that differ: in a whole number at all, in another number by more than the bound."""
    if one.shape != other.shape:
        return max(len(one), len(other))
    whole = np.all((one == np.round(one)) & (other == np.round(other)), axis=0)
    near = np.isclose(one, other, rtol=0.0, atol=loosest, equal_nan=True)
    same = np.where(whole, one == other, near)
    return int(np.count_nonzero(~same.all(axis=1)))
