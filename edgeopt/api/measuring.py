"""`MeasuredCosts`: what a recipe costs on a device, for environments: measured, never estimated.

A failure is the recipe's only where it is one: what a signal or the system's memory ended may have
been the device's doing, and is no verdict until it happens to the same recipe a second time.
"""

import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgeopt.api.search import Reopen
from edgeopt.api.trials import Bench
from edgeopt.core.action import Recipe
from edgeopt.core.candidate import Candidate
from edgeopt.core.measurement import Measurement
from edgeopt.core.trial import Trial
from edgeopt.errors import ConnectionLostError, InconclusiveError
from edgeopt.measure.plan import QUICK

Floats = npt.NDArray[np.float64]
PATIENCE_S = 60.0
"""How long a device that went away is waited for, before that is said."""
_AGAIN = "take the step again; `edgeopt device check` says what disturbs the device"


class MeasuredCosts:
    """Implements `core.protocols.Evaluator`: latency and size over the given model's, and the
    accuracy that is lost (0..1), where there is data.

    Args:
        measured: Measures a recipe; raises DeviceError where the device is away.
        size: Bytes of the given model.
        accuracy: Of the given model; None without data.
    """

    deterministic = False

    def __init__(
        self, measured: Callable[[Recipe], Trial], *, size: float, accuracy: float | None
    ) -> None:
        self._measured, self._size, self._accuracy = measured, size, accuracy
        self.metrics = ("latency", "size", *(("accuracy_drop",) * (accuracy is not None)))
        self._known: dict[str, Floats] = {}
        self._ended: set[str] = set()

    def costs(self, recipe: Recipe) -> Floats:
        """[metrics], measured once a recipe; infinite where it cannot be used.

        Raises:
            InconclusiveError: Nothing was found out: its process was ended, for the first time, or
                the machine was disturbed. Asked again, it is measured again.
            DeviceError: The device is away.
        """
        if not recipe.actions:
            return np.array([1.0, 1.0, 0.0])[: len(self.metrics)]
        if recipe.digest not in self._known:
            self._known[recipe.digest] = self._found(recipe)
        return self._known[recipe.digest].copy()

    def _found(self, recipe: Recipe) -> Floats:
        trial = self._measured(recipe)
        outcome = trial.outcome
        if isinstance(outcome, Measurement):
            return self._of(outcome, trial.device)
        if outcome.sudden and recipe.digest not in self._ended:
            self._ended.add(recipe.digest)
            raise InconclusiveError(outcome.reason, where=trial.device, hint=_AGAIN)
        return np.full(len(self.metrics), np.inf)

    def _of(self, found: Measurement, device: str) -> Floats:
        latency, size = found.values.get("latency"), found.values.get("size")
        if found.verdict.status == "invalid" or latency is None or size is None:
            why = "; ".join(found.verdict.reasons) or "no latency came out"
            raise InconclusiveError(
                f"the measurement cannot be used: {why}", where=device, hint=_AGAIN
            )
        samples = latency.samples
        if samples is None or not samples.baseline:
            raise InconclusiveError(
                "the given model was not timed beside it", where=device, hint=_AGAIN
            )
        costs = [samples.ratio.value, size.value / self._size]
        if self._accuracy is not None:
            scored = found.values.get("accuracy") or found.values.get("agreement")
            costs.append(np.inf if scored is None else self._accuracy - scored.value)
        return np.array(costs, dtype=np.float64)


class OnBench:
    """Measures recipes on one device, quickly; opens it again where the connection was lost.

    Args:
        bench: With the device.
        reopen: Opens the device again, within seconds.
    """

    def __init__(self, bench: Bench, reopen: Reopen) -> None:
        # What is slow must be scored too: an environment wants all costs of what it did. Files
        # have a folder of their own, so that none of a study's front is taken for ours.
        name = f"environment-{uuid.uuid4().hex[:12]}"
        self._bench, self._reopen = replace(bench, skip_slow=False, study=name), reopen

    def __call__(self, recipe: Recipe) -> Trial:
        """The trial of a recipe.

        Raises:
            DeviceError: The device stays away, or cannot do what was asked.
        """
        while True:
            try:
                return self._once(recipe)
            except ConnectionLostError as error:
                self._bench = self._reopen(self._bench, PATIENCE_S, error)

    def _once(self, recipe: Recipe) -> Trial:
        bench = self._bench
        prepared = bench.prepared(Candidate(recipe=recipe, runtime=bench.baseline_runtime))
        try:
            outcome = bench.measured(prepared, QUICK)
            return bench.concluded(prepared, outcome, QUICK, strategy="environment")
        finally:
            if prepared.file is not None and prepared.file != bench.model:
                shutil.rmtree(prepared.file.path.parent, ignore_errors=True)


def on_lane(bench: Bench, reopen: Reopen) -> MeasuredCosts:
    """The costs that a bench measures, the given model's accuracy by its own outputs there."""
    accuracy = bench.accuracy
    base = None if accuracy is None else accuracy.baseline(accuracy.data.search).value
    size = float(bench.model.size_bytes)
    return MeasuredCosts(OnBench(bench, reopen), size=size, accuracy=base)
