"""A minimal graph through edgeopt's own machinery, as `edgeopt run` would take it."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from edgeopt.core.action import Action, Recipe
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.core.lowered import Lowered
from edgeopt.core.profile import DeviceProfile, QuantizationTypes
from edgeopt.graph.check import check
from edgeopt.graph.lowered import lowered
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import Session, profile_nodes
from edgeopt.graph.write import to_bytes, write_model
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.transforms.base import EXACT, Offer
from edgeopt.transforms.choices import switched_on
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace

Info = tuple[str, str, tuple[int | str | None, ...]]
SMALL_IMAGE: Feed = {
    "x": np.random.default_rng(7).normal(size=(1, 3, 8, 8)).astype(np.float32),
}
"""What the nets of `images(3, ...)` take."""
LEVELS = ("off", "basic", "extended", "all")
SAMPLES = 16


def space_of(
    model: onnx.ModelProto,
    folder: Path,
    *,
    feeds: Sequence[Feed] | None = None,
    types: QuantizationTypes | None = None,
    block: int = 4,
) -> GraphSpace:
    """The space of a model with calibration data, on a processor with 8-bit kernels."""
    folder.mkdir(exist_ok=True)
    given = feeds if feeds is not None else graphs.random_feeds(model, SAMPLES, seed=1)
    workshop = Workshop(
        read_model(graphs.write(model, folder)),
        evidence=evidence_of(model, ArtifactStore(folder), given),
        opset_ceiling=21,
        feed=given[0],
        data_digest="sha256:data",
    )
    return GraphSpace(workshop, usual_offer(types, block))


def usual_offer(types: QuantizationTypes | None = None, block: int = 4) -> Offer:
    """What a processor with 8-bit kernels is offered."""
    profile = DeviceProfile(
        name="field",
        title="field",
        architecture="x86_64",
        channel_block=block,
        quantization=types or QuantizationTypes(),
    )
    return Offer(profile=profile)


def images(given: int, made: int) -> tuple[list[Info], list[Info]]:
    """`x` and `y` of a net on images of 8 by 8 pixels that keeps their size."""
    shape = ("N", given, 8, 8)
    return [("x", "float32", shape)], [("y", "float32", ("N", made, 8, 8))]


def guess(space: GraphSpace, name: str) -> Recipe:
    """The recipe of a standard candidate."""
    return dict(space.standard())[name].recipe


def integers(space: GraphSpace, *, without: str = "", repairs: str = "") -> Recipe:
    """Every exact rule, and every group for speed, with extremes as ranges.

    Args:
        without: Site of a group that is left out.
        repairs: Name of a repair that follows.
    """
    wanted = {
        choice.name: switched_on(choice, EXACT | {"quantize"})
        for choice in space.choices
        if choice.name not in {"quantize:*", f"quantize:{without}"}
    }
    assert any(name.startswith("quantize:") for name in wanted), "there is nothing to quantize"
    wanted |= {f"repair:{repairs}": 1} if repairs else {}
    assert wanted.keys() <= {choice.name for choice in space.choices}
    return space.decode([wanted.get(choice.name, 0) for choice in space.choices])


def built(space: GraphSpace, recipe: Recipe) -> ir.Model:
    """The graph of a recipe, built strictly; exact actions are proven, the checker has passed."""
    made = space.workshop.build(recipe)
    space.workshop.verify(made)
    check(made.graph)
    return made.graph


def alone(space: GraphSpace, *actions: Action) -> ir.Model:
    """The graph of these actions and no others."""
    return built(space, space.workshop.recipe(actions))


def offered(space: GraphSpace, transform: str) -> list[Action]:
    """Actions of one transform among the alternatives of all choices."""
    return [
        action
        for choice in space.choices
        for alternative in choice.alternatives
        for action in alternative
        if action.transform == transform
    ]


def signal_db(
    model: onnx.ModelProto, graph: ir.Model, feeds: Sequence[Feed] | None = None
) -> float:
    """Signal to noise in dB of the worst output at the worst level, on inputs of its own.

    The float model is run without the runtime's optimizations, the other one at every level.
    """
    given = feeds if feeds is not None else graphs.random_feeds(model, 8, seed=2)
    reference = Session(model.SerializeToString(), RuntimeSettings(optimization="off"))
    expected = [reference.run(feed) for feed in given]
    found: list[float] = []
    for level in LEVELS:
        session = Session(to_bytes(graph), RuntimeSettings(optimization=level))
        made = [session.run(feed) for feed in given]
        found += [
            ratio_db([each[name] for each in expected], [each[name] for each in made])
            for name in reference.outputs
        ]
    return min(found)


def ratio_db(expected: Sequence[npt.NDArray[np.floating]], made: Sequence[npt.NDArray]) -> float:
    """Power of the expected arrays over that of the differences, in dB; at most 200."""
    pairs = [
        (e.astype(np.float64), m.astype(np.float64)) for e, m in zip(expected, made, strict=True)
    ]
    signal = sum(float((e**2).sum()) for e, _ in pairs)
    noise = sum(float(((e - m) ** 2).sum()) for e, m in pairs)
    assert np.isfinite(noise)
    return min(10 * float(np.log10(signal / max(noise, 1e-300))), 200.0)


def placement(graph: ir.Model, feed: Feed) -> Lowered:
    """What the runtime makes of a graph with all its optimizations."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        write_model(graph, path)
        return lowered(profile_nodes(path, RuntimeSettings(), feed, runs=1), graph)
