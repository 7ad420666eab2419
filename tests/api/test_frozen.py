"""`--freeze`: shapes that built models need to take and no other."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from edgeopt.api import frozen
from edgeopt.api.prepare import prepared
from edgeopt.api.reopen import reopen
from edgeopt.api.replay import Replayed, replay
from edgeopt.api.request import RunRequest
from edgeopt.api.subject import Subject, open_subject
from edgeopt.api.workspace import Workspace
from edgeopt.core.action import Action, Recipe
from edgeopt.core.model import Model, TensorSpec
from edgeopt.errors import UsageError
from edgeopt.graph.normalize import normalize
from edgeopt.graph.read import open_graph, read_model
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import offer
from edgeopt.transforms.replay import ActionRejected
from edgeopt.transforms.stages import transform_of
from tests.conftest import Finished

ASKED = "x=1x3x12x16"


def _gated(folder: Path) -> Path:
    """A net whose height and width are free, and a gate that needs them fixed to be spread."""
    b = Builder()
    b.conv("x", "stem", (3, 16))
    b.node("GlobalAveragePool", ["stem"], "pool")
    b.conv("pool", "excite", (16, 16), kernel=1)
    b.node("HardSigmoid", ["excite"], "gate")
    b.node("Mul", ["stem", "gate"], "scaled")
    b.conv("scaled", "y", (16, 4), kernel=1)
    free = [("x", "float32", ("N", 3, "H", "W"))], [("y", "float32", ("N", 4, "H", "W"))]
    return graphs.write(b.model(*free), folder)


def _model(*shape: int | str | None) -> Model:
    spec = TensorSpec(name="x", dtype="float32", shape=shape)
    return Model(
        path=Path("m.onnx"), digest="sha256:0", opset=17, inputs=(spec,), outputs=(), size_bytes=0
    )


def test_text_reads_back() -> None:
    """Shapes as text, as sizes, and as text again; what stays free is a question mark."""
    given = {"x": (1, 3, None), "a=b": (2,), "r": (0,), "s": (-1,), "t": (0.5,), "u": (1e-7,)}
    assert frozen.parsed(frozen.texts(given)) == given
    assert frozen.texts(given) == ["a=b=2", "r=0", "s=-1", "t=0.5", "u=1e-07", "x=1x3x?"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "x=",
        "=1x3",
        "x=1xN",
        "x=0x3",
        "x=1,3",
        "x=-1x3",
        "x=1x0.5",
        "x=nan",
        "x=1e999",
        "x=٣",
    ],
)
def test_no_shape(text: str) -> None:
    """What is no shape is refused with an example of one."""
    with pytest.raises(UsageError, match="not a shape to freeze"):
        frozen.parsed([text])


def test_recipe_says_its_shapes() -> None:
    """The shapes are read off the actions."""
    action = Action.of("freeze_shapes", "x", shape="1x?x4")
    recipe = Recipe(baseline="sha256:0", actions=(action,))
    assert frozen.of_recipe(recipe) == {"x": (1, None, 4)}
    assert frozen.said(recipe) == ["It takes x=1x?x4 only; the given model takes more."]
    assert frozen.said(Recipe(baseline="sha256:0")) == []


def test_random_feeds_have_the_shape() -> None:
    """Frozen sizes count; a batch that stays free is 1; another free axis must be given."""
    model = _model("N", 3, "W")
    (feed,) = frozen.without_data(model, 1, {"x": (None, 3, 7)})
    assert feed["x"].shape == (1, 3, 7)
    with pytest.raises(UsageError, match="free axes"):
        frozen.without_data(model, 1, {"x": (2, 3, None)})


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("z=1x3", "no input 'z'"),
        ("x=1x3x5", "has the shape"),
        ("x=1x4x5x6", "has the shape"),
        ("x=1x3x5x7", "the calibration data"),
    ],
)
def test_refuses_what_model_and_data_do_not_have(tmp_path: Path, asked: str, reason: str) -> None:
    """Another name, rank or fixed size than the model's; other sizes than the data's."""
    path = _gated(tmp_path)
    images = np.random.default_rng(0).normal(size=(40, 3, 5, 6)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=images)
    subject = open_subject(
        path, data=str(tmp_path / "data.npz"), metric=None, seed=0, progress=lambda _: None
    )
    frozen.refuse_unfit(frozen.parsed(["x=?x3x5x6"]), subject)
    with pytest.raises(UsageError, match=reason):
        frozen.refuse_unfit(frozen.parsed([asked]), subject)


def test_a_study_and_its_replay(tmp_path: Path) -> None:
    """The search may use the shape; the recipe has it, and a replay gives the same file."""
    path = _gated(tmp_path)
    request = RunRequest(
        model=str(path),
        freeze=frozen.parsed([ASKED]),
        objectives=("latency",),
        store=tmp_path / "store",
    ).checked()
    with prepared(request, lambda _: None, lambda: False, keep=False) as ready:
        assert ready.study.options["freeze"] == ASKED
        named = dict(ready.spaces["local"].standard())
        built = ready.workshop.build(named["exact"].recipe)
        ready.workshop.verify(built)
    assert frozen.of_recipe(built.recipe) == request.freeze
    recipe = tmp_path / "one.recipe"
    recipe.write_text(built.recipe.text, encoding="utf-8")
    again = replay(
        recipe,
        str(path),
        out=tmp_path / "out.onnx",
        data=None,
        store=tmp_path / "store",
        seed=0,
        progress=lambda _: None,
    )
    assert again.path.read_bytes() == to_bytes(built.graph)
    model = onnx.load_model_from_string(again.path.read_bytes())
    sizes = model.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in sizes] == [1, 3, 12, 16]


def test_refused_on_the_command_line(tmp_path: Path, edgeopt_here: Callable[..., Finished]) -> None:
    """Exit code 2 and no trace."""
    done = edgeopt_here("run", _gated(tmp_path), "--freeze", "x=abc", "--dry-run")
    assert done.code == 2
    assert "not a shape to freeze" in done.err
    assert "Traceback" not in done.err


def _rated(folder: Path) -> Path:
    """If(rate == 16000) then relu(x) else -x."""
    sides = [
        helper.make_graph(
            [helper.make_node(op, ["x"], [op])],
            op,
            [],
            [helper.make_tensor_value_info(op, onnx.TensorProto.FLOAT, ["N", 4])],
        )
        for op in ("Relu", "Neg")
    ]
    b = Builder()
    b.node("Equal", ["rate", b.constant("wide", np.asarray(16000))], "is_wide")
    b.node("If", ["is_wide"], "y", then_branch=sides[0], else_branch=sides[1])
    shape = ("N", 4)
    model = b.model([("x", "float32", shape), ("rate", "int64", ())], [("y", "float32", shape)])
    return graphs.write(model, folder)


def test_the_value_of_an_input_that_is_a_number(tmp_path: Path) -> None:
    """What it decides is settled; the input stays, the recipe has the value, a replay the file."""
    path = _rated(tmp_path)
    request = RunRequest(
        model=str(path),
        freeze=frozen.parsed(["rate=16000"]),
        objectives=("latency",),
        store=tmp_path / "store",
    ).checked()
    with prepared(request, lambda _: None, lambda: False, keep=False) as ready:
        assert frozen.values(request.freeze, ready.subject.model) == {"rate": 16000}
        assert not frozen.shapes(request.freeze, ready.subject.model)
        assert "other values" in frozen.remarks(request.freeze, ready.subject.model)[0]
        built = ready.workshop.build(dict(ready.spaces["local"].standard())["exact"].recipe)
        ready.workshop.verify(built)
    assert frozen.of_recipe(built.recipe) == request.freeze
    assert [node.op_type for node in built.graph.graph] == ["Relu"]
    assert [value.name for value in built.graph.graph.inputs] == ["x", "rate"]
    recipe = tmp_path / "one.recipe"
    recipe.write_text(built.recipe.text, encoding="utf-8")
    out = tmp_path / "out.onnx"
    again = replay(
        recipe,
        str(path),
        out=out,
        data=None,
        store=tmp_path / "store",
        seed=0,
        progress=lambda _: None,
    )
    assert again.path.read_bytes() == to_bytes(built.graph)


def test_refuses_a_value_that_the_data_do_not_have(tmp_path: Path) -> None:
    """Every sample has to have it."""
    path = _rated(tmp_path)
    x = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, rate=np.asarray(8000))
    subject = open_subject(
        path, data=str(tmp_path / "data.npz"), metric=None, seed=0, progress=lambda _: None
    )
    frozen.refuse_unfit(frozen.parsed(["rate=8000"]), subject)
    with pytest.raises(UsageError, match="which is not 16000"):
        frozen.refuse_unfit(frozen.parsed(["rate=16000"]), subject)


def _subject(*inputs: tuple[str, str, tuple[int | str | None, ...]]) -> Subject:
    specs = tuple(TensorSpec(name=n, dtype=dtype, shape=shape) for n, dtype, shape in inputs)
    return Subject(
        name="m", model=replace(_model(), inputs=specs), data=None, metric_name="", metric=None
    )


def _unlike(folder: Path, dtype: str) -> Path:
    """x + rate, where rate is a number of a type."""
    b = Builder()
    b.node("Cast", ["rate"], "cast", to=onnx.TensorProto.FLOAT)
    b.node("Add", ["x", "cast"], "y")
    shape = ("N", 4)
    model = b.model([("x", "float32", shape), ("rate", dtype, ())], [("y", "float32", shape)])
    return graphs.write(model, folder)


NUMBERS = ("0", "1", "-1", "0.5", "255", "256", "16000", "16000.0", "1e5", "1e300", "9" * 20)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "int64", "float16", "float32"])
def test_what_is_accepted_of_a_number_is_done(tmp_path: Path, dtype: str) -> None:
    """Of every type each number is refused with a reason, or is a site and stands in the feed."""
    model = read_model(_unlike(tmp_path, dtype))
    subject = Subject(name="m", model=model, data=None, metric_name="", metric=None)
    graph = normalize(open_graph(model))
    accepted = 0
    for text in NUMBERS:
        asked = frozen.parsed([f"rate={text}"])
        values = frozen.values(asked, model)
        sites = transform_of("freeze_value")[1].sites(graph, offer(values=values))
        if not sites:
            with pytest.raises(UsageError, match="cannot be"):
                frozen.refuse_unfit(asked, subject)
            continue
        frozen.refuse_unfit(asked, subject)
        accepted += 1
        assert [action.site for action in sites] == ["rate"]
        (feed,) = frozen.without_data(model, 1, asked)
        assert feed["rate"] == np.asarray(float(text)).astype(dtype)
        recipe = Recipe(baseline=model.digest, actions=sites)
        again = frozen.feed_of(Recipe.parse(recipe.text), model)
        assert again is not None
        assert again["rate"] == feed["rate"]
    assert 2 <= accepted < len(NUMBERS)


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (["x=1x3x8x9"], "'H' of input 'x' would be 8 and 9"),
        (["x=1x3x8x8", "z=2x5"], "'N' of input 'z' would be 1 and 2"),
        (["z=-1"], "not a shape"),
        (["z=0.5"], "not a shape"),
        (["z=0"], "not a shape"),
        (["k=0.5"], "cannot be 0.5"),
        (["k=1x1"], "has the shape"),
        (["s=1"], "cannot be 1"),
        (["x=?x3x8x8", "z=4x5"], ""),
        (["x=4x3x8x8", "z=4x?", "k=-7"], ""),
    ],
)
def test_contradictions_are_refused(texts: list[str], reason: str) -> None:
    """One name is one size, on all inputs; a number is one that the input can be."""
    subject = _subject(
        ("x", "float32", ("N", 3, "H", "H")),
        ("z", "float32", ("N", 5)),
        ("k", "int64", ()),
        ("s", "str", ()),
    )
    asked = frozen.parsed(texts)
    if not reason:
        frozen.refuse_unfit(asked, subject)
        return
    with pytest.raises(UsageError, match=reason):
        frozen.refuse_unfit(asked, subject)


def test_a_name_has_its_size_on_the_other_inputs() -> None:
    """Frozen or given to measure with; unnamed sizes are not equal, and what is free stays 1."""
    subject = _subject(
        ("x", "float32", ("N", 3, "H", "?")),
        ("z", "float32", ("N", 5)),
        ("w", "float32", ("B", "H")),
        ("v", "float32", ("?", 2)),
    )
    (feed,) = frozen.without_data(subject.model, 1, {"x": (4, 3, 8, 9)})
    sizes = {name: array.shape for name, array in feed.items()}
    assert sizes == {"x": (4, 3, 8, 9), "z": (4, 5), "w": (1, 8), "v": (1, 2)}
    (other,) = frozen.without_data(subject.model, 1, {}, shapes={"x": (2, 3, 7, 6)})
    assert {name: array.shape[0] for name, array in other.items()} == {
        "x": 2,
        "z": 2,
        "w": 1,
        "v": 1,
    }
    with pytest.raises(UsageError, match="--shape and --freeze differ for 'z'"):
        frozen.refuse_unfit({"x": (4, 3, 8, 9)}, subject, {"z": (2, 5)})


def _replayed(recipe: Recipe, path: Path, data: Path | None) -> Replayed:
    text = path.parent / "one.recipe"
    text.write_text(recipe.text, encoding="utf-8")
    return replay(
        text,
        str(path),
        out=path.parent / "out.onnx",
        data=None if data is None else str(data),
        store=path.parent / "store",
        seed=0,
        progress=lambda _: None,
    )


@pytest.mark.parametrize("given", [True, False])
def test_a_partly_frozen_recipe_is_replayed(tmp_path: Path, given: bool) -> None:
    """With data, whose sizes count; and without, where a size that stays free is not known."""
    path = _gated(tmp_path)
    data = tmp_path / "data.npz"
    np.savez(data, x=np.random.default_rng(0).normal(size=(40, 3, 12, 6)).astype(np.float32))
    action = Action.of("freeze_shapes", "x", shape="1x3x12x?")
    recipe = Recipe(baseline=read_model(path).digest, actions=(action,), opset=17)
    made = onnx.load(_replayed(recipe, path, data if given else None).path)
    sizes = made.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in sizes] == [1, 3, 12, 0]


@pytest.mark.parametrize("value", [0, 1, -1, 0.5, True, 16000])
def test_every_frozen_number_is_replayed(tmp_path: Path, value: float) -> None:
    """Also what is not a size."""
    path = _unlike(tmp_path, "float32")
    action = Action.of("freeze_value", "rate", value=value)
    recipe = Recipe(baseline=read_model(path).digest, actions=(action,), opset=17)
    assert _replayed(recipe, path, None).recipe.actions == (action,)
    (sentence,) = frozen.said(recipe)
    assert str(float(value)).removesuffix(".0") in sentence


@pytest.mark.parametrize(
    "action",
    [
        Action.of("freeze_value", "rate", value=10**20),
        Action.of("freeze_value", "rate", value="much"),
        Action.of("freeze_value", "other", value=1),
        Action.of("freeze_shapes", "x", shape="0x4"),
        Action.of("freeze_shapes", "x", shape="2x5"),
        Action.of("freeze_shapes", "x"),
    ],
)
def test_what_does_not_fit_names_the_action(tmp_path: Path, action: Action) -> None:
    """A recipe written by hand or for another model is refused, with the action at fault."""
    path = _unlike(tmp_path, "uint8")
    recipe = Recipe(baseline=read_model(path).digest, actions=(action,), opset=17)
    with pytest.raises(ActionRejected, match="action 1"):
        _replayed(recipe, path, None)


def _strided(folder: Path) -> Path:
    """Free height and width, opset 13, and a kernel that a small made-up input does not fill."""
    b = Builder()
    b.conv("x", "stem", (3, 4), kernel=9, pad=False)
    b.node("ReduceMean", ["stem"], "y", axes=[2, 3], keepdims=0)
    free = [("x", "float32", ("N", 3, "H", "W"))], [("y", "float32", ("N", 4))]
    return graphs.write(b.model(*free, opset=13), folder)


@pytest.mark.parametrize("freeze", [{}, {"x": (2, 3, 20, 24)}])
def test_a_reopened_study_rebuilds_what_was_measured(
    tmp_path: Path, freeze: dict[str, tuple[int, ...]]
) -> None:
    """Byte for byte, also without data: its own inputs decide what normalisation may do."""
    request = RunRequest(
        model=str(_strided(tmp_path)),
        freeze=freeze,
        shapes={"x": (2, 3, 20, 24)},
        objectives=("latency",),
        seed=3,
        store=tmp_path / "store",
    ).checked()
    with prepared(request, lambda _: None, lambda: False, keep=False) as ready:
        named = dict(ready.spaces["local"].standard())
        recipe = named["normalize"].recipe if not freeze else named["exact"].recipe
        built = ready.workshop.build(recipe)
        measured, study = ready.workshop.feed, ready.study
    assert built.graph.opset_imports[""] > 13
    with Workspace.open(tmp_path / "store") as workspace:
        again = reopen(study, workspace)
        assert to_bytes(again.workshop.build(built.recipe).graph) == to_bytes(built.graph)
        feeds = again.feeds(3)
    assert len(feeds) == 3
    assert measured is not None
    np.testing.assert_array_equal(feeds[0]["x"], measured["x"])
    assert feeds[0]["x"].shape == (2, 3, 20, 24)
