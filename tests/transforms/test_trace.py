"""Which action did what."""

from pathlib import Path

import pytest

from edgeopt.core.action import Action
from edgeopt.graph.read import read_model
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.trace import trace

FOLD = Action.of("fold_batchnorm", "bn1")
CODES = Action.of(
    "static_qdq",
    "bn2",
    version=2,
    activation="uint8",
    weight="int8",
    per_channel=True,
    reduce_range=False,
)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    model = graphs.conv_bn()
    return Workshop(
        read_model(graphs.write(model, tmp_path)),
        evidence=evidence_of(model, ArtifactStore(tmp_path)),
        opset_ceiling=17,
        feed=graphs.random_feeds(model)[0],
        data_digest="sha256:data",
    )


def test_what_an_action_made_and_took_out_bears_its_name(workshop: Workshop) -> None:
    """The folded normalisation leaves its name to the convolution, whose own name is gone."""
    seen = trace(workshop, workshop.recipe([FOLD]))
    assert seen is not None
    assert seen.changed["bn1"] == (FOLD.text,)
    assert seen.removed == {"conv1": FOLD.text}
    assert "bn2" not in seen.changed


def test_two_actions_on_one_layer_are_both_named(workshop: Workshop) -> None:
    """In the order in which they were applied."""
    fold = Action.of("fold_batchnorm", "bn2")
    seen = trace(workshop, workshop.build(workshop.recipe([fold, CODES])).recipe)
    assert seen is not None
    assert [text.partition("@")[0] for text in seen.changed["bn2"]] == [
        "fold_batchnorm",
        "static_qdq",
    ]


def test_the_given_model_has_no_actions(workshop: Workshop) -> None:
    """Nothing was prepared for it either."""
    seen = trace(workshop, workshop.recipe())
    assert seen is not None
    assert (seen.changed, seen.removed) == ({}, {})


def test_a_recipe_that_does_not_apply_is_not_guessed_at(workshop: Workshop) -> None:
    """Nor one for another file."""
    assert trace(workshop, workshop.recipe([Action.of("fold_batchnorm", "nowhere")])) is None
