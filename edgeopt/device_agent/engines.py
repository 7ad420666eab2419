"""Engines: what a provider that compiles makes of a model, on this very device.

They are kept under `engines/` of the agent's folder, by everything that they depend on: the
model's content, runtime and compiler versions, provider, options, threads, processor and GPU.
They are never copied to another device. A build is a session opened and run once with nothing in
its folder, so that an engine that waits for the first input is built too; a load is the session
opened again from that folder, as it would be after a restart of the application.
"""

import gc
import glob
import hashlib
import json
import os
import shutil
import tempfile
import time

import jobs
import machine
import onnxfile
import options
import presence
import sessions
from failures import JobError

MODES = ("cached", "fresh")
# The files that are an engine; others beside them (timing caches, profiles) serve a build.
_SUFFIXES = (".blob", ".engine", ".ctx.onnx")
_RECORD = "engine.json"
_BUILD = ".build-"
_ROOM_BYTES = 4 * 1000**3
_BUILD_DEADLINE_S = 3600.0
_LIBRARIES = {
    options.TENSORRT: ("libnvinfer.so.*", "libcudnn.so.*"),
    options.OPENVINO: ("libopenvino.so.*",),
}
_PLACES = ("/usr/lib/*/", "/usr/lib/", "/usr/local/cuda/lib64/", "/usr/local/lib/")


def root():
    """The folder of all engines, made where it is not there."""
    home = os.path.expanduser(os.environ.get("EDGEOPT_CACHE") or "~/.cache/edgeopt")
    place = os.path.join(home, "engines")
    try:
        os.makedirs(place, exist_ok=True)
    except (IOError, OSError) as error:
        raise JobError(
            "no_space", "engines cannot be kept: %s" % error, "choose another cache_dir"
        ) from error
    return place


def opened(path, settings, mode="cached", feed=None, fresh=None, **more):
    """A session, and what it took to open it.

    Args:
        path: The model file.
        settings: As of `sessions.open_session`.
        mode: `cached` takes an engine that was built before, `fresh` builds one and lets it go.
            Providers that do not compile have neither.
        feed: For the run that ends a build; None leaves that run out.
        fresh: A dictionary in which a fresh engine stays for further calls, until `let_go`; None
            lets it go at once.
        more: What else `sessions.open_session` takes, for the session that is returned.

    Returns:
        The session and its facts: `load_s`, and `engine`: None, or provider, key, cached (it was
        there before), builds and `build_s` (of the last build, maybe on another day), bytes, and
        reused (the load took it: False says that the runtime built again, as it would for an
        application: onnxruntime-openvino 1.24 writes an engine for the CPU and never reads it).

    Raises:
        JobError: As `sessions.open_session`.
    """
    if mode not in MODES:
        raise JobError("bad_request", "an engine is one of: " + ", ".join(MODES))
    if not sessions.compiles(settings):
        session, load_s = _open(path, settings, None, more)
        return session, {"load_s": load_s, "engine": None}
    name = key(path, settings)
    folder = os.path.join(root(), name)
    record = _read(folder)
    if record is not None and not record["taken"]:
        return _again(path, settings, folder, record, more)
    if mode == "cached":
        return _kept(path, settings, folder, record, feed, more)
    own = {} if fresh is None else fresh
    try:
        return _fresh(path, settings, name, own, feed, more)
    finally:
        if fresh is None:
            let_go(own)


def _fresh(path, settings, name, own, feed, more):
    """A session on an engine of its own, built where `own` does not have it from before."""
    builds = int("folder" not in own)
    if builds:
        own["folder"] = _aside()
        own["record"] = _build(path, settings, own["folder"], feed)
    session, load_s, reused = _load(path, settings, own["folder"], more)
    record = own["record"]
    if not builds and not reused:
        builds, record = 1, dict(record, build_s=load_s)
    return session, {"load_s": load_s, "engine": _facts(record, name, builds, reused)}


def let_go(own):
    """Remove the fresh engine that a dictionary of `opened` holds, if it does."""
    folder = own.pop("folder", None)
    if folder is not None:
        presence.release(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _again(path, settings, folder, record, more):
    """A session of a provider that was seen to build every time: the load is a build."""
    session, load_s = _open(path, settings, folder, more)
    facts = _facts(dict(record, build_s=load_s), os.path.basename(folder), 1, False)
    return session, {"load_s": load_s, "engine": facts}


def _kept(path, settings, folder, record, feed, more):
    """A session on the engine of a folder, built before where there is none that is taken."""
    name = os.path.basename(folder)
    if record is not None:
        session, load_s, reused = _load(path, settings, folder, more)
        if reused:
            os.utime(folder)
            return session, {"load_s": load_s, "engine": _facts(record, name, 0, True)}
        del session
        gc.collect()
    _make_room()
    aside = _aside()
    try:
        record = _build(path, settings, aside, feed)
        presence.release(aside)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    session, load_s, reused = _load(path, settings, folder, more)
    _write(folder, dict(record, taken=reused))
    return session, {"load_s": load_s, "engine": _facts(record, name, 1, reused)}


def _facts(record, name, builds, reused):
    known = {key: record[key] for key in ("provider", "build_s", "bytes")}
    return dict(known, key=name, cached=builds == 0, builds=builds, reused=reused)


def key(path, settings):
    """Digest of everything that an engine depends on."""
    provider = sessions.provider_of(settings)
    parts = {
        "model": _model_digest(path),
        "runtime": sessions.import_runtime().__version__,
        "compiler": _compiler(provider),
        "provider": provider,
        "options": sorted((settings.get("options") or {}).items()),
        "threads": settings.get("threads", 1),
        "optimization": settings.get("optimization", "all"),
        "hardware": hardware(),
    }
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:32]


def hardware():
    """What an engine was made for: processor and its features, board, GPUs and their driver."""
    folder = "/proc/driver/nvidia/gpus"
    gpus = [
        machine.read("%s/%s/information" % (folder, name)) for name in machine.names(folder, "")
    ]
    lines = [line for text in gpus for line in (text or "").splitlines()]
    return [
        machine.architecture(),
        machine.cpu_model(),
        machine.features(),
        machine.read("/proc/device-tree/compatible"),
        machine.read("/etc/nv_tegra_release"),
        machine.read("/proc/driver/nvidia/version"),
        [line for line in lines if line.startswith("Model")],
    ]


def _compiler(provider):
    """File names of the compiler's libraries: they carry its version."""
    own = os.path.join(os.path.dirname(sessions.import_runtime().__file__), "capi", "")
    found = set()
    for pattern in _LIBRARIES.get(provider, ()):
        for place in (own,) + _PLACES:
            found.update(os.path.basename(name) for name in glob.glob(place + pattern))
    return sorted(found)


def _model_digest(path):
    digest = hashlib.sha256()
    for name in onnxfile.files(path):
        digest.update(os.path.basename(name).encode("utf-8"))
        with open(name, "rb") as stream:
            for part in iter(lambda: stream.read(1 << 20), b""):
                digest.update(part)
    return digest.hexdigest()


def _open(path, settings, folder, more):
    return sessions.open_timed(path, settings, engine_folder=folder, **more)


def _build(path, settings, folder, feed):
    """Build into an empty folder; what is known of the engine then."""
    session, build_s = _open(path, settings, folder, {})
    if feed is not None:
        start = time.perf_counter()
        sessions.run_once(session, feed)
        build_s += time.perf_counter() - start
    # Some providers write their files when the session ends.
    del session
    gc.collect()
    return {
        "provider": sessions.provider_of(settings),
        "build_s": build_s,
        "bytes": sum(size for _, size, _ in _files(folder)),
    }


def _load(path, settings, folder, more):
    """A session on the engine of a folder: (session, seconds, whether the engine was taken)."""
    before = _files(folder)
    session, load_s = _open(path, settings, folder, more)
    return session, load_s, bool(before) and _files(folder) == before


def _files(folder):
    """(name, bytes, time of change) of the engine's files."""
    found = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(_SUFFIXES):
            state = os.stat(os.path.join(folder, name))
            found.append((name, state.st_size, state.st_mtime))
    return found


def _write(folder, record):
    """The record comes last: an engine without one is none."""
    with open(os.path.join(folder, _RECORD), "w") as stream:
        json.dump(record, stream)


def _read(folder):
    """The record of an engine; None where there is no whole one."""
    try:
        with open(os.path.join(folder, _RECORD)) as stream:
            record = json.load(stream)
    except (IOError, OSError, ValueError):
        return None
    return record if isinstance(record, dict) and "taken" in record else None


def _aside():
    """A folder for one build, taken for alive while this process works on it."""
    return presence.folder(root(), _BUILD)


def _sweep():
    """Remove what builds left behind whose process is gone."""
    presence.sweep(root(), _BUILD)


def _make_room():
    """Let go of the engines that were not used for longest, beyond a fixed number of bytes."""
    _sweep()
    places = [os.path.join(root(), name) for name in os.listdir(root())]
    places = sorted((each for each in places if os.path.isdir(each)), key=os.path.getmtime)
    sizes = {each: sum(size for _, size, _ in _files(each)) for each in places}
    while places and sum(sizes[each] for each in places) > _ROOM_BYTES:
        shutil.rmtree(places.pop(0), ignore_errors=True)


def build_one(job):
    """See to the kept engine in this process, with the run that ends a build."""
    feeds = job.arguments.get("feeds")
    feed = sessions.read_feeds(feeds, limit=1)[0] if feeds else None
    path, settings = os.path.abspath(job.get("model", str)), job.get("settings", dict)
    job.phase("load candidate")
    _, facts = opened(path, settings, feed=feed)
    return facts


def prepare(job):
    """See to it that the engine is there before it is measured.

    The build has a process of its own: a crash is an answer, and nothing is left of it in the
    memory of the process that asks.

    Args:
        job: Its model, settings and feeds.

    Returns:
        `engine` (None where the provider does not compile) and `build_s`: seconds of the build
        that this took, if any.

    Raises:
        JobError: What ended a build.
    """
    if not sessions.compiles(job.get("settings", dict)):
        return {"engine": None, "build_s": []}
    job.phase("load candidate")
    wanted = ("model", "settings", "feeds")
    given = {name: job.arguments[name] for name in wanted if name in job.arguments}
    runner = jobs.Runner(tempfile.mkdtemp(prefix="build-", dir=job.folder))
    reply = runner.run("build_one", given, _BUILD_DEADLINE_S)
    if not reply["ok"]:
        _sweep()
        error = reply["error"]
        raise JobError(error["code"], error["text"], error["hint"])
    kept = reply["engine"]
    return {"engine": kept, "build_s": [kept["build_s"]] if kept["builds"] else []}
