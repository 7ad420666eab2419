"""From recipes to graphs: order, refusals, artifacts, and the proof that exact is exact."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from edgeopt import plugins
from edgeopt.core.action import Action, Recipe
from edgeopt.errors import UsageError, WrongOutputError
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.read import open_graph, read_model
from edgeopt.graph.structure import structure_digest, weights_digest
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.testing.transform_exam import NoEvidence, offer, opened
from edgeopt.transforms.base import STAGES
from edgeopt.transforms.replay import ActionRejected, Workshop, canonical, transform_of
from edgeopt.transforms.verification import Verifier

BN1, BN2 = (Action.of("fold_batchnorm", site) for site in ("bn1", "bn2"))
NOWHERE = Action.of("fold_batchnorm", "nowhere")


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return _workshop(tmp_path)


def _workshop(folder: Path, *, seed: int = 0) -> Workshop:
    model = graphs.conv_bn(seed=seed)
    folder.mkdir(exist_ok=True)
    return Workshop(
        read_model(graphs.write(model, folder)),
        evidence=evidence_of(model, ArtifactStore(folder)),
        opset_ceiling=17,
        feed=graphs.random_feeds(model)[0],
        data_digest="sha256:data",
    )


def test_names_are_unique_across_the_shelves() -> None:
    """A recipe names a transform without its shelf, so no two shelves share a name."""
    names = [name for stage in STAGES for name in plugins.SHELVES[stage].names()]
    assert len(names) == len(set(names))
    for stage in STAGES:
        for name in plugins.SHELVES[stage].names():
            assert transform_of(name)[0] == stage


def test_an_unknown_transform_gets_a_suggestion() -> None:
    """A misspelled name is a sentence that offers the nearest one."""
    with pytest.raises(UsageError, match="fold_batchnorm"):
        transform_of("fold_batch_norm")


def test_canonical_order_is_stable() -> None:
    """Exact actions stay as given, then prune, quantize, repair."""
    quantize, prune = Action.of("static_qdq", "conv2"), Action.of("channels_l1", "conv1")
    repair, fuse = Action.of("bias_correction", "*"), Action.of("hardswish", "h")
    found = canonical([repair, quantize, BN2, prune, fuse, BN1])
    assert found == (BN2, fuse, BN1, prune, quantize, repair)


def test_the_empty_recipe_is_the_users_file(workshop: Workshop) -> None:
    """Nothing is normalised where nothing is asked for."""
    built = workshop.build(workshop.recipe())
    assert to_bytes(built.graph) == to_bytes(open_graph(workshop.model))
    assert not built.recipe.actions
    workshop.verify(built)


def test_a_recipe_is_completed_and_reads_back(workshop: Workshop) -> None:
    """The built recipe has the opset and, where data was used, its digest and the artifacts."""
    sites = transform_of("static_qdq")[1].sites(workshop.normalized, offer())
    built = workshop.build(workshop.recipe([*sites[:1], BN2]))
    assert built.recipe.opset == 17
    assert built.recipe.data == "sha256:data"
    assert built.recipe.actions[0] == BN2
    assert built.recipe.actions[1].artifact("ranges")
    again = workshop.build(Recipe.parse(built.recipe.text))
    assert again.recipe == built.recipe
    assert to_bytes(again.graph) == to_bytes(built.graph)


def test_what_is_kept_is_never_changed(workshop: Workshop) -> None:
    """Builds work on clones: the normalised model and kept prefixes stay as they were."""
    before = to_bytes(workshop.normalized)
    first = workshop.build(workshop.recipe([BN1, BN2]))
    expected = to_bytes(first.graph)
    Editor(first.graph).set_attribute(next(iter(first.graph.graph)), "group", 7)
    assert to_bytes(workshop.build(workshop.recipe([BN1, BN2])).graph) == expected
    assert to_bytes(workshop.build(workshop.recipe([BN1])).graph) != expected
    assert to_bytes(workshop.normalized) == before


def test_a_read_graph_is_continued_with_the_same_result(tmp_path: Path) -> None:
    """A recipe that says the same and more is built from it, to the bytes of a fresh build."""
    workshop, fresh = _workshop(tmp_path / "one"), _workshop(tmp_path / "two")
    groups = transform_of("static_qdq")[1].sites(workshop.normalized, offer())
    assert len(groups) > 1
    for count in range(1, len(groups) + 1):
        recipe = workshop.recipe(groups[:count])
        built = workshop.read(recipe)
        assert workshop.read(recipe).graph is built.graph
        assert to_bytes(built.graph) == to_bytes(fresh.build(recipe).graph)
        assert to_bytes(workshop.build(recipe).graph) == to_bytes(built.graph)


def test_strict_names_the_action_and_its_place(workshop: Workshop) -> None:
    """A rejected action stops a strict build, whether or not a lenient one came before."""
    recipe = workshop.recipe([BN1, NOWHERE, BN2])
    for _ in range(2):
        with pytest.raises(ActionRejected, match="action 2 of the recipe") as caught:
            workshop.build(recipe)
        assert (caught.value.action, caught.value.position) == (NOWHERE, 2)
        assert caught.value.exit_code == 2
        workshop.build(recipe, lenient=True)


def test_lenient_leaves_out_and_lists(workshop: Workshop) -> None:
    """A lenient build says only what was done, and what was not."""
    built = workshop.build(workshop.recipe([BN1, NOWHERE, BN2]), lenient=True)
    assert built.recipe == workshop.recipe([BN1, BN2])
    assert [action for action, _ in built.rejected] == [NOWHERE]
    nothing = workshop.build(workshop.recipe([NOWHERE]), lenient=True)
    assert nothing.recipe == workshop.recipe()


def test_another_version_of_a_transform_is_refused(workshop: Workshop) -> None:
    """An action of a version that means something else is not guessed at."""
    with pytest.raises(ActionRejected, match="version 7"):
        workshop.build(workshop.recipe([Action.of("fold_batchnorm", "bn1", version=7)]))


def test_a_recipe_moves_to_retrained_weights(workshop: Workshop, tmp_path: Path) -> None:
    """On other weights the structure is the same and what came from data is computed again."""
    sites = transform_of("static_qdq")[1].sites(workshop.normalized, offer())
    first = workshop.build(workshop.recipe(sites))
    other = _workshop(tmp_path / "retrained", seed=5)
    second = other.build(first.recipe)
    assert structure_digest(second.graph) == structure_digest(first.graph)
    assert weights_digest(second.graph) != weights_digest(first.graph)
    assert second.recipe.baseline == other.model.digest
    ranges = [built.recipe.actions[0].artifact("ranges") for built in (first, second)]
    assert ranges[0] != ranges[1]
    other.verify(second)


def test_a_recipe_keeps_its_opset(tmp_path: Path) -> None:
    """A recipe means the same in a workshop that would raise the opset further."""
    recipe = _workshop(tmp_path).build(Recipe(baseline="", actions=(BN1,))).recipe
    higher = _workshop(tmp_path)
    higher.opset_ceiling = 19
    assert higher.build(higher.recipe([BN1])).recipe.opset == 19
    assert higher.build(recipe).recipe == recipe


def test_exact_actions_verify(workshop: Workshop) -> None:
    """Folded normalizations compute what the file computes."""
    workshop.verify(workshop.build(workshop.recipe([BN1, BN2])))


@pytest.mark.parametrize("guilty", [0, 1, 4, 6])
def test_the_guilty_action_is_named(workshop: Workshop, guilty: int) -> None:
    """Bisection finds the action from which on outputs are wrong; 0 is normalisation."""
    actions = tuple(Action.of("drop_dead", f"value{number}") for number in range(1, 7))

    def graph_of(done: tuple[Action, ...]) -> ir.Model:
        graph = opened(graphs.conv_bn())
        if len(done) >= guilty:
            editor = Editor(graph)
            (conv,) = [node for node in graph.graph if node.outputs[0].name == "conv2"]
            weight = array_of(conv.inputs[1])
            assert weight is not None
            editor.set_input(conv, 1, editor.initializer("wrong", weight * np.float32(1.01)))
        return graph

    verifier = Verifier(workshop.model, NoEvidence(), workshop.feed)
    name = f"value{guilty}" if guilty else "normalisation"
    for _ in range(2):
        with pytest.raises(WrongOutputError, match=name) as caught:
            verifier.check(actions, graph_of)
        assert caught.value.exit_code == 6


def test_a_proof_is_remembered(workshop: Workshop) -> None:
    """A sequence of actions is run against the baseline once."""
    asked: list[int] = []

    def graph_of(done: tuple[Action, ...]) -> ir.Model:
        asked.append(len(done))
        return open_graph(workshop.model)

    verifier = Verifier(workshop.model, NoEvidence(), workshop.feed)
    for _ in range(3):
        verifier.check((BN1,), graph_of)
    assert asked == [1]
