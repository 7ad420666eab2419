"""`TrialBook`: the trials of one study while several devices add to them."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from edgeopt.api.workspace import Workspace
from edgeopt.core.front import Front, front_of
from edgeopt.core.objective import Objective
from edgeopt.core.trial import Trial


class TrialBook:
    """A study's trials in memory and in the store; safe between threads.

    It also knows which built models are in use, so that one device does not delete what another
    is about to measure.

    Args:
        workspace: With the store.
        study: Id of the study.
        objectives: What guides the search, by device.
    """

    def __init__(
        self, workspace: Workspace, study: str, objectives: Mapping[str, tuple[Objective, ...]]
    ) -> None:
        self._objectives = dict(objectives)
        self._workspace = workspace
        self._study = study
        self._lock = threading.RLock()
        self._held: dict[str, int] = {}
        self._trials = list(workspace.trials.trials(study))

    def trials(self) -> list[Trial]:
        """All of them, in order of their number."""
        with self._lock:
            return list(self._trials)

    def add(self, trial: Trial) -> Trial:
        """Give a trial the next number and keep it; it is on the disk when this returns."""
        with self._lock:
            number = self._trials[-1].number + 1 if self._trials else 0
            trial = replace(trial, number=number)
            self._workspace.trials.add(self._study, trial)
            self._trials.append(trial)
            return trial

    def objectives(self, device: str) -> tuple[Objective, ...]:
        """What guides the search on a device, with its bounds there."""
        with self._lock:
            return self._objectives[device]

    def rebase(self, device: str, objectives: tuple[Objective, ...]) -> None:
        """Give a device bounds of its own: its baseline is judged by its own outputs."""
        with self._lock:
            self._objectives[device] = objectives

    def front(self, device: str) -> Front:
        """The front of a device, of all that is stored."""
        return front_of(self.trials(), self.objectives(device), device)

    def would_enter(self, trial: Trial) -> bool:
        """Whether the front of its device would hold a trial that is not stored yet."""
        found = [*self.trials(), trial]
        numbered = replace(trial, number=len(found))
        front = front_of([*found[:-1], numbered], self.objectives(trial.device), trial.device)
        return any(member is numbered for member in front.members)

    def find(self, key: str, device: str, protocol: str) -> Trial | None:
        """The latest trial of a candidate, whatever came of it."""
        with self._lock:
            for trial in reversed(self._trials):
                if (trial.candidate.key, trial.device, trial.protocol) == (key, device, protocol):
                    return trial
        return None

    def model_path(self, recipe: str) -> Path:
        """Where the built model of a recipe (its digest) lies."""
        return self._workspace.model_path(self._study, recipe)

    def hold(self, recipe: str) -> None:
        """Keep the built model of a recipe on the disk until it is released as often."""
        with self._lock:
            self._held[recipe] = self._held.get(recipe, 0) + 1

    def release(self, recipe: str) -> None:
        """Say that a held model is not needed any more."""
        with self._lock:
            self._held[recipe] -= 1
            if not self._held[recipe]:
                del self._held[recipe]

    def drop_models(self) -> None:
        """Delete every built model but those of the fronts and those in use.

        Each can be built again from its recipe.
        """
        with self._lock:
            members = {
                trial.candidate.recipe.digest
                for device in self._objectives
                for trial in self.front(device).members
            }
            kept = [self.model_path(recipe) for recipe in {*members, *self._held}]
            self._workspace.keep_models(self._study, kept)
