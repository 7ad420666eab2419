"""The space of a model: choices, steps and standard candidates over real graphs."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeopt.core.action import Action, Choice, Recipe
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.protocols import Space
from edgeopt.errors import UsageError
from edgeopt.graph.read import read_model
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.testing.transform_exam import NoEvidence, offer
from edgeopt.transforms.base import EXACT
from edgeopt.transforms.choices import grouped, label
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace
from edgeopt.transforms.stages import canonical, stage_of, transform_of


def _space(folder: Path, model: onnx.ModelProto, **options: object) -> GraphSpace:
    workshop = Workshop(
        read_model(graphs.write(model, folder)),
        evidence=evidence_of(model, ArtifactStore(folder)),
        opset_ceiling=17,
        feed=graphs.random_feeds(model)[0],
        data_digest="sha256:data",
    )
    return GraphSpace(workshop, offer(), **options)  # type: ignore[arg-type]


@pytest.fixture
def space(tmp_path: Path) -> GraphSpace:
    """A net with two normalizations and a chain that can be pruned."""
    return _space(tmp_path, _net())


def _net() -> onnx.ModelProto:
    b = graphs.Builder()
    b.batchnorm(b.conv("x", "conv1", (3, 32), bias=False), "bn1", 32)
    b.node("Relu", ["bn1"], "relu1")
    b.batchnorm(b.conv("relu1", "conv2", (32, 16)), "bn2", 16)
    b.node("HardSigmoid", ["bn2"], "gate", alpha=1 / 6, beta=0.5)
    b.node("Mul", ["bn2", "gate"], "swish")
    b.conv("swish", "conv3", (16, 4), kernel=1)
    b.node("GlobalAveragePool", ["conv3"], "y")
    return b.model([("x", "float32", ("N", 3, 8, 8))], [("y", "float32", ("N", 4, 1, 1))])


def _codes(space: GraphSpace, *families: str) -> list[int]:
    return [int(choice.family in families) for choice in space.choices]


def test_is_a_space(space: GraphSpace) -> None:
    """It has the verbs that search and environments call."""
    assert isinstance(space, Space)


def test_choices(space: GraphSpace) -> None:
    """Exact transforms as a whole, groups one by one, the repair last; the first is nothing."""
    names = [choice.name for choice in space.choices]
    assert names[0] == "rewrite:canonicalize"
    assert "repair:bias_correction" in names
    assert names[-1].startswith("repair:")
    families = {choice.family for choice in space.choices}
    assert families == {"rewrite", "prune", "quantize", "repair"}
    assert len(set(names)) == len(names)
    for choice in space.choices:
        assert choice.alternatives[0] == ()
        assert len(choice.labels) == len(choice.alternatives) == len(set(choice.labels))


def test_decode_says_only_what_was_done(space: GraphSpace) -> None:
    """Any codes give a recipe that builds strictly, in canonical order, twice the same."""
    generator = np.random.default_rng(0)
    for _ in range(12):
        codes = [int(generator.integers(len(choice))) for choice in space.choices]
        recipe = space.decode(codes)
        assert recipe.actions == canonical(recipe.actions)
        built = space.workshop.build(recipe)
        assert built.recipe == recipe
        assert not built.rejected
        space.workshop.verify(built)
        assert space.decode(codes) == recipe


def test_decode_of_nothing_is_the_baseline(space: GraphSpace) -> None:
    """All codes zero is the empty recipe."""
    assert space.decode([0] * len(space.choices)) == space.empty()


def test_wrong_codes_are_refused(space: GraphSpace) -> None:
    """Too few codes, or one without an alternative, is a sentence."""
    with pytest.raises(UsageError, match="codes for"):
        space.decode([1])
    with pytest.raises(UsageError, match="alternatives"):
        space.decode([9] * len(space.choices))


def test_exact_goes_to_a_fixpoint(space: GraphSpace) -> None:
    """With every exact choice on, no exact step is left."""
    recipe = space.decode(_codes(space, "rewrite", "fuse"))
    assert {action.transform for action in recipe.actions} == {
        "fold_batchnorm",
        "pool_before_conv1x1",
        "hardswish",
    }
    assert all(stage_of(action) for action in space.legal(recipe))


@pytest.mark.parametrize("seed", range(4))
def test_then_takes_exactly_what_legal_lists(space: GraphSpace, seed: int) -> None:
    """Random walks: each legal step is taken and builds; an offered one that is gone is not.

    Only a repair, which judges itself on data, may refuse what was listed.
    """
    generator = np.random.default_rng(seed)
    recipe, everything = space.empty(), set(space.legal(space.empty()))
    for _ in range(8):
        legal = space.legal(recipe)
        assert len(set(legal)) == len(legal)
        everything |= set(legal)
        for action in everything - set(legal):
            assert isinstance(space.then(recipe, action), str)
        if not legal:
            break
        action = legal[int(generator.integers(len(legal)))]
        grown = space.then(recipe, action)
        if isinstance(grown, str) and transform_of(action.transform)[0] == "repair":
            continue
        assert isinstance(grown, Recipe), grown
        assert len(grown.actions) == len(recipe.actions) + 1
        assert space.workshop.build(grown).recipe == grown
        recipe = grown


def test_every_legal_step_is_accepted(space: GraphSpace) -> None:
    """From the baseline and from the fused graph, each listed step applies."""
    for recipe in (space.empty(), space.decode(_codes(space, "rewrite", "fuse"))):
        for action in space.legal(recipe):
            assert isinstance(space.then(recipe, action), Recipe), action.text


def test_refusals_say_why(space: GraphSpace) -> None:
    """A decided group, an earlier stage and an unknown site each get their reason."""
    quantized = space.decode(_codes(space, "rewrite", "fuse", "quantize"))
    decided = next(action for action in quantized.actions if action.transform == "static_qdq")
    assert "decided" in str(space.then(quantized, decided))
    fold = Action.of("fold_batchnorm", "bn1")
    assert "comes before" in str(space.then(quantized, fold))
    nowhere = Action.of("fold_batchnorm", "nowhere")
    assert "no node" in str(space.then(space.empty(), nowhere))
    level = Action.of("ort_optimize", "*", level="basic")
    assert "not offered" in str(space.then(space.empty(), level))


def test_standard_candidates(space: GraphSpace) -> None:
    """The baseline first, then what a user would try; every one of them builds and is exact."""
    standard = space.standard()
    names = [name for name, _ in standard]
    assert names[0] == "baseline"
    expected = {"runtime_basic", "runtime_extended", "normalize", "onnxoptimizer"}
    expected |= {"ort_optimize:basic", "ort_optimize:extended", "exact", "quantize"}
    expected |= {"exact+quantize", "int8_everything"}
    assert expected <= set(names)
    assert any(name.startswith("ort_static:uint8,per_channel") for name in names)
    assert len({candidate.key for _, candidate in standard}) == len(standard)
    for name, candidate in standard:
        built = space.workshop.build(candidate.recipe)
        assert built.recipe.digest == candidate.recipe.digest, name
        space.workshop.verify(built)


def test_standard_keeps_the_runtime_settings(tmp_path: Path) -> None:
    """Threads of the study are in every candidate; only the levels change the level."""
    space = _space(tmp_path, graphs.conv_bn(), runtime=RuntimeSettings(threads=3))
    settings = {name: candidate.runtime for name, candidate in space.standard()}
    assert {runtime.threads for runtime in settings.values()} == {3}
    assert settings["runtime_basic"].optimization == "basic"
    assert settings["exact"].optimization == "all"


def test_runtimes_begin_with_the_users(tmp_path: Path) -> None:
    """Alternatives follow in their order, each once; usual settings are standard candidates."""
    own, fast = RuntimeSettings(threads=2), RuntimeSettings(threads=4)
    usual = RuntimeSettings(threads=2, options={"session.set_denormal_as_zero": "1"})
    space = _space(
        tmp_path,
        graphs.conv_bn(),
        runtime=own,
        runtimes=(fast, own, fast, usual),
        usual=(("denormals_off", usual),),
    )
    assert space.runtimes == (own, fast, usual)
    named = dict(space.standard())
    assert named["denormals_off"].runtime == usual
    assert named["denormals_off"].is_baseline
    assert _space(tmp_path, graphs.conv_bn()).runtimes == (RuntimeSettings(),)


def test_without_data_everything_is_exact(tmp_path: Path) -> None:
    """No calibration, no labels: nothing that may change an output is offered."""
    model = _net()
    workshop = Workshop(
        read_model(graphs.write(model, tmp_path)),
        evidence=NoEvidence(),
        opset_ceiling=17,
        feed=None,
    )
    space = GraphSpace(workshop, offer(data=False))
    assert {choice.family for choice in space.choices} <= EXACT
    for _, candidate in space.standard():
        assert all(not stage_of(action) for action in candidate.recipe.actions)
        workshop.verify(workshop.build(candidate.recipe))
    assert all(not stage_of(action) for action in space.legal(space.empty()))


def test_families_limit_the_space(tmp_path: Path) -> None:
    """What the user did not ask for is in no choice, no step and no standard candidate."""
    space = _space(tmp_path, _net(), families=("fuse",))
    assert {choice.family for choice in space.choices} == {"fuse"}
    assert {action.transform for action in space.legal(space.empty())} == {"hardswish"}
    assert {name for name, _ in space.standard()} == {
        "baseline",
        "runtime_basic",
        "runtime_extended",
        "exact",
    }


def test_observations_have_one_shape(space: GraphSpace) -> None:
    """Arrays of every recipe have equal shapes and dtypes, and are finite."""
    folded = space.decode(_codes(space, "rewrite"))
    one, other = (space.observe(recipe) for recipe in (space.empty(), folded))
    assert one.keys() == other.keys()
    for key, array in one.items():
        assert (array.shape, array.dtype) == (other[key].shape, other[key].dtype)
        assert np.isfinite(array).all()
        assert np.isfinite(other[key]).all()
    assert not np.array_equal(one["node_op"], other["node_op"])


def test_static_cost_is_of_the_built_graph(space: GraphSpace) -> None:
    """Pooling first saves products, pruning saves more; the baseline's size is the file's."""
    baseline = space.static_cost(space.empty())
    exact = space.static_cost(space.decode(_codes(space, "rewrite", "fuse")))
    pruned = space.static_cost(space.decode(_codes(space, "rewrite", "fuse", "prune")))
    assert baseline["size_bytes"] == space.workshop.model.size_bytes
    batch = 2
    assert baseline["macs"] - exact["macs"] == batch * 63 * 16 * 4
    assert pruned["macs"] < exact["macs"]
    assert exact["nodes"] < baseline["nodes"]


def test_free_dimensions_cost_what_the_data_has(tmp_path: Path) -> None:
    """Height and width that the model leaves free are those of the feed, also behind edits."""
    model = _net()
    for axis in (2, 3):
        dim = model.graph.input[0].type.tensor_type.shape.dim[axis]
        dim.dim_param = "HW"[axis - 2]
    workshop = Workshop(
        read_model(graphs.write(model, tmp_path)),
        evidence=NoEvidence(),
        opset_ceiling=17,
        feed={"x": np.zeros((1, 3, 16, 16), np.float32)},
    )
    space = GraphSpace(workshop, offer(data=False))
    macs = 16 * 16 * 9 * (3 * 32 + 32 * 16)
    assert space.static_cost(space.empty())["macs"] == macs + 16 * 16 * 16 * 4
    exact = space.decode(_codes(space, "rewrite", "fuse"))
    assert space.static_cost(exact)["macs"] == macs + 16 * 4


def test_built_graphs_are_not_handed_out(space: GraphSpace) -> None:
    """Whatever is asked of the space, a recipe builds to the same bytes."""
    recipe = space.decode(_codes(space, "rewrite", "quantize"))
    before = to_bytes(space.workshop.build(recipe).graph)
    space.observe(recipe)
    space.static_cost(recipe)
    for action in space.legal(recipe):
        space.then(recipe, action)
    assert to_bytes(space.workshop.build(recipe).graph) == before


def test_labels_tell_alternatives_apart() -> None:
    """Of several actions at a site only what differs is said."""
    wide = Action.of("channels_l1", "conv1", keep=24)
    narrow = Action.of("channels_l1", "conv1", keep=16)
    single = Action.of("channels_l1", "conv2", keep=8)
    found = grouped("prune", [wide, narrow, single])
    assert found == [
        Choice(
            name="prune:conv1",
            family="prune",
            labels=("off", "24", "16"),
            alternatives=((), (wide,), (narrow,)),
        ),
        Choice(
            name="prune:conv2", family="prune", labels=("off", "8"), alternatives=((), (single,))
        ),
    ]
    static = Action.of("ort_static", "*", activation="uint8", per_channel=True, weight="int8")
    assert label(static) == "ort_static:uint8,per_channel,int8"
    assert label(Action.of("onnxoptimizer", "*")) == "onnxoptimizer"


def test_a_range_method_alone_is_the_given_model(space: GraphSpace) -> None:
    """What only prepares for static integers is no recipe of its own, nor part of a dynamic one."""
    names = [choice.name for choice in space.choices]
    codes = [0] * len(names)
    codes[names.index("quantize:*")] = 1
    assert space.decode(codes) == space.empty()
    static = next(
        i for i, c in enumerate(space.choices) if c.family == "quantize" and c.name != "quantize:*"
    )
    codes[static] = 1
    assert "calibrate" in {action.transform for action in space.decode(codes).actions}
