"""Makers of the zoo's data on small counts, without anything fetched: same seed, same samples."""

import wave
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgeopt.api import zoo
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.data.accuracy.fidelity import fidelity
from edgeopt.graph.runtime import Session
from models.generators import ddddocr, light, oww_embedding, random_weights
from models.metrics.nearest_centroid import NearestCentroid


@pytest.fixture
def charset(tmp_path: Path) -> dict[str, Path]:
    """A source such as the package ships, with a list before the one that counts."""
    source = tmp_path / "charsets.py"
    source.write_text("CHARSET_OLD = ['', 'x']\nCHARSET_BETA = ['', '\\u00e9', 'a']\n", "utf-8")
    return {ddddocr.SOURCE: source}


def test_captchas_depend_on_the_seed_only(tmp_path: Path, charset: dict[str, Path]) -> None:
    """Twice the same seed, then another."""
    first, again, other = (
        ddddocr.make(tmp_path / "unused.onnx", seed, {"samples": 4}, charset) for seed in (1, 1, 2)
    )
    assert np.array_equal(first["input1"], again["input1"])
    assert first["label"].tolist() == again["label"].tolist()
    assert not np.array_equal(first["input1"], other["input1"])


def test_a_captcha_shows_its_text(tmp_path: Path, charset: dict[str, Path]) -> None:
    """Four to six letters that no other looks like, in pixels that are not all alike."""
    made = ddddocr.make(tmp_path / "unused.onnx", 0, {"samples": 12}, charset)
    assert made["input1"].shape == (12, 1, 64, 192)
    assert made["input1"].dtype == np.uint8
    assert all(image.std() > 5 for image in made["input1"])
    assert all(4 <= len(text) <= 6 for text in made["label"])
    assert not set("".join(made["label"])) & set("0Oo1lIi")


def test_the_charset_is_read_without_running_it(charset: dict[str, Path]) -> None:
    """A call in the source is no list: it is refused, not made."""
    assert ddddocr.charset(charset[ddddocr.SOURCE].read_text("utf-8")) == ["", "é", "a"]
    with pytest.raises(ValueError, match="malformed node"):
        ddddocr.charset("CHARSET_BETA = print('run')")
    with pytest.raises(ValueError, match="no CHARSET_BETA"):
        ddddocr.charset("CHARSET = ['']")


@pytest.fixture
def architecture(tmp_path: Path) -> Path:
    """Two layers in the onnx package's way: sizes as inputs, every weight a ConstantOfShape."""
    sizes = {
        "w1": [8, 3, 3, 3],
        "b1": [8],
        **{name: [8] for name in ("scale", "shift", "mean", "variance")},
        "w2": [5, 8],
        "b2": [5],
    }
    nodes = [helper.make_node("ConstantOfShape", [f"{n}_size"], [n]) for n in sizes]
    statistics = ["scale", "shift", "mean", "variance"]
    nodes += [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], kernel_shape=[3, 3]),
        helper.make_node("BatchNormalization", ["c", *statistics], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Reshape", ["g", "flat"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["y"], transB=1),
    ]
    held = [
        helper.make_tensor(f"{n}_size", TensorProto.INT64, [len(d)], d) for n, d in sizes.items()
    ]
    held.append(helper.make_tensor("flat", TensorProto.INT64, [2], [0, 8]))
    value = helper.make_tensor_value_info
    inputs = [value(t.name, TensorProto.INT64, list(t.dims)) for t in held]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [*inputs, value("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [value("y", TensorProto.FLOAT, [1, 5])],
        held,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=3)
    onnx.save(model, tmp_path / "tiny.onnx")
    return tmp_path / "tiny.onnx"


def test_random_weights_depend_on_the_seed_only(architecture: Path) -> None:
    """Byte for byte."""
    first, again, other = (random_weights.build(architecture, seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_random_weights_replace_every_constant(architecture: Path) -> None:
    """Initializers that are no inputs; variances are positive; only the picture is fed."""
    model = onnx.load_from_string(random_weights.build(architecture, 0))
    onnx.checker.check_model(model, full_check=True)
    held = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    assert [value.name for value in model.graph.input] == ["x"]
    assert "ConstantOfShape" not in {node.op_type for node in model.graph.node}
    assert held["w1"].shape == (8, 3, 3, 3)
    assert held["w1"].std() == pytest.approx(1 / np.sqrt(27), rel=0.2)
    assert (held["variance"] > 0.3).all()
    assert set(held) == {"w1", "b1", "scale", "shift", "mean", "variance", "w2", "b2", "flat"}


def test_an_operator_of_no_such_network_is_refused(architecture: Path) -> None:
    """Its spread is not known, so what follows would have weights of any size."""
    model = onnx.load(architecture)
    model.graph.node[-4].op_type = "Sigmoid"
    onnx.save(model, architecture)
    with pytest.raises(ValueError, match="Sigmoid"):
        random_weights.build(architecture, 0)


def test_pictures_are_smooth_and_differ(architecture: Path) -> None:
    """Neighbouring pixels are alike, pictures are not; the name is that of the model's input."""
    built = architecture.with_name("built.onnx")
    built.write_bytes(random_weights.build(architecture, 0))
    made = light.make(built, 0, {"samples": 3}, {})
    again = light.make(built, 0, {"samples": 3}, {})
    pictures = made["x"]
    assert pictures.dtype == np.uint8
    assert np.array_equal(pictures, again["x"])
    grey = pictures.astype(float)
    assert np.abs(np.diff(grey, axis=-1)).mean() < 0.2 * grey.std()
    assert np.abs(grey[0] - grey[1]).mean() > 0.5 * grey.std()


def test_a_network_of_the_onnx_package_becomes_what_the_manifest_says(tmp_path: Path) -> None:
    """Built here without fetching; its classes are spread, and pictures change what it says."""
    files = zoo.get("light-squeezenet", tmp_path)
    assert zoo.find("light-squeezenet", tmp_path) == files
    session = Session(files.model, RuntimeSettings())
    with np.load(files.data) as arrays:
        pictures = (arrays["data_0"][:4] / np.float32(255) - np.float32(0.5)) / np.float32(0.196)
    outputs = [
        session.run({"data_0": x[None].astype(np.float32)})["softmaxout_1"] for x in pictures
    ]
    spreads = [float(np.log(out).std()) for out in outputs]
    assert all(0.5 < spread < 3 for spread in spreads)
    assert all(out.max() < 0.9 for out in outputs)
    assert fidelity(np.mean(outputs, axis=0), outputs[0]) < 0.98


def graph_of(path: Path, nodes: list, x: tuple, y: tuple, held: list) -> Path:
    """A float model of one input and one output: (name, shape) each."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "tiny", [value(x[0], 1, x[1])], [value(y[0], 1, y[1])], held)
    opset = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


@pytest.fixture
def spotting(tmp_path: Path) -> tuple[Path, dict[str, Path]]:
    """A front end and a network of one or two nodes, and two recordings of noise in bursts."""
    sizes = [
        helper.make_tensor("rows", TensorProto.INT64, [4], [1, 1, 79, 160]),
        *(helper.make_tensor(n, TensorProto.INT64, [1], [v]) for n, v in (("a", 0), ("b", 32))),
        helper.make_tensor("axis", TensorProto.INT64, [1], [3]),
    ]
    front = [
        helper.make_node("Reshape", ["input", "rows"], ["cut"]),
        helper.make_node("Slice", ["cut", "a", "b", "axis"], ["output"]),
    ]
    assets = {
        oww_embedding.MEL: graph_of(
            tmp_path / "front.onnx", front, ("input", [1, 12640]), ("output", [1, 1, 79, 32]), sizes
        )
    }
    mean = helper.make_node("ReduceMean", ["input_1"], ["e"], axes=[1, 3], keepdims=1)
    network = graph_of(
        tmp_path / "net.onnx", [mean], ("input_1", [1, 76, 32, 1]), ("e", [1, 1, 32, 1]), []
    )
    random = np.random.default_rng(0)
    for name in ("one.wav", "two.wav"):
        samples = (random.normal(size=5 * 16000) * 3000).astype("<i2")
        assets[name] = tmp_path / name
        with wave.open(str(assets[name]), "wb") as stream:
            stream.setparams((1, 2, 16000, 0, "NONE", ""))
            stream.writeframes(samples.tobytes())
    return network, assets


def test_excerpts_depend_on_the_seed_only(spotting: tuple[Path, dict[str, Path]]) -> None:
    """Windows, labels and the classifier; another seed draws other noise."""
    counts = {"excerpts": 3, "fitted": 12, "samples": 9}
    first, again, other = (
        oww_embedding.make(spotting[0], s, counts, spotting[1]) for s in (0, 0, 1)
    )
    for key in ("input_1", "label"):
        assert np.array_equal(first[key], again[key])
    assert first["metric_options"] == again["metric_options"]
    assert not np.array_equal(first["input_1"], other["input_1"])


def test_every_excerpt_occurs_equally_often(spotting: tuple[Path, dict[str, Path]]) -> None:
    """Windows of the network's shape in steps of 1/128; weights and an offset an excerpt."""
    made = oww_embedding.make(
        spotting[0], 0, {"excerpts": 3, "fitted": 12, "samples": 9}, spotting[1]
    )
    assert made["input_1"].shape == (9, 76, 32, 1)
    assert made["input_1"].dtype == np.float32
    assert np.array_equal(made["input_1"] * 128, np.rint(made["input_1"] * 128))
    assert np.bincount(made["label"][:, 0]).tolist() == [3, 3, 3]
    assert np.shape(made["metric_options"]["centroids"]) == (3, 32)
    assert np.shape(made["metric_options"]["offsets"]) == (3,)


def test_the_discriminant_allows_for_a_common_direction_of_noise() -> None:
    """Where the nearest mean is misled by a wide axis; the metric judges with its offsets."""
    random = np.random.default_rng(0)
    owners = np.arange(600) % 3
    found = random.normal(size=(600, 4)) * [10, 10, 0.3, 0.3]
    found[:, 2] += owners
    weights, offsets = oww_embedding.discriminant(found, owners, 3)
    metric = NearestCentroid(weights.tolist(), "e", offsets.tolist())
    rows = [
        metric.evidence({"e": x[None]}, np.array([owner, 1]), None)
        for x, owner in zip(found, owners, strict=True)
    ]
    plain = np.stack([found[owners == index].mean(axis=0) for index in range(3)])
    nearest = np.argmin(((found[:, None] - plain) ** 2).sum(-1), axis=1)
    assert metric.value(np.concatenate(rows)) > 0.85 > (nearest == owners).mean() + 0.3
