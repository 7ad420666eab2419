"""`--freeze`: shapes that built models need to take and no other."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from edgeopt.api import frozen
from edgeopt.api.prepare import prepared
from edgeopt.api.replay import replay
from edgeopt.api.request import RunRequest
from edgeopt.api.subject import open_subject
from edgeopt.core.action import Action, Recipe
from edgeopt.core.model import Model, TensorSpec
from edgeopt.errors import UsageError
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
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
    given = {"x": (1, 3, None), "a=b": (2,)}
    assert frozen.parsed(frozen.texts(given)) == given
    assert frozen.texts(given) == ["a=b=2", "x=1x3x?"]


@pytest.mark.parametrize("text", ["", "x", "x=", "=1x3", "x=1xN", "x=0x3", "x=1,3", "x=-1"])
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


def test_refused_on_the_command_line(tmp_path: Path, edgeopt: Callable[..., Finished]) -> None:
    """Exit code 2 and no trace."""
    done = edgeopt("run", _gated(tmp_path), "--freeze", "x=abc", "--dry-run")
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
