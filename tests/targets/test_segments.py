"""Files in parts: cut at large weights, the same again from the parts, and shared by models."""

import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgeopt.targets.segments import LARGE, Plan, plan


def write(folder: Path, name: str, seeds: list[int], side: int = 80) -> Path:
    """A chain of matrix products, each with the weights of its seed (25 kB each)."""
    weights, nodes = [], []
    for place, seed in enumerate(seeds):
        matrix = np.random.default_rng(seed).standard_normal((side, side), np.float32)
        weights.append(numpy_helper.from_array(matrix, f"w{place}"))
        nodes.append(helper.make_node("MatMul", [f"v{place}", f"w{place}"], [f"v{place + 1}"]))
    ends = [
        helper.make_tensor_value_info(value, TensorProto.FLOAT, [1, side])
        for value in ("v0", f"v{len(seeds)}")
    ]
    proto = helper.make_model(helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights))
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def assembled(made: Plan) -> list[bytes]:
    """The files from their blobs, as a device makes them."""
    found = []
    for file in made.files:
        data = file.path.read_bytes()
        blobs = {b.digest: b"".join(data[x:y] for x, y in b.spans) for b in file.blobs}
        assert all(hashlib.sha256(blob).hexdigest() == name for name, blob in blobs.items())
        found.append(b"".join(blobs[name][at : at + size] for name, at, size in file.parts))
        assert hashlib.sha256(found[-1]).hexdigest() == file.digest
        assert len(found[-1]) == file.size
    return found


def test_weights_are_blobs(tmp_path: Path) -> None:
    """Each large weight stands alone; two candidates that share two of three share two blobs."""
    one, two = (plan(write(tmp_path, f"{n}.onnx", s)) for n, s in ((1, [1, 2, 3]), (2, [1, 2, 4])))
    assert assembled(one) == [one.files[0].path.read_bytes()]
    weights = [{b.digest for b in made.files[0].blobs if b.size == 25600} for made in (one, two)]
    assert len(weights[0]) == 3
    assert len(weights[0] & weights[1]) == 2
    assert one.key != two.key
    assert plan(write(tmp_path, "1.onnx", [1, 2, 3])) == one


def test_a_weight_twice_is_one_blob(tmp_path: Path) -> None:
    """Equal weights in one model are sent once."""
    made = plan(write(tmp_path, "m.onnx", [7, 7, 7]))
    assert len([b for b in made.files[0].blobs if b.size == 25600]) == 1
    assert assembled(made) == [made.files[0].path.read_bytes()]


def test_external_data(tmp_path: Path) -> None:
    """Weights beside the model come along under their name, cut as well; outside ones do not."""
    proto = onnx.load(write(tmp_path, "m.onnx", [1, 2]))
    onnx.save(proto, str(tmp_path / "e.onnx"), save_as_external_data=True, location="sub.data")
    made = plan(tmp_path / "e.onnx")
    assert [file.name for file in made.files] == ["e.onnx", "sub.data"]
    assert assembled(made) == [(tmp_path / n).read_bytes() for n in ("e.onnx", "sub.data")]
    inside = {b.digest for b in plan(tmp_path / "m.onnx").files[0].blobs}
    assert len(inside & {b.digest for b in made.files[1].blobs}) == 2
    text = (tmp_path / "e.onnx").read_bytes().replace(b"sub.data", b"../u.dat")
    (tmp_path / "o.onnx").write_bytes(text)
    (tmp_path.parent / "u.dat").write_bytes(b"secret")
    assert [file.name for file in plan(tmp_path / "o.onnx").files] == ["o.onnx"]


def test_constants_and_subgraphs(tmp_path: Path) -> None:
    """A large tensor in a node's attribute, and in a branch, is found too."""
    value = numpy_helper.from_array(np.arange(LARGE, dtype=np.float32))
    inner = helper.make_graph([helper.make_node("Constant", [], ["c"], value=value)], "b", [], [])
    node = helper.make_node("If", ["x"], ["y"], then_branch=inner)
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(helper.make_graph([node], "g", [], [])).SerializeToString())
    made = plan(path)
    assert value.raw_data in [
        path.read_bytes()[b:e] for blob in made.files[0].blobs for b, e in blob.spans
    ]
    assert assembled(made) == [path.read_bytes()]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.binary(max_size=400), repeat=st.integers(1, 200), cut=st.integers(0, 400))
def test_any_bytes(tmp_path: Path, data: bytes, repeat: int, cut: int) -> None:
    """What is no model, or half of one, is still the same file when it is put together."""
    model = write(tmp_path, "whole.onnx", [1]).read_bytes()
    for text in (data * repeat, model[: len(model) * cut // 400], model[:cut] + data + model[cut:]):
        path = tmp_path / "any.onnx"
        path.write_bytes(text)
        assert assembled(plan(path)) == [text]


@pytest.mark.parametrize("size", [0, 1, LARGE, 40_000_000])
def test_other_files(tmp_path: Path, size: int) -> None:
    """Empty, small, and long files: long ones in pieces, so that a cut costs one of them."""
    path = tmp_path / "feeds.npz"
    path.write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    made = plan(path)
    assert assembled(made) == [path.read_bytes()]
    assert max((b.size for b in made.files[0].blobs), default=0) <= 16 * 1024 * 1024
