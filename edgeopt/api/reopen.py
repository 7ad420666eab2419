"""Opening a study's model and data again, to rebuild what a recipe says."""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgeopt.api import frozen
from edgeopt.api.subject import Subject, open_subject
from edgeopt.api.workspace import Workspace
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.core.model import Model
from edgeopt.core.study import Study
from edgeopt.errors import UsageError
from edgeopt.transforms.calibration.statistics import Statistics
from edgeopt.transforms.replay import Workshop


@dataclass(frozen=True, kw_only=True)
class Reopened:
    """A study with its model, data and workshop."""

    study: Study
    subject: Subject
    workshop: Workshop

    @property
    def model(self) -> Model:
        """The user's file."""
        return self.subject.model

    def feeds(self, count: int) -> Sequence[Feed]:
        """Real inputs where there is data, else random ones."""
        data = self.subject.data
        if data is not None:
            return [data.search.feeds[index] for index in range(min(count, len(data.search)))]
        return _without_data(self.model, self.study, count)

    def without_optimization(self, settings: RuntimeSettings) -> RuntimeSettings:
        """The same session, graph optimizations off."""
        return replace(settings, optimization="off")


def reopen(study: Study, workspace: Workspace) -> Reopened:
    """Open model and data where they were found.

    Raises:
        UsageError: The files are gone, or have changed since.
    """
    path = Path(study.origin.get("model", ""))
    if not path.is_file():
        raise UsageError(
            f"the study's model is no longer at {path}",
            where=study.id,
            hint="put it back, or run the study again with its new place",
        )
    subject = open_subject(
        path,
        data=study.origin.get("data") or None,
        metric=study.metric or None,
        seed=int(study.origin.get("seed", "0")),
        progress=_silent,
    )
    if subject.model.digest != study.baseline:
        raise UsageError(
            "the model file has changed since the study",
            where=str(path),
            hint="use `edgeopt replay RECIPE --on MODEL` to carry a recipe over to the new one",
        )
    ceiling = int(study.origin.get("opset_ceiling", "21"))
    # The study's own feed: what normalisation may do is decided on it.
    feed = None if subject.data is not None else _without_data(subject.model, study, 1)[0]
    workshop = workshop_for(subject, workspace, ceiling, feed)
    return Reopened(study=study, subject=subject, workshop=workshop)


def _without_data(model: Model, study: Study, count: int) -> Sequence[Feed]:
    """The random inputs that the study was measured with."""
    shapes: list[tuple[str, tuple[int, ...]]] = ast.literal_eval(
        study.options.get("shapes") or "[]"
    )
    asked = frozen.parsed(study.options.get("freeze", "").splitlines())
    return frozen.without_data(model, count, asked, shapes=dict(shapes), seed=study.seed)


def workshop_for(
    subject: Subject,
    workspace: Workspace,
    opset_ceiling: int,
    feed: Feed | None = None,
    *,
    progress: Callable[[str], None] | None = None,
    patience_s: Callable[[], float] | None = None,
) -> Workshop:
    """A workshop over a subject, with its calibration data behind it.

    Args:
        feed: Stands in for free dimensions where there is no data.
        progress: Told how far a training is.
        patience_s: Asked how long one may take now, by the clock.
    """
    data = subject.data
    part, state = (None, None) if data is None else (data.calibration, data.state)
    return Workshop(
        subject.model,
        evidence=Statistics(
            part,
            workspace.artifacts,
            state=state,
            broad=None if data is None else data.broad,
            kept=workspace.folder / "calibration",
            data_digest="" if data is None else data.digest,
            kind="" if data is None else data.kind,
            progress=progress,
            patience_s=patience_s,
        ),
        opset_ceiling=opset_ceiling,
        feed=feed if data is None else data.calibration.feeds[0],
        data_digest="" if data is None else data.digest,
    )


def _silent(_: str) -> None:
    """Progress that nobody reads."""
