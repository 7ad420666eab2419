"""`Sensitivity`: what each alternative of each choice does to the model's outputs when it is the
only one that is on, on real calibration inputs.

The damage is noise over signal, as powers, at the worst output: powers of independent errors add.
It ranks what to release first and never accepts anything: summed over many layers it is wrong by
factors, and only the metric on held-out data decides.

The values of the float graph are computed once; a candidate is run from its first changed node
on. Results are kept by digest of the decision, and on disk where there is a folder.
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core import digest as digests
from edgeopt.core.data import Feed
from edgeopt.errors import ModelError
from edgeopt.estimate.partial import behind
from edgeopt.graph.runtime import RuntimeFailure, Session, observe, session_of
from edgeopt.graph.write import EXTERNAL_ABOVE_BYTES, weight_bytes

Array = npt.NDArray[Any]
Values = Mapping[str, Array]
SAMPLES = 8
FORMAT = 1
WORST = 100.0
"""Damage of what does not run at all, or makes infinities: beyond noise as loud as the signal."""
_KEPT_BYTES = 400_000_000


class Sensitivity:
    """Damage at the outputs of one float graph.

    Args:
        base: The float graph that alternatives are compared with; never changed.
        feeds: Real inputs; the first `SAMPLES` are used.
        key: Digest of everything that `base` and the feeds depend on.
        folder: Where results are kept between runs; None keeps them in memory only.
    """

    def __init__(
        self, base: ir.Model, feeds: Sequence[Feed], *, key: str, folder: Path | None = None
    ) -> None:
        self._base = base
        self._feeds = tuple(feeds[:SAMPLES])
        self._path = None if folder is None else folder / f"{digests.short(key)}.json"
        self._key = key
        self._found: dict[str, float] = {} if self._path is None else _read(self._path, key)
        self._known: tuple[Values, ...] | None = None
        self._whole: tuple[Values, ...] | None = None

    def known(self, decision: str) -> float | None:
        """The damage that was found before for a decision; None where there is none."""
        return self._found.get(decision)

    def damage(self, decision: str, graph: ir.Model) -> float:
        """Noise over signal at the worst output of a graph, at most `WORST`.

        Args:
            decision: What distinguishes the graph from the base: the text of its actions.
            graph: Built with that decision alone; unchanged constants are shared with the base.
        """
        if decision not in self._found:
            try:
                self._found[decision] = self._measure(graph)
            except RuntimeFailure:
                self._found[decision] = WORST
        return self._found[decision]

    def save(self) -> None:
        """Write what was found beside what other runs found; a folder that is full is no error:
        the next run computes it again."""
        if self._path is None or not self._found:
            return
        found = {**_read(self._path, self._key), **self._found}
        document = {"format": FORMAT, "key": self._key, "damage": found}
        aside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            aside.write_text(json.dumps(document), encoding="utf-8")
            aside.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                aside.unlink(missing_ok=True)

    def forget_activations(self) -> None:
        """Free the values of the float graph; they are computed again where they are needed."""
        self._known = self._whole = None

    def _measure(self, graph: ir.Model) -> float:
        known = self._activations()
        part = None
        if known and known[0] and weight_bytes(self._base) <= EXTERNAL_ABOVE_BYTES:
            part = behind(self._base, graph, known[0])
        if part is None:
            session = session_of(graph)
            made = [session.run(feed) for feed in self._feeds]
            return damage_of(self._outputs(), made)
        if not part.outputs:
            return 0.0
        session = Session(part.model.SerializeToString())
        made = [session.run({name: one[name] for name in part.inputs}) for one in known]
        wanted = [{name: one[name] for name in part.outputs} for one in known]
        return damage_of(wanted, made)

    def _activations(self) -> tuple[Values, ...]:
        """All values of the float graph on the feeds; nothing where they would be too large."""
        if self._known is None:
            self._known = self._observed()
        return self._known

    def _observed(self) -> tuple[Values, ...]:
        names = [v.name for node in self._base.graph for v in node.outputs if v.name]
        names += [value.name for value in self._base.graph.inputs if value.name]
        found: list[Values] = []
        size = 0
        try:
            for values in observe(self._base, names, self._feeds):
                size += sum(array.nbytes for array in values.values())
                if size > _KEPT_BYTES:
                    return ()
                found.append(values)
        except (ModelError, AttributeError):  # sequences, optionals: values that are no arrays
            return ()
        return tuple(found)

    def _outputs(self) -> tuple[Values, ...]:
        if self._whole is None:
            session = session_of(self._base)
            self._whole = tuple(session.run(feed) for feed in self._feeds)
        return self._whole


def damage_of(wanted: Sequence[Values], made: Sequence[Values]) -> float:
    """Noise over signal, as powers, at the worst output over all samples, at most `WORST`.

    The signal is the deviation from the output's mean: a constant offset carries nothing. Of
    integers (classes, indices) the share that differs.
    """
    found = [
        _of_one([one[name] for one in wanted], [one[name] for one in made]) for name in wanted[0]
    ]
    return max(found, default=0.0)


def _of_one(wanted: Sequence[Array], made: Sequence[Array]) -> float:
    if any(a.shape != b.shape for a, b in zip(wanted, made, strict=True)):
        return WORST
    true = np.concatenate([array.ravel() for array in wanted])
    got = np.concatenate([array.ravel() for array in made])
    if not true.size:
        return 0.0
    if true.dtype.kind != "f":
        return float(np.count_nonzero(true != got)) / true.size
    signal = true.astype(np.float64)
    noise = float(np.mean((got.astype(np.float64) - signal) ** 2))
    power = float(np.var(signal)) or float(np.mean(signal**2))
    if not np.isfinite(noise):
        return WORST
    return min(noise / power, WORST) if power > 0 else min(noise, WORST)


def decibels(damage: float) -> float:
    """The signal-to-noise ratio in decibels; infinity without any noise."""
    return float("inf") if damage <= 0 else -10.0 * float(np.log10(damage))


def _read(path: Path, key: str) -> dict[str, float]:
    """What an earlier run found; nothing where the file is another one's or damaged."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT or document["key"] != key:
            return {}
        return {str(name): float(value) for name, value in document["damage"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
