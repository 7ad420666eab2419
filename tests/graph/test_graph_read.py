"""Reading model files: what works, and what is refused with which sentence."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgeopt.errors import ModelError
from edgeopt.graph.read import open_graph, read_model
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes, write_model
from edgeopt.testing import graphs


def external(folder: Path) -> Path:
    """A model whose weights lie in a file beside it."""
    return write_model(graphs.as_graph(graphs.conv_chain()), folder / "m.onnx", external=True).path


def with_location(folder: Path, location: str) -> Path:
    """A model that says its weights lie at `location`."""
    path = external(folder)
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    path.write_bytes(model.SerializeToString())
    return path


def edited(folder: Path, edit: Callable[[onnx.ModelProto], None], *, branch: bool = False) -> Path:
    """A tiny model after an edit."""
    model = graphs.if_model() if branch else graphs.conv_chain()
    edit(model)
    return graphs.write(model, folder)


def raw(folder: Path, data: bytes) -> Path:
    """A file with these bytes."""
    path = folder / "model.onnx"
    path.write_bytes(data)
    return path


def unknown_domain(model: onnx.ModelProto) -> None:
    model.graph.node[1].domain = "acme"
    model.opset_import.append(helper.make_opsetid("acme", 1))


def unknown_operator(model: onnx.ModelProto) -> None:
    model.graph.node[1].op_type = "Relux"


def unknown_in_branch(model: onnx.ModelProto) -> None:
    model.graph.node[2].attribute[0].g.node[0].op_type = "Relux"


def cycle(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = "relu1"


def cycle_through_branch(model: onnx.ModelProto) -> None:
    model.graph.node[2].attribute[0].g.node[0].input[0] = "y"


def twice(model: onnx.ModelProto) -> None:
    model.graph.node[1].output[0] = "conv1"


def twice_in_branch(model: onnx.ModelProto) -> None:
    model.graph.node[2].attribute[0].g.node.append(
        helper.make_node("Neg", ["x"], [model.graph.node[2].attribute[0].g.output[0].name])
    )


def weight_twice(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


def dangling(model: onnx.ModelProto) -> None:
    model.graph.node[2].input[0] = "nowhere"


def lost_output(model: onnx.ModelProto) -> None:
    model.graph.output[0].name = "gone"


def future_opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 999


def no_opset(model: onnx.ModelProto) -> None:
    del model.opset_import[:]


BAD = {
    "missing": (lambda f: f / "none.onnx", "no such file"),
    "folder": (lambda f: f, "folder"),
    "empty": (lambda f: raw(f, b""), "empty"),
    "truncated": (
        lambda f: raw(f, graphs.conv_chain().SerializeToString()[:-700]),
        "truncated or damaged",
    ),
    "text": (lambda f: raw(f, b"<html>404: Not Found</html>\n"), "text file"),
    "accented text": (lambda f: raw(f, "é".encode() * 2000), "text file"),
    "lfs": (
        lambda f: raw(f, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n"),
        "Git LFS",
    ),
    "zip": (lambda f: raw(f, b"PK\x03\x04" + bytes(64)), "zip archive"),
    "tflite": (lambda f: raw(f, bytes(4) + b"TFL3" + bytes(64)), "TensorFlow Lite"),
    "noise": (lambda f: raw(f, bytes(range(128, 256)) * 8), "not an ONNX model"),
    "no graph": (lambda f: raw(f, b"\x08\x07"), "no graph"),
    "external missing": (
        lambda f: [external(f), *(p.unlink() for p in f.glob("*.data"))][0],
        "missing",
    ),
    "external short": (
        lambda f: [external(f), *(p.write_bytes(b"1") for p in f.glob("*.data"))][0],
        "truncated",
    ),
    "external above": (lambda f: with_location(f, "../weights.bin"), "outside"),
    "external absolute": (lambda f: with_location(f, "/etc/passwd"), "outside"),
    "external windows": (lambda f: with_location(f, "C:\\weights.bin"), "outside"),
    "external sneaky": (lambda f: with_location(f, "a/../../weights.bin"), "outside"),
    "external nameless": (lambda f: with_location(f, ""), "outside"),
    "domain": (lambda f: edited(f, unknown_domain), "'acme'"),
    "operator": (lambda f: edited(f, unknown_operator), "Relux"),
    "operator in branch": (lambda f: edited(f, unknown_in_branch, branch=True), "Relux"),
    "cycle": (lambda f: edited(f, cycle), "cycle"),
    "cycle in branch": (lambda f: edited(f, cycle_through_branch, branch=True), "cycle"),
    "value twice": (lambda f: edited(f, twice), "'conv1' is defined 2 times"),
    "value twice in branch": (lambda f: edited(f, twice_in_branch, branch=True), "2 times"),
    "weight twice": (lambda f: edited(f, weight_twice), "2 times"),
    "dangling": (lambda f: edited(f, dangling), "'nowhere'"),
    "lost output": (lambda f: edited(f, lost_output), "'gone'"),
    "future opset": (lambda f: edited(f, future_opset), "operator set 999"),
    "no opset": (lambda f: edited(f, no_opset), "does not say which version"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_a_sentence(case: str, tmp_path: Path) -> None:
    """Every bad file is a ModelError (exit code 2) that names it, says why, and what to do."""
    make, words = BAD[case]
    path = make(tmp_path)
    for read in (read_model, open_graph):
        with pytest.raises(ModelError) as caught:
            read(path)
        assert words in caught.value.what
        assert caught.value.exit_code == 2
        assert str(path) in caught.value.where
        assert caught.value.hint


def test_an_unreadable_file_is_a_sentence(tmp_path: Path) -> None:
    """A path through a file instead of a folder cannot be read, and says so."""
    path = graphs.write(graphs.conv_chain(), tmp_path) / "inner.onnx"
    with pytest.raises(ModelError, match="cannot be read"):
        read_model(path)


def test_a_custom_domain_is_taken_when_asked_for(tmp_path: Path) -> None:
    """With custom operators allowed, an unknown domain is no error, and the hint says how."""
    path = edited(tmp_path, unknown_domain)
    with pytest.raises(ModelError) as caught:
        read_model(path)
    assert "--custom-ops" in caught.value.hint
    assert read_model(path, custom_ops=True).opset == 17


def test_an_unsorted_graph_works(tmp_path: Path) -> None:
    """The runtime takes unsorted graphs, so they are read, sorted, and compute the same."""
    model = graphs.residual()
    feed = graphs.random_feeds(model)[0]
    expected = Session(model.SerializeToString()).run(feed)
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    graph = open_graph(read_model(graphs.write(model, tmp_path)))
    assert next(iter(graph.graph)).op_type == "Conv"
    np.testing.assert_array_equal(Session(to_bytes(graph)).run(feed)["y"], expected["y"])


def test_repeated_and_empty_node_names_are_read(tmp_path: Path) -> None:
    """Node names may repeat or be empty: normalize gives new ones."""

    def rename(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            node.name = ""
        model.graph.node[0].name = model.graph.node[1].name = "same"

    assert read_model(edited(tmp_path, rename)).opset == 17


def test_what_a_model_takes_and_gives(tmp_path: Path) -> None:
    """Inputs are without initializers; -1 and unnamed dimensions are free; names are kept."""
    model = graphs.conv_chain()
    info = model.graph.input[0].type.tensor_type
    info.shape.dim[2].dim_value = -1
    info.shape.dim[3].ClearField("value")
    model.graph.input.append(helper.make_tensor_value_info("fc.b", 1, [5]))
    found = read_model(graphs.write(model, tmp_path))
    assert [(i.name, i.dtype, i.shape) for i in found.inputs] == [
        ("x", "float32", ("N", 3, None, None))
    ]
    assert [(o.name, o.dtype, o.shape) for o in found.outputs] == [("logits", "float32", ("N", 5))]
    assert found.size_bytes == found.path.stat().st_size


def test_the_digest_is_of_content_with_external_data(tmp_path: Path) -> None:
    """Copies have equal digests; one changed byte of the external data changes it."""
    first = read_model(external(tmp_path / "a"))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    copied = read_model(tmp_path / "b" / "m.onnx")
    assert copied.digest == first.digest
    assert copied.size_bytes == sum(p.stat().st_size for p in (tmp_path / "b").iterdir())
    data = next((tmp_path / "b").glob("*.data"))
    data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:])
    assert read_model(tmp_path / "b" / "m.onnx").digest != first.digest


def test_open_graph_is_new_every_time(tmp_path: Path) -> None:
    """Changing one opened graph leaves the next one alone."""
    path = graphs.write(graphs.conv_chain(), tmp_path)
    first = open_graph(path)
    first.graph.name = "changed"
    assert open_graph(path).graph.name != "changed"


def test_external_data_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph opened by a relative path still reads its weights after a change of folder."""
    external(tmp_path)
    monkeypatch.chdir(tmp_path)
    graph = open_graph(Path("m.onnx"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    held = graph.graph.initializers["conv1.w"].const_value
    assert held is not None
    wanted = next(t for t in graphs.conv_chain().graph.initializer if t.name == "conv1.w")
    np.testing.assert_array_equal(held.numpy(), numpy_helper.to_array(wanted))
