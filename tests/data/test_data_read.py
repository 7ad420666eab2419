"""From files to data sets: how arrays become feeds, what files say themselves, what is kept."""

import io
import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from data_models import FRAMES, IMAGES, TOKENS, model
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from edgeopt.core.data import DataSet
from edgeopt.data.columns import mode_of
from edgeopt.data.preprocess import Preprocess
from edgeopt.data.read import DataOptions, declared, read_data
from edgeopt.errors import DataError


def _write(path: Path, description: dict | None = None, **arrays: np.ndarray) -> str:
    beside = {} if description is None else {"edgeopt": np.array(json.dumps(description))}
    np.savez(path, **arrays, **beside)
    return str(path)


def _images(count: int = 30) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 3, 8, 8)).astype(np.float32)


def _all(data: DataSet) -> list:
    return [*data.calibration.feeds, *data.search.feeds, *data.test.feeds]


@pytest.mark.parametrize(
    ("shape", "given", "count", "mode"),
    [
        ((7, 3, 8, 8), ("n", 3, 8, 8), 7, "rows"),
        ((7, 3, 8, 8), (1, 3, 8, 8), 7, "rows"),
        ((7, 4, 3, 8, 8), (4, 3, 8, 8), 7, "whole"),
        ((7, 25, 576), (None, 576), 7, "whole"),
        ((1, 1, 128), (1, 1, 128), 7, "constant"),
        ((2, 1, 4), (2, "n", 4), 2, "constant"),
        ((2, 1, 4), (2, "n", 4), 7, "constant"),
        ((7,), (), 7, "whole"),
        ((), (), 7, "constant"),
        ((7,), ("n",), 7, "rows"),
        ((6, 5), ("n", "length"), 7, None),
        ((7, 8, 8, 3), ("n", 3, 8, 8), 7, None),
        ((7, 3), None, 7, "rows"),
    ],
)
def test_shapes_say_how_an_array_serves(
    shape: tuple, given: tuple | None, count: int, mode: str | None
) -> None:
    """Rows of a batch axis, whole feeds, constants, or a misfit."""
    specs = model({"x": ("float32", *(given or ()))}).inputs[0]
    spec = specs if given is not None else type(specs)(name="x", dtype="float32", shape=None)
    assert mode_of(shape, spec, count) == mode


def test_feeds_are_views_and_pixels_are_decoded_on_access(tmp_path: Path) -> None:
    """(pixel / 255 - mean) / std a channel, in the sample's place only."""
    pixels = np.random.default_rng(0).integers(0, 256, (30, 3, 8, 8), dtype=np.uint8)
    how = {"mean": [0.1, 0.2, 0.3], "std": [0.5, 0.25, 0.125]}
    spec = _write(tmp_path / "a.npz", {"preprocess": how}, x=pixels, label=np.arange(30))
    data = read_data(spec, IMAGES)
    for part in (data.calibration, data.search, data.test):
        for feed, label in zip(part.feeds, part.target, strict=True):
            mean, std = (np.array(how[k]).reshape(3, 1, 1) for k in ("mean", "std"))
            expected = (pixels[label : label + 1] / 255 - mean) / std
            np.testing.assert_allclose(feed["x"], expected, rtol=1e-5, atol=1e-6)
            assert feed["x"].dtype == np.float32
    floats = read_data(_write(tmp_path / "b.npz", x=_images(), label=np.arange(30)), IMAGES)
    bases = {id(feed["x"].base) for feed in _all(floats)}
    assert len(bases) == 1, "samples are views of one array"


def test_state_may_be_left_out_and_starts_at_zeros(tmp_path: Path) -> None:
    """Frames of recordings with a scalar constant; the state input is made up."""
    arrays = {
        "input": np.random.default_rng(0).normal(size=(40, 320)).astype(np.float32),
        "sr": np.array(16000),
        "label": np.arange(40)[:, None] % 2,
    }
    group = np.arange(40) // 8
    spec = _write(tmp_path / "a.npz", {"state": {"stateN": "state"}}, group=group, **arrays)
    data = read_data(spec, FRAMES)
    assert data.state == {"stateN": "state"}
    assert [p.name for p in data.probes] == ["level", "noise"]
    feed = data.test.feeds[0]
    assert feed["state"].shape == (2, 1, 4)
    assert not feed["state"].any()
    assert feed["sr"].shape == ()
    assert feed["input"].shape == (1, 320)
    with pytest.raises(DataError, match="no groups"):
        read_data(_write(tmp_path / "b.npz", {"state": {"stateN": "state"}}, **arrays), FRAMES)
    with pytest.raises(DataError, match="does not have"):
        read_data(
            _write(tmp_path / "c.npz", {"state": {"hn": "state"}}, group=group, **arrays), FRAMES
        )
    with pytest.raises(DataError, match="'state'"):
        read_data(_write(tmp_path / "d.npz", group=group, **arrays), FRAMES)


def test_lossless_casts_are_made_and_said(tmp_path: Path) -> None:
    """int32 to int64 and float64 to float32; what does not fit is refused."""
    ids = np.arange(60, dtype=np.int32).reshape(20, 3)
    spec = _write(tmp_path / "a.npz", ids=ids, attention_mask=np.ones_like(ids))
    data = read_data(spec, TOKENS)
    assert not data.labelled
    assert any("ids: cast from int32 to int64" in note for note in data.notes)
    assert data.test.feeds[0]["ids"].dtype == np.int64
    doubles = _images().astype(np.float64)
    assert read_data(_write(tmp_path / "b.npz", x=doubles), IMAGES).notes
    doubles[3, 0, 0, 0] = 1e300
    with pytest.raises(DataError, match="float64"):
        read_data(_write(tmp_path / "c.npz", x=doubles), IMAGES)
    small = model({"ids": ("int8", "n", 3)})
    with pytest.raises(DataError, match="does not fit int8"):
        read_data(_write(tmp_path / "d.npz", ids=ids * 10), small)


def test_what_is_said_explicitly_wins(tmp_path: Path) -> None:
    """Over the file's own description, metric options key by key."""
    own = {"metric": "f1", "metric_options": {"axis": 1, "ignore": 3}, "probes": ["blur"]}
    spec = _write(tmp_path / "a.npz", own, x=_images(), label=np.arange(30))
    assert declared(spec)["metric"] == "f1"
    data = read_data(spec, IMAGES)
    assert data.metric == "f1"
    assert [probe.name for probe in data.probes] == ["blur"]
    options = DataOptions(metric="top1", metric_options={"ignore": 4}, probes=())
    data = read_data(spec, IMAGES, options)
    assert data.metric == "top1"
    assert data.metric_options == {"axis": 1, "ignore": 4}
    assert data.probes == ()


@pytest.mark.parametrize(
    "description",
    [{"metrics": "top1"}, {"probes": "blur"}, {"limit": "many"}, {"state": ["h"]}, ["top1"]],
)
def test_a_description_with_mistakes_is_refused(description: object, tmp_path: Path) -> None:
    """Unknown keys and values of another type, at the place `edgeopt`."""
    path = tmp_path / "a.npz"
    np.savez(path, x=_images(), edgeopt=np.array(json.dumps(description)))
    with pytest.raises(DataError) as caught:
        read_data(str(path), IMAGES)
    assert "edgeopt" in caught.value.where


def test_own_probe_sets_are_read_and_count_in_the_digest(tmp_path: Path) -> None:
    """A shifted set of the user's stands beside the built-in ones, whole."""
    label = np.arange(30) % 10
    spec = _write(tmp_path / "a.npz", x=_images(), label=label)
    night = _write(tmp_path / "night.npz", x=_images(12) / 4, label=label[:12])
    options = DataOptions(probes=(), probe_sets={"night": night})
    data = read_data(spec, IMAGES, options)
    assert [(probe.name, len(probe)) for probe in data.probes] == [("night", 12)]
    _write(tmp_path / "night.npz", x=_images(12) / 5, label=label[:12])
    assert read_data(spec, IMAGES, options).digest != data.digest
    _write(tmp_path / "night.npz", x=_images(12))
    with pytest.raises(DataError, match="has labels"):
        read_data(spec, IMAGES, options)


def test_pictures_are_resized_as_asked() -> None:
    """Stretched, cropped in the centre, padded below and right; RGB, BGR or gray."""
    picture = np.zeros((8, 16, 3), np.uint8)
    picture[:, 4:12] = (255, 0, 0)
    opened = Image.fromarray(picture)

    def made(layout: str = "nchw", **how: object) -> np.ndarray:
        preprocess = Preprocess.of({"filter": "nearest", **how}, "here")
        return preprocess.image(opened, (8, 8), layout)

    assert made(resize="stretch")[0, 4].tolist() == [0, 0, 255, 255, 255, 255, 0, 0]
    assert made(resize="crop")[0, 4].tolist() == [255] * 8
    assert made(resize="crop", short_side=8, channels="bgr")[2, 4].tolist() == [255] * 8
    assert made(resize="crop", short_side=16)[0, 4].tolist() == [255] * 8
    padded = made(resize="pad", fill=7)
    assert padded[0, 1].tolist() == [0, 0, 255, 255, 255, 255, 0, 0]
    assert padded[1, 5].tolist() == [7] * 8
    assert made("nhwc").shape == (8, 8, 3)
    assert made(channels="gray").shape == (1, 8, 8)


def test_class_names_go_to_the_metric(tmp_path: Path) -> None:
    """The sorted names of the folders."""
    for name in ("wasp", "ant", "bee"):
        (tmp_path / name).mkdir()
        pixels = np.random.default_rng(ord(name[0])).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / name / "0.png")
    data = read_data(str(tmp_path), IMAGES, DataOptions(preprocess={"mean": 0.5}))
    assert data.metric_options["classes"] == ("ant", "bee", "wasp")


def test_no_reader_and_no_path_are_said() -> None:
    """A specification that nothing takes."""
    with pytest.raises(DataError, match="no reader"):
        read_data("data.parquet", IMAGES)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_file_is_refused_or_read_never_a_trace(data: st.DataObject) -> None:
    """Bytes changed and cut anywhere in the archive."""
    content = bytearray(_archive())
    places = data.draw(st.lists(st.integers(0, len(content) - 1), max_size=6))
    for place in places:
        content[place] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(len(content) // 2, len(content)))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged.npz"
        path.write_bytes(content)
        assert str(path) in _where(path)


def _where(path: Path) -> str:
    """Where the file was refused; the file itself where it was read."""
    try:
        read_data(str(path), IMAGES)
    except DataError as error:
        return error.where
    return str(path)


@cache
def _archive() -> bytes:
    stream = io.BytesIO()
    small = np.round(_images(12), 1)
    np.savez(stream, x=small, label=np.arange(12), edgeopt=np.array('{"metric": "top1"}'))
    return stream.getvalue()
