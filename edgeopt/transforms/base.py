"""`Transform`: what every plug-in on the five shelves is.

A transform answers two questions: where could you act on this graph (`sites`), and act exactly
there (`apply`). The shelf it lies on is its contract, and decides its exam:

    rewrite, fuse   equal outputs within the runtime's own tolerance
    quantize        declared precision, error bounded
    prune           removing a group equals zeroing it, holding a value equals its mean
    repair          nearer to the baseline, structure unchanged; with an attribute `on_float` of
                    what pruning did, before anything is quantized

`sites` may look at the device's profile; `apply` never does, so that a recipe means the same
everywhere.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.core.data import Feed
from edgeopt.core.profile import DeviceProfile
from edgeopt.graph.editor import Editor
from edgeopt.transforms.calibration.moments import Moments
from edgeopt.transforms.calibration.observation import Channels

T = TypeVar("T")
ShelfName = Literal["rewrite", "fuse", "prune", "quantize", "repair"]
STAGES: tuple[ShelfName, ...] = ("rewrite", "fuse", "prune", "quantize", "repair")
EXACT: frozenset[str] = frozenset({"rewrite", "fuse"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why an action does not apply: data, not an exception.

    Args:
        reason: One sentence.
        nodes: Names of the nodes at fault.
        needless: It is no harm: there was nothing to do, or nothing gained by it.
    """

    reason: str
    nodes: tuple[str, ...] = ()
    needless: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What decides which actions are offered.

    Args:
        profile: Of the device that the model is for.
        data: Whether there is calibration data.
        contrib: Whether operators of `com.microsoft` are allowed (`--ops onnx` forbids them).
        freeze: Input name to the only shape that the built models need to take, None for what
            stays free; empty where the user allows no such thing.
        values: Input name to the only value that it ever has; as `freeze`.
        drop_outputs: Names of outputs that the user does not need; empty where all stay.
        distil_s: What one training may take, in seconds of one core; 0 offers none.
    """

    profile: DeviceProfile
    data: bool = True
    contrib: bool = True
    freeze: Mapping[str, tuple[int | None, ...]] = field(
        default_factory=dict[str, tuple[int | None, ...]]
    )
    values: Mapping[str, int | float | bool] = field(default_factory=dict[str, int | float | bool])
    drop_outputs: frozenset[str] = frozenset()
    distil_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What calibration found out about one value: extremes, and mean over samples a channel."""

    low: float
    high: float


class Evidence(Protocol):
    """What a transform may know from data, computed at most once and kept as artifacts.

    `model` is always the float graph as it is now. Implemented by `calibration.statistics`.
    """

    def ranges(
        self,
        model: ir.Model,
        names: Sequence[str],
        digest: str | None,
        *,
        method: str = "minmax",
    ) -> tuple[Mapping[str, Range], str]:
        """Ranges of the named values, and the artifact's digest.

        With a digest the stored ranges are used where they hold all the names; else one
        streaming pass over the calibration part runs, the same for all methods.

        A quantize action that offers methods has the parameter `range` (`minmax`, `average`,
        `p99.99`, `mse`, `entropy`, each also with `+broad`: see `calibration.methods`) and hands
        it on; without the parameter an action means `minmax`:

            evidence.ranges(model, names, action.artifact("ranges"),
                            method=str(action.get("range", "minmax")))
        """
        ...

    def channels(
        self, model: ir.Model, names: Sequence[str], *, axis: int = 1
    ) -> Mapping[str, Channels]:
        """Per-channel extremes and sums of the named values, from the same pass."""
        ...

    def means(
        self,
        model: ir.Model,
        names: Sequence[str],
        *,
        axis: int = 1,
        limit: int | None = None,
    ) -> Mapping[str, npt.NDArray[np.float64]]:
        """Mean a channel of the named values over the calibration part, or its first samples."""
        ...

    @property
    def reference(self) -> ir.Model | None:
        """The graph before what is under way: for quantization, and for repairs of it, the float
        graph before the first quantize action; for repairs of a pruned graph (`on_float`) the one
        before the first prune action.
        """
        ...

    def moments(
        self, model: ir.Model, wanted: Sequence[tuple[str, int]], *, products: bool
    ) -> Mapping[tuple[str, int], Moments]:
        """Sums, and sums of products, of channels of values along an axis each.

        Args:
            model: The float graph.
            wanted: Name and axis; those that no sample showed, or whose number of channels
                differs from sample to sample, are missing in the result.
            products: Whether products of two channels are asked for.
        """
        ...

    def once(self, model: ir.Model, what: str, make: Callable[[], T]) -> T:
        """What `make` finds out about a float graph: asked again for an equal graph, it is there.

        Clones are equal graphs; the latest few answers are kept, each shared by who asks.
        """
        ...

    def remember_float(self, model: ir.Model) -> None:
        """Take a graph as `reference`; whoever calls does not change it any more."""
        ...

    def feeds(self, count: int) -> Sequence[Feed]:
        """Some calibration feeds."""
        ...

    def broad(self, count: int) -> Sequence[Feed]:
        """Some calibration feeds under the data's built-in shifts; none where none fits."""
        ...

    @property
    def unfinished(self) -> Path | None:
        """Folder for what takes minutes and is not done yet; None keeps nothing."""
        ...

    @property
    def kind(self) -> str:
        """What the samples are: `image`, `audio`, `features`, `tokens`; empty where not known."""
        ...

    @property
    def patience_s(self) -> float:
        """How long, by the clock, whoever waits for this has time for what takes minutes."""
        ...

    def tell(self, text: str) -> None:
        """Say how far something is that takes minutes."""
        ...

    def keep(self, arrays: Mapping[str, npt.NDArray[Any]]) -> str:
        """Store arrays as an artifact; returns its digest."""
        ...

    def recall(self, digest: str) -> Mapping[str, npt.NDArray[Any]] | None:
        """The arrays of an artifact; None where it is not stored."""
        ...


@runtime_checkable
class Transform(Protocol):
    """A plug-in of `transforms/<shelf>/<name>.py`, as its module-level `PLUGIN`.

    Attributes:
        version: Raised when the same action starts to mean something else.
        needs_data: Whether `apply` asks the evidence for anything.
        whole_model: Whether its only site is `*`; such actions are whole tools, offered as
            standard candidates, not as steps.
    """

    version: int
    needs_data: bool
    whole_model: bool

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """Every action that this transform could do here, in graph order."""
        ...

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Do it through the editor.

        Returns the action with its artifacts, or a rejection after which the caller undoes
        whatever was begun. Raises nothing for a graph that does not fit.
        """
        ...
