"""A recipe on other weights than its own: repairs that bring these nothing are left out."""

from pathlib import Path

import numpy as np
import pytest

from edgeopt.api.replay import Replayed, replay
from edgeopt.core.action import Action, Recipe
from edgeopt.graph.read import read_model
from edgeopt.testing import graphs
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.channels.groups import Dependencies
from edgeopt.transforms.repair.distil import PLUGIN as DISTIL
from edgeopt.transforms.replay import ActionRejected

MEND = Action.of("least_squares", "*", samples=8)
"""Nothing was pruned: it has nothing to do on any weights."""


def _replayed(folder: Path, action: Action, baseline: int, told: list[str]) -> Replayed:
    """`_with` of one action."""
    return _with(folder, (action,), baseline, told)


def _with(folder: Path, actions: tuple[Action, ...], baseline: int, told: list[str]) -> Replayed:
    """A recipe for the chain of a seed, on the chain of seed 0."""
    models = [graphs.conv_chain(seed=seed) for seed in (0, 1)]
    paths = [graphs.write(one, folder, f"{n}.onnx") for n, one in enumerate(models)]
    feeds = graphs.random_feeds(models[0], 16)
    np.savez(folder / "data.npz", **{n: np.stack([f[n] for f in feeds]) for n in feeds[0]})
    recipe = Recipe(baseline=read_model(paths[baseline]).digest, actions=actions)
    (folder / "one.recipe").write_text(recipe.text, encoding="utf-8")
    return replay(
        folder / "one.recipe",
        str(paths[0]),
        out=folder / "out.onnx",
        data=str(folder / "data.npz"),
        store=folder / "store",
        seed=0,
        progress=told.append,
    )


def test_a_repair_that_brings_nothing_is_left_out(tmp_path: Path) -> None:
    """It says so; the file is there, and its recipe is without it."""
    told: list[str] = []
    made = _replayed(tmp_path, MEND, 1, told)
    assert made.path.is_file()
    assert not made.same_baseline
    assert made.recipe.actions == ()
    assert any("least_squares is left out on these weights: nothing was pruned" in t for t in told)


def test_on_the_file_that_it_was_written_for_it_is_an_error(tmp_path: Path) -> None:
    """There it was computed once."""
    with pytest.raises(ActionRejected, match="nothing was pruned"):
        _replayed(tmp_path, MEND, 0, [])


def test_what_is_no_repair_is_an_error_anywhere(tmp_path: Path) -> None:
    """A layer that is not there cannot be left out."""
    with pytest.raises(ActionRejected, match="no node"):
        _replayed(tmp_path, Action.of("drop_layer", "nowhere"), 1, [])


def test_what_mends_a_pruned_net_is_never_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training that cannot be had there: without it the net would be ruined."""
    monkeypatch.setattr("edgeopt.transforms.repair._distilled.is_installed", lambda: False)
    groups = Dependencies(opened(graphs.conv_chain())).groups
    cut = Action.of("channels_l1", groups[0].name, keep=str(groups[0].width // 2))
    train = Action.of("distil", "*", version=DISTIL.version, samples=8, seconds=10.0)
    with pytest.raises(ActionRejected, match="torch is not installed"):
        _with(tmp_path, (cut, train), 1, [])
