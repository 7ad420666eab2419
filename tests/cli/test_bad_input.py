"""Every kind of unusable input: a message, an exit code, nothing half written."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgeopt.testing import graphs
from tests.conftest import DIGITS

RUN = ("--trials", "1", "--budget", "30s")


@pytest.fixture
def edgeopt(edgeopt_here):
    """Messages are the same in this process; a full disk has one of its own."""
    return edgeopt_here


def _model(path: Path, nodes, *, opset=17) -> Path:
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])
    graph = helper.make_graph(nodes, "g", [given], [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


def _external(path: Path, location: str) -> Path:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 4])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    model = onnx.load_model_from_string(
        _model(path, [helper.make_node("MatMul", ["x", "w"], ["y"], name="m")]).read_bytes()
    )
    model.graph.initializer.append(weight)
    path.write_bytes(model.SerializeToString())
    return path


def _relu(name: str, source: str, target: str):
    return helper.make_node("Relu", [source], [target], name=name)


BAD_MODELS = {
    "empty": (lambda p: p.write_bytes(b""), "empty"),
    "truncated": (
        lambda p: p.write_bytes((DIGITS / "digits.onnx").read_bytes()[:5000]),
        "truncated",
    ),
    "text": (lambda p: p.write_text("this is not a model\n"), "text"),
    "lfs": (
        lambda p: p.write_text(
            "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
        ),
        "git lfs pull",
    ),
    "missing external data": (lambda p: _external(p, "weights.bin"), "weights.bin"),
    "escaping external data": (lambda p: _external(p, "../../secret.bin"), "outside"),
    "unknown operator": (
        lambda p: _model(p, [helper.make_node("Frobnicate", ["x"], ["y"], name="f")]),
        "Frobnicate",
    ),
    "cycle": (
        lambda p: _model(p, [_relu("a", "c", "b"), _relu("b", "b", "c"), _relu("d", "x", "y")]),
        "cycle",
    ),
    "duplicate values": (
        lambda p: _model(p, [_relu("a", "x", "t"), _relu("b", "x", "t"), _relu("c", "t", "y")]),
        "'t'",
    ),
}


@pytest.mark.parametrize("kind", BAD_MODELS)
def test_bad_model_is_a_message(edgeopt, tmp_path, kind):
    """Exit code 2, the reason, no trace, and nothing written."""
    write, word = BAD_MODELS[kind]
    path = tmp_path / "model.onnx"
    write(path)
    done = edgeopt("run", path, *RUN)
    assert done.code == 2
    assert word.lower() in done.err.lower()
    assert "Traceback" not in done.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx"]


def test_missing_model_offers_the_zoo(edgeopt):
    """A name that is neither a file nor in the zoo."""
    done = edgeopt("run", "resnet-5000", *RUN)
    assert done.code == 2
    assert "edgeopt zoo list" in done.err


def test_errors_are_json_where_json_was_asked(edgeopt):
    """A machine reads the same words."""
    done = edgeopt("run", "missing.onnx", "--json", *RUN)
    told = json.loads(done.out)
    assert told["exit_code"] == done.code == 2
    assert told["error"]["what"]


def test_unsorted_model_works(edgeopt, tmp_path):
    """The checker refuses an unsorted graph; the runtime takes it, so edgeopt does."""
    path = _model(tmp_path / "model.onnx", [_relu("b", "t", "y"), _relu("a", "x", "t")])
    done = edgeopt("inspect", path)
    assert done.code == 0, done.err
    assert "Relu" in done.out


def _digits(tmp_path: Path, change) -> Path:
    with np.load(DIGITS / "digits.npz") as held:
        arrays = {key: held[key] for key in held}
    change(arrays)
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    return path


def _input_name() -> str:
    return onnx.load(DIGITS / "digits.onnx").graph.input[0].name


def _as_float(arrays, name):
    arrays.pop("edgeopt", None)
    arrays[name] = arrays[name].astype(np.float32)


def _with_nan(arrays):
    name = _input_name()
    _as_float(arrays, name)
    arrays[name].reshape(-1)[7] = np.nan


def _renamed(arrays):
    arrays["pixels"] = arrays.pop(_input_name())


def _wrong_shape(arrays):
    name = _input_name()
    _as_float(arrays, name)
    arrays[name] = arrays[name][..., :-1]


def _shorter_labels(arrays):
    arrays["label"] = arrays["label"][:-5]


def _shuffled_labels(arrays):
    arrays["label"] = np.random.default_rng(0).permutation(arrays["label"])


BAD_DATA = {
    "nan": (_with_nan, "nan"),
    "wrong name": (_renamed, _input_name),
    "wrong shape": (_wrong_shape, "shape"),
    "lengths": (_shorter_labels, "label"),
    "chance": (_shuffled_labels, "guess"),
}


@pytest.mark.parametrize("kind", BAD_DATA)
def test_bad_data_is_a_message(edgeopt, tmp_path, kind):
    """Data that does not meet the model stops the run before anything is measured."""
    change, word = BAD_DATA[kind]
    data = _digits(tmp_path, change)
    done = edgeopt("run", DIGITS / "digits.onnx", "--data", data, *RUN)
    assert done.code == 2, done.err
    assert (word() if callable(word) else word).lower() in done.err.lower()
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--max-drop", "1"),
        ("--budget", "20"),
        ("--max-size", "4"),
        ("--strategy", "magic"),
        ("--actions", "rewrite,shrink"),
        ("--objectives", "beauty"),
        ("--device", "two words"),
        ("--device", ","),
        ("--ops", "some"),
        ("--metric", "top5"),
    ],
)
def test_a_wrong_value_is_named(edgeopt, flag, value):
    """Bare numbers and unknown names are refused with what would be right."""
    data = DIGITS / "digits.npz"
    done = edgeopt("run", DIGITS / "digits.onnx", "--data", data, *RUN, flag, value)
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) >= 2


def test_free_axes_without_data_ask_for_a_shape(edgeopt, tmp_path):
    """Random inputs need sizes; the message says how to give them."""
    path = tmp_path / "model.onnx"
    path.write_bytes(graphs.conv_chain(size=None).SerializeToString())
    done = edgeopt("run", path, *RUN)
    assert done.code == 2
    assert "--shape" in done.err


@pytest.mark.parametrize("flag", ["--store", "--out"])
def test_read_only_folder(edgeopt, flag):
    """Exit code 3 and the folder's name; told before anything is measured."""
    if not Path("/proc/self").exists():
        pytest.skip("needs /proc, a file system that nobody can write to")
    done = edgeopt("run", DIGITS / "digits.onnx", *RUN, flag, "/proc/edgeopt-report")
    assert done.code == 3, done.err
    assert "/proc/edgeopt-report" in done.err
    assert "Traceback" not in done.err
    assert "[  0]" not in done.err


def test_output_that_is_a_file(edgeopt, tmp_path):
    """A folder that cannot be made is an infrastructure error, told before anything is measured."""
    blocked = tmp_path / "file"
    blocked.write_text("here first")
    done = edgeopt("run", DIGITS / "digits.onnx", *RUN, "--store", blocked / "store")
    assert done.code == 3
    assert "Traceback" not in done.err
    assert blocked.read_text() == "here first"


def test_full_disk(tmp_path):
    """A write that does not fit: exit code 3, told with what to do, and nothing half written."""
    recipe = tmp_path / "recipe.txt"
    recipe.write_text('# edgeopt recipe 1\nbaseline sha256:0\nopset 17\n\nnormalize@1 "*"\n')
    shutil.copy(DIGITS / "digits.onnx", tmp_path / "model.onnx")
    command = f"{sys.executable} -m edgeopt replay recipe.txt --on model.onnx --out small.onnx"
    setup = f"{sys.executable} -m edgeopt report"  # creates the store while there is room
    done = subprocess.run(
        ["bash", "-c", f"{setup}; ulimit -f 8; exec {command}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*small*"))
