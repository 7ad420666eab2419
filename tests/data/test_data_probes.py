"""Built-in shifts: what they do, that they are the same each time, and where they do not fit."""

import numpy as np
import pytest
from data_models import FRAMES, IMAGES, TOKENS, model

from edgeopt.core.data import Part
from edgeopt.core.model import Model
from edgeopt.data.options import DataOptions
from edgeopt.data.probes import broadened, built_in_probes
from edgeopt.errors import DataError


def _images(layout: str = "nchw", count: int = 12) -> Part:
    x = np.random.default_rng(0).normal(2, 1, (count, 1, 3, 8, 8)).astype(np.float32)
    x[:, :, 1] *= 10
    x = x if layout == "nchw" else np.moveaxis(x, 2, 4)
    return Part(name="test", feeds=[{"x": row} for row in x], target=np.arange(count))


def _shifted(part: Part, subject: Model, **options: object) -> dict[str, Part]:
    probes, _ = built_in_probes(part, subject, DataOptions(**options))
    return {probe.name: probe for probe in probes}


def test_image_shifts_change_what_they_say() -> None:
    """Noise adds variance, blur and scale take it, contrast halves it, inversion mirrors it."""
    part = _images()
    found = _shifted(part, IMAGES)
    assert set(found) == {"noise", "blur", "inversion", "contrast", "scale"}
    for index in (0, 7):
        plain = part.feeds[index]["x"].astype(np.float64)
        x = {name: probe.feeds[index]["x"].astype(np.float64) for name, probe in found.items()}
        assert x["noise"].std() > plain.std()
        for name in ("blur", "scale"):
            assert x[name][:, 1].std() < plain[:, 1].std()
        np.testing.assert_allclose(x["contrast"].std(), plain.std() / 2, rtol=1e-4)
        np.testing.assert_allclose(x["contrast"].mean(), plain.mean(), rtol=1e-4)
        mirrored = x["inversion"] + plain
        for channel in range(3):
            np.testing.assert_allclose(mirrored[:, channel].std(), 0, atol=1e-4)
        assert all(array.dtype == np.float32 for array in (p.feeds[0]["x"] for p in found.values()))


def test_channels_last_is_understood() -> None:
    """The same pictures in the other layout get the same shifts, but for noise."""
    last = model({"x": ("float32", "n", 8, 8, 3)})
    first_found, last_found = _shifted(_images(), IMAGES), _shifted(_images("nhwc"), last)
    for name in ("blur", "inversion", "contrast", "scale"):
        one, other = first_found[name].feeds[3]["x"], last_found[name].feeds[3]["x"]
        np.testing.assert_allclose(np.moveaxis(other, 3, 1), one, rtol=1e-5)


def test_probes_are_reproducible_and_follow_the_seed() -> None:
    """Access in any order gives the same sample; another seed gives other noise."""
    part = _images()
    one, again, other = (_shifted(part, IMAGES, seed=s)["noise"] for s in (0, 0, 1))
    assert np.array_equal(one.feeds[5]["x"], again.feeds[3:][2]["x"])
    assert not np.array_equal(one.feeds[5]["x"], one.feeds[4]["x"])
    assert not np.array_equal(one.feeds[5]["x"], other.feeds[5]["x"])
    assert len(one.take(4)) == 4


def test_audio_is_found_by_its_long_axis_or_said() -> None:
    """The signal is shifted; rate and state are left alone."""
    feed = {
        "input": np.random.default_rng(0).normal(size=(1, 320)).astype(np.float32),
        "sr": np.array(16000),
        "state": np.zeros((2, 1, 4), np.float32),
    }
    part = Part(name="test", feeds=[feed] * 4, group=np.zeros(4, dtype=np.int64))
    found = _shifted(part, FRAMES, state={"stateN": "state"})
    assert set(found) == {"level", "noise"}
    quiet = found["level"].feeds[1]
    np.testing.assert_allclose(quiet["input"], feed["input"] / 4)
    assert quiet["state"] is feed["state"]
    short = model({"x": ("float32", "n", 40)})
    rows = [{"x": np.random.default_rng(1).normal(size=(1, 40)).astype(np.float32)}] * 3
    few = Part(name="test", feeds=rows)
    assert set(_shifted(few, short)) == {"noise"}
    assert set(_shifted(few, short, kind="audio")) == {"level", "noise"}


def test_sequences_are_cut_where_all_inputs_share_a_free_axis() -> None:
    """Three quarters of the eight tokens that the mask shows, in every input."""
    ids = np.arange(10)[None]
    feed = {"ids": ids, "attention_mask": (ids < 8).astype(np.int64)}
    part = Part(name="test", feeds=[feed] * 3, target=np.arange(3))
    cut = _shifted(part, TOKENS)["length"].feeds[0]
    assert cut["ids"].tolist() == [[0, 1, 2, 3, 4, 5]]
    assert cut["attention_mask"].tolist() == [[1] * 6]
    fixed = model({"ids": ("int64", "n", 10), "attention_mask": ("int64", "n", 10)})
    probes, notes = built_in_probes(part, fixed, DataOptions())
    assert probes == ()
    assert "free sequence axis" in notes[0]
    tagged = Part(name="test", feeds=[feed] * 3, target=np.zeros((3, 10)))
    assert built_in_probes(tagged, TOKENS, DataOptions())[0] == ()


def test_probes_that_do_not_fit_are_refused() -> None:
    """A name that does not exist, a shift for other data, a kind that does not exist."""
    for subject, part, options in (
        (IMAGES, _images(), {"probes": ("nois",)}),
        (IMAGES, _images(), {"probes": ("level",)}),
        (IMAGES, _images(), {"kind": "video"}),
    ):
        with pytest.raises(DataError):
            _shifted(part, subject, **options)


def test_broadened_samples_take_each_shift_in_turn() -> None:
    """Every sample comes under every shift, at half and at full strength, next ones differing."""
    part = _images()
    found = broadened(part, IMAGES, DataOptions(probes=("contrast",)))
    assert found is not None
    assert len(found) == 2 * len(part)
    shares = [
        found.feeds[i]["x"].std() / part.feeds[i % len(part)]["x"].std() for i in range(len(found))
    ]
    np.testing.assert_allclose(shares[: len(part)], [0.75, 0.5] * 6, rtol=1e-3)
    np.testing.assert_allclose(shares[len(part) :], [0.5, 0.75] * 6, rtol=1e-3)
    every = broadened(part, IMAGES, DataOptions())
    assert every is not None
    assert len(every) == 10 * len(part)


def test_broadened_groups_stay_whole() -> None:
    """All samples of a group are under one shift, and each turn has groups of its own."""
    x = np.random.default_rng(0).normal(size=(6, 1, 512)).astype(np.float32)
    part = Part(name="c", feeds=[{"x": row} for row in x], group=np.array([7, 7, 7, 2, 2, 5]))
    audio = model({"x": ("float32", "n", 512)})
    found = broadened(part, audio, DataOptions(probes=("level",)))
    assert found is not None
    assert found.group is not None
    assert found.group.tolist() == [0, 0, 0, 1, 1, 2, 3, 3, 3, 4, 4, 5]
    sizes = [float(np.abs(found.feeds[i]["x"]).max() / np.abs(x[i % 6]).max()) for i in range(12)]
    halves = [0.625] * 3 + [0.25] * 2 + [0.625] + [0.25] * 3 + [0.625] * 2 + [0.25]
    np.testing.assert_allclose(sizes, halves, rtol=1e-5)


def test_nothing_is_broadened_where_no_shift_fits() -> None:
    """Tokens, switched-off probes and empty parts have none."""
    names = [spec.name for spec in TOKENS.inputs]
    tokens = Part(name="c", feeds=[dict.fromkeys(names, np.ones((1, 4), np.int64))])
    assert broadened(tokens, TOKENS, DataOptions()) is None
    assert broadened(_images(), IMAGES, DataOptions(probes=())) is None
    assert broadened(_images(count=0), IMAGES, DataOptions()) is None
