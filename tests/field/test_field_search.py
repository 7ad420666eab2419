"""Searches that lose or mix up what they made: rows 53 and 54 of the public issues."""

import subprocess
import sys
from pathlib import Path

import pytest
from store_factory import study

from edgeopt.core.action import Action
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import write_model
from edgeopt.store.trials import TrialStore
from edgeopt.testing import graphs
from edgeopt.transforms.replay import ActionRejected
from tests.field.as_user import alone, integers, offered, signal_db, space_of

_FOREVER = """
import itertools, sys
from pathlib import Path
from store_factory import study, trial
from edgeopt.store.trials import TrialStore
store = TrialStore.open(Path(sys.argv[1]))
store.save_study(study())
for number in itertools.count():
    store.add(study().id, trial(number, f"site{number}", failed=number % 3 == 2))
    print(number, flush=True)
"""


def test_two_configurations_are_two_recipes(tmp_path: Path) -> None:
    """Olive 573: one transform with other parameters is another recipe and another model."""
    model = graphs.gemm_chain((8, 256, 16))
    space = space_of(model, tmp_path)
    four, eight = (
        space.workshop.recipe([action])
        for bits in (4, 8)
        for action in offered(space, "weight_only_blocks")
        if action.get("bits") == bits
    )
    assert four.digest != eight.digest
    small, large = (alone(space, *recipe.actions) for recipe in (four, eight))
    assert signal_db(model, large) > signal_db(model, small) + 10
    with pytest.raises(ActionRejected):
        alone(space, *four.actions, *eight.actions)


def test_external_data_is_never_overwritten(tmp_path: Path) -> None:
    """Olive 2223: two models in one folder, and one written again under the same name, all load."""
    model = graphs.conv_chain((3, 32, 32, 4))
    space = space_of(model, tmp_path)
    floats = space.workshop.build(space.empty()).graph
    int8 = space.workshop.build(integers(space)).graph
    folder, feed = tmp_path / "out", graphs.random_feeds(model)[0]
    first = write_model(floats, folder / "a.onnx", external=True)
    expected = Session(first.path).run(feed)["logits"]
    write_model(int8, folder / "b.onnx", external=True)
    again = Session(first.path).run(feed)["logits"]
    assert (again == expected).all()
    write_model(int8, folder / "a.onnx", external=True)
    changed = Session(folder / "a.onnx").run(feed)["logits"]
    assert (changed != expected).any()
    assert read_model(folder / "b.onnx").size_bytes < first.size_bytes


def test_a_killed_search_keeps_every_trial(tmp_path: Path) -> None:
    """INC 2261: what was tried before a kill -9 is there, failures with reasons, and goes on."""
    process = subprocess.Popen(
        [sys.executable, "-c", _FOREVER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1] / "store",
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.stdout is not None
    with process.stdout as lines:
        last = [int(next(lines)) for _ in range(20)][-1]
        process.kill()
    process.wait()
    store = TrialStore.open(tmp_path)
    held = store.trials(study().id)
    assert [trial.number for trial in held] == list(range(len(held)))
    assert len(held) > last
    failed = [trial.outcome for trial in held if trial.number % 3 == 2]
    assert all(getattr(outcome, "reason", "") for outcome in failed)
    assert store.next_number(study().id) == len(held)
    store.close()


def test_a_candidate_that_fails_ends_no_search(tmp_path: Path) -> None:
    """INC 1621: a recipe with an action that does not apply becomes one without it, and is said."""
    model = graphs.conv_chain()
    space = space_of(model, tmp_path)
    right = offered(space, "static_qdq")
    wrong = Action.of(
        "static_qdq", "nowhere", version=right[0].version, **dict(right[0].parameters)
    )
    made = space.workshop.build(space.workshop.recipe([*right, wrong]), lenient=True)
    assert [(action.site, reason.reason) for action, reason in made.rejected] == [
        ("nowhere", "no weighted node makes this value")
    ]
    assert signal_db(model, made.graph) > 20
