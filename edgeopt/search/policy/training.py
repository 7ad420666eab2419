"""A training from its beginning or its last checkpoint to its end: `edgeopt train` and releases."""
# pyright: reportMissingImports=false, reportUntypedBaseClass=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from edgeopt.errors import UsageError
from edgeopt.search.policy.course import Course
from edgeopt.search.policy.learner import Learner, Settings
from edgeopt.search.policy.network import Weights
from edgeopt.search.policy.weights import POLICY, Trained, save

CHECKPOINT = "checkpoint.pt"
_LESSONS, _ROUNDS = 100, 5
"""So many between two lines of progress."""
_EVERY_S = 30.0
"""Between two checkpoints."""
_FORMAT = 1

Progress = Callable[[str], None]
Log = Callable[[str, float, int], None]


class Training:
    """One training in a folder.

    Args:
        folder: Takes checkpoints, the policy, and TensorBoard's logs where that is installed.
        settings: Of the training.
        begin: Weights to begin with, where there is no checkpoint.
        origin: Words about these weights.
        progress: Takes lines.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        begin: Weights,
        origin: Mapping[str, str],
        progress: Progress,
    ) -> None:
        self._folder, self._settings, self._progress = folder, settings, progress
        self._learner = Learner(begin, settings)
        self._origin = dict(origin)
        self._spent_s, self._saved = 0.0, time.monotonic()
        self._clock = time.process_time()
        if (folder / CHECKPOINT).exists():
            self._restore()

    def run(self, course: Course, stopped: Callable[[], bool]) -> bool:
        """Lessons, then rounds; True where it came to its end, False where it was stopped."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            log = _log(self._folder, stack)
            while not self._done and not stopped():
                self._one(course, log)
                if time.monotonic() - self._saved > _EVERY_S:
                    self.keep()
        self.keep()
        return self._done

    def keep(self) -> Path:
        """Write checkpoint and policy; returns the policy's path."""
        self._spent_s += time.process_time() - self._clock
        self._clock, self._saved = time.process_time(), time.monotonic()
        state = self._learner.state()
        content = {
            "format": _FORMAT,
            "settings": _plain(self._settings),
            "origin": self._origin,
            "spent_s": self._spent_s,
            **state,
        }
        beside = self._folder / (CHECKPOINT + ".part")
        torch.save(content, beside)
        os.replace(beside, self._folder / CHECKPOINT)
        path = self._folder / POLICY
        save(path, Trained(self._learner.network.arrays(), self._words()))
        return path

    @property
    def _done(self) -> bool:
        learner, settings = self._learner, self._settings
        return learner.lessons >= settings.lessons and learner.rounds >= settings.rounds

    def _one(self, course: Course, log: Log) -> None:
        learner, settings = self._learner, self._settings
        if learner.lessons < settings.lessons:
            loss = learner.imitate(course)
            log("imitation/loss", loss, learner.lessons)
            if not learner.lessons % _LESSONS or learner.lessons == settings.lessons:
                whole = f"{learner.lessons} of {settings.lessons}"
                self._progress(f"imitation: step {whole}, cross entropy {loss:.3f}")
            return
        found = learner.reinforce(course)
        for name, value in found.items():
            log(f"group/{name}", value, learner.rounds)
        if not learner.rounds % _ROUNDS or learner.rounds == settings.rounds:
            self._progress(
                f"reinforcement: round {learner.rounds} of {settings.rounds}, gained "
                f"{found['gained']:+.3f} in {found['steps']:.1f} steps"
            )

    def _restore(self) -> None:
        path = self._folder / CHECKPOINT
        hint = "give another --out, or --fresh to begin again there"
        try:
            found: Any = torch.load(path, weights_only=True)
            told = dict(found["settings"])
            if found["format"] != _FORMAT or told["seed"] != self._settings.seed:
                raise UsageError(
                    "the checkpoint there is of a training with another seed",
                    where=str(path),
                    hint=hint,
                )
            self._learner.restore(found)
            self._origin, self._spent_s = dict(found["origin"]), float(found["spent_s"])
        except (RuntimeError, KeyError, TypeError, ValueError, EOFError, OSError) as error:
            raise UsageError(
                "the checkpoint there cannot be read", where=str(path), hint=hint
            ) from error
        done = f"{self._learner.lessons} steps and {self._learner.rounds} rounds"
        self._progress(f"going on after {done}")

    def _words(self) -> dict[str, str]:
        """For the file: what was done, with which seed, in how many processor seconds."""
        return self._origin | {
            "lessons": str(self._learner.lessons),
            "rounds": str(self._learner.rounds),
            "seed": str(self._settings.seed),
            "processor_s": f"{self._spent_s:.0f}",
        }


def _plain(settings: Settings) -> dict[str, float]:
    return {name: getattr(settings, name) for name in Settings.__dataclass_fields__}


def _log(folder: Path, stack: ExitStack) -> Log:
    """TensorBoard's, where it is installed."""
    if find_spec("tensorboard") is None:
        return lambda name, value, step: None
    from torch.utils.tensorboard.writer import SummaryWriter

    writer = SummaryWriter(str(folder / "tensorboard"))
    stack.callback(writer.close)
    return lambda name, value, step: writer.add_scalar(name, value, step)
