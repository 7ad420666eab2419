"""`edgeopt replay`: a recipe onto a model, also one with retrained weights; verified."""

from dataclasses import dataclass
from pathlib import Path

from edgeopt.api import frozen
from edgeopt.api.reopen import workshop_for
from edgeopt.api.subject import Progress, open_subject
from edgeopt.api.workspace import Workspace
from edgeopt.core.action import Recipe
from edgeopt.errors import UsageError
from edgeopt.graph.structure import structure_digest, weights_digest
from edgeopt.graph.write import write_model
from edgeopt.transforms.replay import Built, Workshop


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """A rebuilt model.

    Args:
        path: The file.
        structure: Structural digest: equal for equal recipes on models of one structure.
        weights: Digest of the weights: equal exactly where the artifacts were reused.
        same_baseline: Whether the recipe was written for this very file.
        recipe: With the artifacts of this replay.
    """

    path: Path
    structure: str
    weights: str
    same_baseline: bool
    recipe: Recipe


def replay(
    recipe: Path,
    model: str,
    *,
    out: Path,
    data: str | None,
    store: Path | None,
    seed: int,
    progress: Progress,
) -> Replayed:
    """Apply a recipe file to a model and write the result.

    On the file that the recipe was written for, what was computed from data is loaded; on any
    other it is computed again, and a repair that brings these weights nothing is left out.

    Raises:
        UsageError: The recipe cannot be read, or an action does not apply.
        WrongOutputError: An exact action changed the outputs.
    """
    if not recipe.is_file():
        raise UsageError("there is no such recipe file", where=str(recipe))
    asked = Recipe.parse(recipe.read_text(encoding="utf-8"))
    subject = open_subject(model, data=data, metric=None, seed=seed, progress=progress)
    with Workspace.open(store) as workspace:
        feed = frozen.feed_of(asked, subject.model) if subject.data is None else None
        workshop = workshop_for(subject, workspace, asked.opset or 21, feed)
        same = asked.baseline == subject.model.digest
        built = workshop.build(asked) if same else _on_others(workshop, asked, progress)
        workshop.verify(built)
        written = write_model(built.graph, out)
    return Replayed(
        path=written.path,
        structure=structure_digest(built.graph),
        weights=weights_digest(built.graph),
        same_baseline=same,
        recipe=built.recipe,
    )


def _on_others(workshop: Workshop, asked: Recipe, progress: Progress) -> Built:
    """On other weights than it was written for: without the repairs that bring these nothing.

    What mends a pruned net is never left out: without it the net is ruined.

    Raises:
        UsageError: Something else does not apply.
    """
    built = workshop.build(asked, lenient=True)
    if not all(why.needless for _, why in built.rejected):
        return workshop.build(asked)
    for action, why in built.rejected:
        progress(f"{action.transform} is left out on these weights: {why.reason}")
    return built
