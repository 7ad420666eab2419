"""Layer tables of built models: read from the graph, compared with the given model, and kept.

A table is kept beside the store under the digest of what it was computed from, so a report that is
written again reads it, also when the model's file is gone.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.api.workspace import Workspace
from edgeopt.core import codec
from edgeopt.core import digest as digests
from edgeopt.core.action import Recipe
from edgeopt.core.data import Feed
from edgeopt.core.layers import LayerTable
from edgeopt.core.trial import Trial
from edgeopt.core.written import write_whole
from edgeopt.errors import EdgeOptError
from edgeopt.graph.layers import layers_of
from edgeopt.graph.noise import INPUTS, ValueReference
from edgeopt.graph.runtime import observed_shapes
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.trace import Trace, trace

if TYPE_CHECKING:
    import onnx_ir as ir

FORMAT = 1
NO_TIME = "there was no time left to read the layers; `edgeopt report` does it"
Progress = Callable[[str], None]


@dataclass(kw_only=True)
class LayerReader:
    """Makes the tables of one model's candidates.

    Args:
        workshop: Builds them.
        feeds: Real inputs; random ones where there is no data.
        folder: Where tables are kept.
    """

    workshop: Workshop
    feeds: Sequence[Feed]
    folder: Path
    _reference: ValueReference | None = None
    _why_not: str = ""

    def table(self, recipe: Recipe) -> LayerTable:
        """The layers of what a recipe builds.

        Raises:
            EdgeOptError: It cannot be built.
        """
        path = kept_at(self.folder, recipe)
        known = read_table(path)
        if known is None:
            built = self.workshop.read(recipe)
            known = self.of(built.graph, trace(self.workshop, built.recipe), recipe)
            _keep(path, known)
        return known

    def of(self, graph: "ir.Model", seen: Trace | None, recipe: Recipe | None = None) -> LayerTable:
        """The layers of a graph, beside the given model's values.

        Args:
            graph: Unchanged.
            seen: Which action did what; None goes by the sites of the recipe.
            recipe: What the graph was built from; None for a file of unknown origin.
        """
        absent: dict[str, str] = {}
        rows = layers_of(graph, self.shapes(graph, absent))
        noise = self._noise(graph, absent)
        done = _by_site(recipe) if seen is None else seen.changed
        if seen is None:
            absent["actions"] = (
                "a file without a recipe: nothing says how it was made"
                if recipe is None
                else "by the sites of the actions: the recipe was not applied again"
            )
        return LayerTable(
            layers=tuple(
                replace(row, snr_db=noise.get(row.value), actions=done.get(row.value, ()))
                for row in rows
            ),
            absent=absent,
            snr_inputs=len(self._reference.feeds) if noise and self._reference else 0,
            removed={} if seen is None else seen.removed,
        )

    def shapes(
        self, graph: "ir.Model", absent: dict[str, str]
    ) -> Mapping[str, tuple[int, ...]] | None:
        """Concrete shapes of a graph's values for one input; None, and why in `absent`."""
        if not self.feeds:
            absent["macs"] = "free dimensions count as 1: there is no input at hand"
            return None
        try:
            return observed_shapes(graph, self.feeds[0])
        except EdgeOptError as error:
            absent["macs"] = f"by recorded shapes: {error.what}"
            return None

    def _noise(self, graph: "ir.Model", absent: dict[str, str]) -> Mapping[str, float]:
        if self._reference is None and not self._why_not:
            try:
                base = self.workshop.build(self.workshop.recipe()).graph
                self._reference = ValueReference(base, self.feeds[:INPUTS])
            except (EdgeOptError, AttributeError) as error:  # sequences are no arrays
                self._why_not = f"not compared: {error}".splitlines()[0]
        if self._reference is None:
            absent["snr_db"] = self._why_not
            return {}
        try:
            return self._reference.against(graph)
        except (EdgeOptError, AttributeError) as error:
            absent["snr_db"] = f"not compared: {error}".splitlines()[0]
            return {}


def layer_tables(
    trials: Iterable[Trial], reader: LayerReader, *, limit_s: float, progress: Progress
) -> tuple[Mapping[str, LayerTable], str]:
    """Model digest to table, of the trials that a report shows.

    Args:
        trials: Those that matter most first.
        reader: Makes what is not known yet.
        limit_s: After so long no further table is begun.
        progress: Told what is done.

    Returns:
        The tables, and why others are missing; empty where none is.
    """
    start, reason = time.monotonic(), ""
    found: dict[str, LayerTable] = {}
    for trial in trials:
        if trial.model_digest in found:
            continue
        if read_table(kept_at(reader.folder, trial.candidate.recipe)) is None:
            if time.monotonic() - start > limit_s:
                reason = NO_TIME
                continue
            progress(f"reading the layers of c{trial.number}")
        try:
            found[trial.model_digest] = reader.table(trial.candidate.recipe)
        except EdgeOptError as error:
            reason = f"c{trial.number} could not be built again: {error.what}"
    return found, reason


def kept_tables(trials: Iterable[Trial], workspace: Workspace) -> Mapping[str, LayerTable]:
    """The tables that an earlier report made, without model and data."""
    folder = layer_folder(workspace)
    found = {t.model_digest: read_table(kept_at(folder, t.candidate.recipe)) for t in trials}
    return {digest: table for digest, table in found.items() if table is not None}


def layer_folder(workspace: Workspace) -> Path:
    """Where tables are kept."""
    return workspace.folder / "layers"


def kept_at(folder: Path, recipe: Recipe) -> Path:
    """The file of a recipe's table: artifacts count, since they change the values."""
    return folder / f"{digests.short(digests.of_text(recipe.text))}.json"


def read_table(path: Path) -> LayerTable | None:
    """A kept table; None where there is none that this version can read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            return None
        return codec.decode(LayerTable, document["table"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(path: Path, table: LayerTable) -> None:
    """A table that cannot be kept is made again the next time."""
    text = json.dumps({"format": FORMAT, "table": codec.encode(table)}, separators=(",", ":"))
    with contextlib.suppress(EdgeOptError):
        write_whole(path, text, what="a layer table cannot be kept", hint="free disk space")


def _by_site(recipe: Recipe | None) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for action in () if recipe is None else recipe.actions:
        found[action.site] = (*found.get(action.site, ()), action.bare().text)
    return found
