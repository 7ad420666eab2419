"""Random recipes of the shelf `quantize` on any model, and what must hold of each.

    examine_recipe(model, seed, folder)    one random recipe; returns what it did

The checker passes; the runtime loads and runs the result at every optimization level; inputs and
outputs keep names, order and types; neither the file nor the message given is touched; the signal
stays above what the coarsest scheme in the recipe leaves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx

from edgeopt.core.action import Recipe
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.profile import DeviceProfile, QuantizationTypes
from edgeopt.graph.check import check
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.targets.profiles import load_profile
from edgeopt.testing.graphs import random_feeds
from edgeopt.testing.quantize_exam import evidence_of, sqnr_db
from edgeopt.testing.transform_exam import ExamFailed
from edgeopt.transforms.base import Offer
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace
from edgeopt.transforms.stages import transform_of

LEVELS = ("off", "basic", "extended", "all")
BOUNDS_DB: Mapping[str, float] = {
    "float16": 30.0,
    "weight_float16": 30.0,
    "embedding_int8": 20.0,
    "weight_only_int8": 15.0,
    "weight_only_blocks": 6.0,
}
"""What a scheme leaves at least on a random net; every 8-bit one of activations `EIGHT_DB`."""
EIGHT_DB = 12.0
COARSE_DB = 6.0
"""The same where weights have one scale a tensor, or ranges leave the largest values out."""
FAMILIES = ("rewrite", "fuse", "quantize")


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One recipe that held.

    Args:
        device: What was offered.
        transforms: Names of the quantizing transforms in it; none where all were off.
        signal_db: Of the worst output, over fresh inputs.
    """

    device: str
    transforms: tuple[str, ...]
    signal_db: float


def offers() -> Mapping[str, Offer]:
    """What devices of different schemes are offered."""
    seven = QuantizationTypes(reduce_range=True)
    unsigned = QuantizationTypes(weight="uint8", per_channel=False)
    profiles = {
        "vnni": _profile("x86_64", QuantizationTypes()),
        "7-bit": _profile("x86_64", seven),
        "uint8": _profile("aarch64", unsigned),
        "half": replace(
            _profile("aarch64", QuantizationTypes()), float16=("CPUExecutionProvider",)
        ),
        "tensorrt": load_profile("jetson-orin-nano").on("TensorrtExecutionProvider"),
    }
    return {name: Offer(profile=profile) for name, profile in profiles.items()}


def _profile(architecture: str, types: QuantizationTypes) -> DeviceProfile:
    return DeviceProfile(
        name="random", title="random", architecture=architecture, quantization=types
    )


def examine_recipe(model: onnx.ModelProto, seed: int, folder: Path) -> Examined:
    """One random recipe: a device, exact rules on or off, and alternatives of every choice.

    Raises:
        ExamFailed: Something does not hold; says for which recipe.
    """
    generator = np.random.default_rng(seed)
    device = str(generator.choice(sorted(offers())))
    before, path = model.SerializeToString(), folder / "model.onnx"
    path.write_bytes(before)
    workshop = Workshop(
        read_model(path),
        evidence=evidence_of(model, ArtifactStore(folder)),
        opset_ceiling=21,
        feed=random_feeds(model, 1, seed=1)[0],
        data_digest="sha256:random",
    )
    space = GraphSpace(workshop, offers()[device], families=FAMILIES)
    recipe = _drawn(space, generator)
    built = workshop.build(recipe, lenient=True)
    where = f"seed {seed} on {device}: {'; '.join(one.text for one in recipe.actions)}"
    check(built.graph)
    made = to_bytes(built.graph)
    fresh = random_feeds(model, 2, seed=2)
    if path.read_bytes() != before or model.SerializeToString() != before:
        raise ExamFailed(f"{where}: the given model was changed")
    expected = _contract(before)
    for level in LEVELS:
        Session(made, RuntimeSettings(optimization=level)).run(fresh[0])
    if _contract(made) != expected:
        raise ExamFailed(f"{where}: inputs or outputs are {_contract(made)}, not {expected}")
    done = _quantizing(recipe)
    least = min((BOUNDS_DB.get(name, EIGHT_DB) for name in done), default=60.0)
    if done and _is_coarse(recipe):
        least = min(least, COARSE_DB)
    signal = sqnr_db(before, made, fresh)
    if signal < least:
        raise ExamFailed(f"{where}: {signal:.1f} dB, less than {least:g}")
    return Examined(device=device, transforms=done, signal_db=signal)


def _drawn(space: GraphSpace, generator: np.random.Generator) -> Recipe:
    """Codes of any density: nearly everything, or nearly nothing."""
    share = generator.random()
    codes = [
        int(generator.integers(1, len(choice))) if generator.random() < share else 0
        for choice in space.choices
    ]
    return space.decode(codes)


def _quantizing(recipe: Recipe) -> tuple[str, ...]:
    names = dict.fromkeys(action.transform for action in recipe.actions)
    return tuple(name for name in names if transform_of(name)[0] == "quantize")


def _is_coarse(recipe: Recipe) -> bool:
    clipped = any(action.get("range", "minmax") != "minmax" for action in recipe.actions)
    return clipped or any(action.get("per_channel", True) is False for action in recipe.actions)


def _contract(model: bytes) -> tuple[tuple[str, ...], ...]:
    """Inputs and outputs in order, each with its type and sizes as the file declares them."""
    graph = onnx.load_from_string(model).graph
    return tuple(
        tuple(f"{value.name} {value.type.tensor_type}" for value in values)
        for values in (graph.input, graph.output)
    )
