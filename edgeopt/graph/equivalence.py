"""Whether two graphs compute the same, at a tolerance that the runtime itself sets.

A fixed tolerance is wrong both ways: the runtime's own optimizations move outputs by 3e-6 on one
model and by 2e-3 on another. So the reference is run with optimizations off and on, and what lies
between them is the unit: a candidate may differ by `FACTOR` times that, or by `FLOOR` of the
largest magnitude where the two happen to agree to the last bit. Where an output is discrete, the
operands of the first discrete operator are compared instead, and the output may flip only where
they tie within twice their tolerance.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Array, Feed
from edgeopt.graph.discrete import Jump, first_jumps, may_flip
from edgeopt.graph.runtime import observe

FACTOR = 10.0
"""Times the runtime's own spread: it is seen on a few feeds only, and a rewrite rounds as often."""

FLOOR = 2e-5
"""Of the largest magnitude of a value: about 200 units in the last place of float32."""

_OFF = RuntimeSettings(optimization="off")
_ON = RuntimeSettings(optimization="all")
_ITEM = " item "
Values = Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Value name to the largest absolute difference that still counts as equal."""

    absolute: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a comparison found.

    Args:
        ok: Whether the two compute the same.
        worst: Largest difference in units of its tolerance: equal where at most 1; infinite
            where shapes, dtypes, NaNs or integers differ.
        where: Name of the value with the worst difference.
        reason: One sentence where they are not equal.
    """

    ok: bool
    worst: float
    where: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A graph's answers to some feeds, kept so that many candidates can be compared with them.

    Args:
        feeds: Inputs.
        expected: Outputs and operands of first discrete operators, optimizations off, by feed.
        jumps: Discrete outputs to their first discrete operators.
        outputs: Names of the graph's outputs.
        tolerance: By value.
    """

    feeds: tuple[Feed, ...]
    expected: tuple[Values, ...]
    jumps: Mapping[str, tuple[Jump, ...]]
    outputs: tuple[str, ...]
    tolerance: Tolerance

    @staticmethod
    def of(
        graph: ir.Model, feeds: Sequence[Feed], tolerance: Tolerance | None = None
    ) -> "Reference":
        """Run the graph and remember its answers.

        Raises:
            RuntimeFailure: The graph does not run.
        """
        jumps = first_jumps(graph)
        outputs = tuple(value.name or "" for value in graph.graph.outputs)
        operands = [name for found in jumps.values() for jump in found for name in jump.operands]
        names = list(dict.fromkeys([*outputs, *operands]))
        off = tuple(map(_flat, observe(graph, names, feeds, settings=_OFF)))
        if tolerance is None:
            on = tuple(map(_flat, observe(graph, names, feeds, settings=_ON)))
            tolerance = _tolerance(off, on)
        return Reference(
            feeds=tuple(feeds), expected=off, jumps=jumps, outputs=outputs, tolerance=tolerance
        )

    def compare(self, candidate: ir.Model, *, without: Collection[str] = ()) -> Difference:
        """Run a candidate as it would be deployed (optimizations on) and compare.

        Args:
            candidate: The graph.
            without: Outputs that it need not have.

        Raises:
            RuntimeFailure: The candidate does not load or run.
        """
        have = {value.name for value in candidate.graph.outputs}
        missing = [name for name in self.outputs if name not in have and name not in without]
        if missing:
            return _unequal(missing[0], f"the output {missing[0]!r} is gone")
        made = {v.name for node in candidate.graph for v in node.outputs}
        known = made | {v.name for v in candidate.graph.inputs}
        kept = [name for name in self.outputs if name in have]
        jumps = [self.jumps[name] for name in self.jumps if name in kept]
        operands = [o for found in jumps for jump in found for o in jump.operands]
        names = [name for name in (*kept, *operands) if name in known or name in have]
        worst = Difference(ok=True, worst=0.0)
        found = observe(candidate, names, self.feeds, settings=_ON)
        for expected, values in zip(self.expected, found, strict=True):
            found_now = self._compare(expected, _flat(values), kept)
            worst = max((worst, found_now), key=lambda d: (not d.ok, d.worst))
            if not worst.ok:
                break
        return worst

    def _compare(self, expected: Values, found: Values, kept: Collection[str]) -> Difference:
        results = [Difference(ok=True, worst=0.0)]
        for name in (name for name in expected if name.split(_ITEM)[0] in kept):
            if name not in found:
                return _unequal(name, f"{name!r} is missing from the candidate's outputs")
            jumps = self.jumps.get(name, ())
            for operand in (operand for jump in jumps for operand in jump.operands):
                if operand in found:
                    results.append(self._near(operand, expected[operand], found[operand]))
            near = self._near(name, expected[name], found[name])
            if not near.ok and jumps and expected[name].shape == found[name].shape:
                flips = self._flips(name, jumps, expected, found[name])
                near = flips if flips.ok or expected[name].dtype.kind != "f" else near
            results.append(near)
        return max(results, key=lambda d: (not d.ok, d.worst))

    def _flips(
        self, name: str, jumps: tuple[Jump, ...], expected: Values, found: Array
    ) -> Difference:
        """Whether all differences of a discrete output lie where its operands tie."""
        differs = np.ravel(expected[name] != found)
        for jump in jumps:
            margin = 2 * max(self.tolerance.absolute.get(o, 0.0) for o in jump.operands)
            mask = may_flip(jump, expected, margin)
            if jump.output == name and mask.size == differs.size:
                differs = differs & ~mask
            elif mask.any():
                # Behind a flip anything may follow; the operands themselves were compared.
                differs = np.zeros_like(differs)
        count = int(np.count_nonzero(differs))
        if not count:
            return Difference(ok=True, worst=0.0, where=name)
        return _unequal(name, f"{count} of {differs.size} elements of {name!r} flip without a tie")

    def _near(self, name: str, expected: Array, found: Array) -> Difference:
        if expected.shape != found.shape or expected.dtype != found.dtype:
            return _unequal(
                name,
                f"{name!r} is {found.dtype}{list(found.shape)} instead of"
                f" {expected.dtype}{list(expected.shape)}",
            )
        if expected.dtype.kind != "f":
            count = int(np.count_nonzero(expected != found))
            return (
                _unequal(name, f"{count} of {expected.size} elements of {name!r} differ")
                if count
                else Difference(ok=True, worst=0.0, where=name)
            )
        if not _same_special(expected, found):
            return _unequal(name, f"NaN or infinity of {name!r} stand elsewhere")
        allowed = self.tolerance.absolute.get(name, 0.0)
        error = _error(expected, found)
        if error <= allowed:
            return Difference(ok=True, worst=error / allowed if allowed else 0.0, where=name)
        return Difference(
            ok=False,
            worst=error / allowed if allowed else float("inf"),
            where=name,
            reason=f"{name!r} differs by {error:.3g}, {allowed:.3g} is the tolerance",
        )


def tolerance_for(reference: ir.Model, feeds: Sequence[Feed]) -> Tolerance:
    """What the runtime's own spread on these feeds allows, for outputs and discrete operands.

    Raises:
        RuntimeFailure: The graph does not run.
    """
    return Reference.of(reference, feeds).tolerance


def compare(
    reference: ir.Model,
    candidate: ir.Model,
    feeds: Sequence[Feed],
    tolerance: Tolerance | None = None,
) -> Difference:
    """Compare two graphs on some feeds; `Reference` does it for many candidates.

    Raises:
        RuntimeFailure: One of them does not load or run.
    """
    return Reference.of(reference, feeds, tolerance).compare(candidate)


def _flat(values: Mapping[str, Any]) -> dict[str, Array]:
    """Arrays by name; the items of a sequence by name and number, nothing for an empty optional."""
    flat: dict[str, Array] = {}
    for name, value in values.items():
        if isinstance(value, list):
            items = cast("list[Array]", value)
            flat[name] = np.array(len(items))
            flat |= {f"{name}{_ITEM}{index}": item for index, item in enumerate(items)}
        elif value is not None:
            flat[name] = np.asarray(value)
    return flat


def _tolerance(off: Sequence[Values], on: Sequence[Values]) -> Tolerance:
    absolute: dict[str, float] = {}
    for first, second in zip(off, on, strict=True):
        for name, value in first.items():
            if value.dtype.kind != "f":
                continue
            spread = _error(value, second[name]) if value.shape == second[name].shape else 0.0
            scale = float(np.max(np.abs(value), initial=0.0, where=np.isfinite(value)))
            absolute[name] = max(absolute.get(name, 0.0), FACTOR * spread, FLOOR * scale)
    return Tolerance(absolute=absolute)


def _error(expected: Array, found: Array) -> float:
    finite = np.isfinite(expected) & np.isfinite(found)
    if not finite.any():
        return 0.0
    left, right = expected[finite].astype(np.float64), found[finite].astype(np.float64)
    return float(np.max(np.abs(left - right)))


def _same_special(expected: Array, found: Array) -> bool:
    special = ~np.isfinite(expected)
    return bool(
        np.array_equal(special, ~np.isfinite(found))
        and np.array_equal(expected[special], found[special], equal_nan=True)
    )


def _unequal(name: str, reason: str) -> Difference:
    return Difference(ok=False, worst=float("inf"), where=name, reason=reason)
