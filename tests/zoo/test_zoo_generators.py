"""Makers of the zoo's data on small counts, without anything fetched: same seed, same samples."""

from pathlib import Path

import numpy as np
import pytest

from models.generators import ddddocr


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
