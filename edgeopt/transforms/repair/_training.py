"""A short training: SOAP with a cosine schedule on broadened samples, the best weights kept.

What is looked at and kept is the running mean of the weights, which is far steadier than they are.
It is looked at on a slice of samples that is never trained on, broadened like the others: what
solved the weights before has seen the plain ones.

A net that is near already is led away by a rate of learning from which another one gains, and a
deep one without normalization by a few steps of it (28 layers of which each grows by a fifth). So a
rate is given up where the loss of a step is three times what it was at the start, or where it
brought nothing in the first part of the time, and the training begins again more slowly; where
none brought anything it ends.

A step is of fewer samples where a net is so slow that few steps fit into the time, and where too
few fit even so it ends at once: fifteen steps bring nothing (of a text recogniser one took 14 s).

It ends when its seconds are used up, or when that slice has not come nearer for some time. The
seconds are those of one core at work (thread time), so that a busy
machine makes it later and not worse, up to three times as long by the clock. What was reached is
written down now and then; the same training goes on from there, and one that ended has nothing
left to do.
"""

import hashlib
import io
import math
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Feed
from edgeopt.graph.runtime import RuntimeFailure
from edgeopt.transforms.repair._broadened import Broadener
from edgeopt.transforms.repair._loss import Head, distance
from edgeopt.transforms.repair._optimizer import optimizer
from edgeopt.transforms.repair._teacher import Teacher
from edgeopt.transforms.repair._torch import torch
from edgeopt.transforms.repair._torch_graph import TorchGraph, tensors

Array = npt.NDArray[Any]
RATE = 4e-3
BATCH = 32
_SMALL_BATCH = 8
_FEWEST_STEPS = 100
_TIMED_STEP = 2
"""The first one sets up."""
_WARM = 0.05
_LOOKS = 20
_EQUAL = 1e-8
"""A loss that is only rounding."""
_TRIALS = (0.2, 0.1, 0.1)
"""Of the whole: what each rate has to come nearer at all."""
_SLOWER = 0.25
_SLOWEST = 5
"""Times that it may begin again."""
_DIVERGED = 3.0
"""Times the loss at the start."""
_PATIENCE = 14
"""Looks without a gain that end it: only in its last third, where the steps are small."""
_MEMORY = 0.98
_CLIP = 1.0
_FRESH_SHARE = 5
_FRESH_MOST = 64
STEPS_MOST = 20_000
_CLOCK_SHARE = 3.0


@dataclass(kw_only=True)
class Training:
    """What is trained towards what, and on what.

    Args:
        student: Its weights change.
        teacher: The given model, asked for all ends and values between.
        ends: Values that are compared at the outputs.
        between: Values that are compared in the middle.
        feeds: Samples; the last fifth is only looked at.
        seconds: Of one core, at most.
        clock_s: By the clock, at most; three times the seconds where that is less.
        tell: Told how far it is.
        kept: Where it is written how far it is; None nowhere.
        steps_most: It ends after so many, whatever time is left.
        kind: What the samples are: only images are turned into others as images are.
        rate: Of learning, at its height; the first one that is tried.
    """

    student: TorchGraph
    teacher: Teacher
    ends: Sequence[Head]
    between: Sequence[str]
    feeds: Sequence[Feed]
    seconds: float
    tell: Callable[[str], None]
    clock_s: float = math.inf
    kept: Path | None = None
    steps_most: int = STEPS_MOST
    rate: float = RATE
    kind: str = ""

    def __post_init__(self) -> None:
        held = min(max(len(self.feeds) // _FRESH_SHARE, 1), _FRESH_MOST)
        self._own = self.feeds[:-held]
        broadener = Broadener(self._own, kind=self.kind, seed=1)
        self._fresh = [broadener.variant(feed) for feed in self.feeds[-held:]]
        self._names = [head.name for head in self.ends] + list(self.between)
        self._batch = BATCH if self._takes_batches() else 1
        self._step, self._used, self._since = 0, 0.0, 0
        self._slowed, self._waited, self._first, self._start = 0, 0, 0, 0.0
        self._last = 0.0
        self._ended = self._too_slow = False
        self._count = BATCH
        self._begun_s = time.monotonic()
        self._optimizer = self._fresh_optimizer()

    def run(self) -> float:
        """Train; the student has its best weights then. Returns the loss on the held-out slice,
        as a share of what it was at the start: 1 where nothing was gained.
        """
        broadener = Broadener(self._own, kind=self.kind)
        begun = self._best = self._loss()
        self._given = self._weights = self._mean = self.student.arrays()
        begun = self._resumed(begun)
        self._ended = self._ended or begun < _EQUAL
        self._begun_s = time.monotonic()
        looked = self._progress()
        while not self._ended and self._progress() < 1.0 and self._since < _PATIENCE:
            start = time.thread_time()
            loss = self._one(broadener)
            took = time.thread_time() - start
            self._used += took
            if self._step == _TIMED_STEP and not self._fits(took):
                break
            if self._diverged(loss, begun) and not self._slower():
                break
            if self._progress() - looked >= 1 / _LOOKS or self._progress() >= 1.0:
                looked = self._progress()
                self._look(begun)
                if self._best >= begun and not self._goes_on():
                    break
        self.student.load(self._weights)
        ended = (self._step, self._used, self._best, begun)
        self._write({"best": tensors(self._weights), "ended": ended})
        return self._best / begun if self._best < begun else 1.0

    @property
    def in_vain(self) -> str:
        """What to say where nothing was gained."""
        if not self._step:
            return "it says already what the given model says"
        if self._too_slow:
            return (
                f"{self._step} steps took {self._used:.0f} s: too few fit into {self.seconds:.0f} s"
            )
        return (
            f"held-out samples came no nearer in {self._used:.0f} s of training: "
            f"{self._step} steps at {self._slowed + 1} rates of learning"
        )

    def _fits(self, took: float) -> bool:
        """Whether enough steps fit, by the seconds of one; with fewer samples a step maybe."""
        steps = self.seconds / max(took, 1e-9)
        if steps < _FEWEST_STEPS:
            self._count, steps = _SMALL_BATCH, steps * BATCH / _SMALL_BATCH
        self._too_slow = steps < _FEWEST_STEPS
        return not self._too_slow

    def _goes_on(self) -> bool:
        """While nothing was gained: wait out the trial of a rate, then begin again with a lower."""
        if self._progress() - self._start < _TRIALS[self._waited]:
            return True
        self._waited += 1
        return self._waited < len(_TRIALS) and self._slower()

    def _diverged(self, loss: float, begun: float) -> bool:
        """Whether two steps say that this rate leads away; behind a gain nobody asks."""
        least, self._last = min(loss, self._last), loss
        return self._best >= begun and not least <= _DIVERGED * begun

    def _slower(self) -> bool:
        """Begin again with a lower rate; False where it was the lowest."""
        if self._slowed == _SLOWEST:
            return False
        self._slowed += 1
        self._first, self._start, self._last = self._step, self._progress(), 0.0
        self.student.load(self._given)
        self._mean, self._optimizer = self._given, self._fresh_optimizer()
        return True

    def _fresh_optimizer(self) -> Any:
        return optimizer(self.student.weights.values(), self.rate)

    def _progress(self) -> float:
        """0 to 1, by whatever ends it first."""
        clock_s = min(self.clock_s, _CLOCK_SHARE * self.seconds)
        clock = (time.monotonic() - self._begun_s) / max(clock_s, 1.0)
        return max(self._used / self.seconds, self._step / self.steps_most, clock)

    def _look(self, begun: float) -> None:
        now = self.student.arrays()
        self.student.load(self._mean)
        loss = self._loss()
        self.student.load(now)
        self._since += 1
        if loss < self._best:
            self._best, self._weights, self._since = loss, dict(self._mean), 0
        share = 100 * self._best / max(begun, 1e-12)
        self.tell(
            f"distilling: {100 * min(self._progress(), 1.0):.0f} % of {self.seconds:.0f} s, "
            f"{self._step} steps, held-out loss {share:.0f} % of what it was"
        )
        self._write(self._state(begun))

    def _one(self, broadener: Broadener) -> float:
        """One step; returns its loss before it."""
        part = (self._progress() - self._start) / (1 - self._start)
        for group in self._optimizer.param_groups:
            group["lr"] = self.rate * _SLOWER**self._slowed * _schedule(part)
        # Drawn by the step's number: a training that goes on sees what it would have seen.
        chosen = np.random.default_rng(self._step).integers(len(self._own), size=self._count)
        feeds = [broadener.variant(self._own[int(index)]) for index in chosen]
        self._optimizer.zero_grad()
        total = 0.0
        for batch in self._batches(feeds):
            loss = self._apart(batch)
            loss.backward()
            total += float(loss.detach())
        weights = list(self.student.weights.values())
        torch().nn.utils.clip_grad_norm_(weights, _CLIP)
        self._optimizer.step()
        self._step += 1
        done = self._step - self._first
        kept = min(_MEMORY, done / (done + 10))
        now = self.student.arrays()
        self._mean = {n: kept * mean + (1 - kept) * now[n] for n, mean in self._mean.items()}
        return total

    def _batches(self, feeds: Sequence[Feed]) -> list[list[Feed]]:
        """Feeds of one shape together, in batches that the graph takes."""
        by_shape: dict[Any, list[Feed]] = {}
        for feed in feeds:
            shape = tuple((name, array.shape) for name, array in feed.items())
            by_shape.setdefault(shape, []).append(feed)
        return [
            same[start : start + self._batch]
            for same in by_shape.values()
            for start in range(0, len(same), self._batch)
        ]

    def _apart(self, batch: Sequence[Feed]) -> Any:
        """The loss of a batch, weighed by its size."""
        feed = tensors(_stacked(batch))
        wanted = self.teacher.run(feed)
        found = self.student.run(feed, self._names)
        return distance(wanted, found, self.ends, self.between) * (len(batch) / self._count)

    def _loss(self) -> float:
        """Mean loss on the held-out slice."""
        with torch().no_grad():
            total = sum(float(self._apart(batch)) for batch in self._batches(self._fresh))
        return total * self._count / len(self._fresh)

    def _takes_batches(self) -> bool:
        """Whether student and teacher say of two samples at once what they say of each."""
        if len(self._own) < 2 or any(a.ndim < 1 for a in self._own[0].values()):
            return False
        pair = [self._own[0], self._own[1]]
        if {n: a.shape for n, a in pair[0].items()} != {n: a.shape for n, a in pair[1].items()}:
            return False
        with torch().no_grad():
            return all(_takes(pair, ask) for ask in (self._said, self.teacher.run))

    def _said(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        return self.student.run(feed, self._names)

    def _state(self, begun: float) -> dict[str, Any]:
        return {
            "now": tensors(self.student.arrays()),
            "best": tensors(self._weights),
            "mean": tensors(self._mean),
            "optimizer": self._optimizer.state_dict(),
            "numbers": (self._step, self._used, self._since, self._best, begun),
            "rate": (self._slowed, self._waited, self._first, self._start),
            "count": self._count,
        }

    def _write(self, state: Mapping[str, Any]) -> None:
        if self.kept is None:
            return
        stream = io.BytesIO()
        torch().save(dict(state), stream)
        aside = self.kept.with_suffix(".aside")
        self.kept.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(stream.getvalue())
        aside.replace(self.kept)

    def _resumed(self, begun: float) -> float:
        """Go on from what was written; returns the loss at the very start."""
        if self.kept is None or not self.kept.is_file():
            return begun
        try:
            state = torch().load(self.kept, weights_only=True)
            best = {name: w.numpy() for name, w in state["best"].items()}
            if "ended" in state:
                self._step, self._used, self._best, begun = state["ended"]
                self._weights, self._ended = best, True
                self.tell(f"distilled before, in {self._step} steps")
                return begun
            self.student.load({name: w.numpy() for name, w in state["now"].items()})
            self._optimizer.load_state_dict(state["optimizer"])
            self._mean = {name: w.numpy() for name, w in state["mean"].items()}
            self._slowed, self._waited, self._first, self._start = state["rate"]
            self._count = state["count"]
            self._step, self._used, self._since, self._best, begun = state["numbers"]
            self._weights = best
        except (OSError, RuntimeError, KeyError, EOFError, ValueError, pickle.UnpicklingError):
            return begun
        self.tell(f"distilling goes on after {self._step} steps")
        return begun


def identity(*parts: bytes) -> str:
    """A file's name for what a training is about."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:32]


def _schedule(progress: float) -> float:
    """Up over the first twentieth, then a cosine down to 0."""
    if progress < _WARM:
        return max(progress / _WARM, 0.05)
    return 0.5 * (1 + float(np.cos(np.pi * min((progress - _WARM) / (1 - _WARM), 1.0))))


def _takes(pair: Sequence[Feed], ask: Callable[[Mapping[str, Any]], dict[str, Any]]) -> bool:
    """Whether two samples at once give what each gives alone."""
    try:
        both = ask(tensors(_stacked(pair)))
    except (RuntimeError, IndexError, ValueError, RuntimeFailure):
        return False
    alone = [ask(tensors(feed)) for feed in pair]
    joined = {name: torch().cat([one[name] for one in alone]) for name in both}
    return all(
        both[name].shape == joined[name].shape
        and torch().allclose(both[name], joined[name], rtol=1e-2, atol=1e-3)
        for name in both
    )


def _stacked(feeds: Sequence[Feed]) -> Feed:
    if len(feeds) == 1:
        return feeds[0]
    return {name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]}
