"""Runtime sessions with every setting explicit, and the feeds that they run on."""

import contextlib
import os
import re
import sys
import tempfile
import time

import affinity
import numpy as np
import options as known
from failures import JobError

_LEVELS = {
    "off": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_KEYS = ("provider", "threads", "spinning", "optimization", "options", "affinity")
_CPU = known.CPU
# They turn the graph into an engine of their own when a session is opened: that takes time, and
# what is inside cannot be written down or profiled node by node.
COMPILING = (known.TENSORRT, known.OPENVINO)
_LAST_WORDS = 600
_MEMORY_WORDS = ("bad_alloc", "failed to allocate memory", "out of memory")


def import_runtime():
    """The runtime's module. Its import may crash on a processor it was not built for."""
    try:
        import onnxruntime
    except ImportError as error:
        raise JobError(
            "runtime_missing",
            "onnxruntime cannot be imported: %s" % error,
            "install onnxruntime for this Python",
        ) from error
    onnxruntime.set_default_logger_severity(3)
    if hasattr(onnxruntime, "disable_telemetry_events"):
        # Nothing about a model leaves the device, and no upload runs beside a timed block.
        onnxruntime.disable_telemetry_events()
    return onnxruntime


def listed():
    """Providers that the runtime says it has, by preference; whether they run is another matter."""
    return import_runtime().get_available_providers()


def provider_of(settings):
    """The execution provider that the settings name."""
    return settings.get("provider", _CPU)


def compiles(settings):
    """Whether the provider of the settings builds an engine."""
    return provider_of(settings) in COMPILING


def open_session(path, settings, **more):
    """As `open_timed`, without the time."""
    return open_timed(path, settings, **more)[0]


def open_timed(path, settings, profile_prefix=None, optimized_path=None, engine_folder=None):
    """A session on exactly the provider that was asked for, and the seconds that opening it took.

    Only what an application would wait for is timed: not the checks of the settings, which look
    through the runtime's libraries.

    Args:
        path: The model file.
        settings: provider, threads, spinning, optimization, options, affinity.
        profile_prefix: Where the profile goes; None for no profile.
        optimized_path: Where the runtime writes the graph that it made; None for nowhere.
            Nothing is written by a provider that compiles.
        engine_folder: Where a provider that compiles looks for its engine, and keeps it; None
            builds one that is gone with the session.

    Raises:
        JobError: `provider_missing`, `bad_option`, `load_failed`, `oom`, or `bad_request`.
    """
    runtime = import_runtime()
    unknown = sorted(set(settings) - set(_KEYS))
    if unknown or settings.get("optimization", "all") not in _LEVELS:
        raise JobError("bad_request", "settings cannot be used: %r" % (settings,))
    provider = provider_of(settings)
    available = runtime.get_available_providers()
    if provider not in available:
        raise _missing(provider, "this runtime offers " + ", ".join(available))
    if not os.path.isfile(path):
        raise JobError("bad_request", "there is no model file at " + path)
    options = session_options(runtime, settings)
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    if optimized_path is not None and provider not in COMPILING:
        options.optimized_model_filepath = optimized_path
    chosen = _providers(runtime, settings, engine_folder)
    affinity.apply(settings)
    with _overheard() as words:
        start = time.perf_counter()
        try:
            session = runtime.InferenceSession(path, options, providers=chosen, enable_fallback=0)
            seconds = time.perf_counter() - start
        except Exception as error:  # the runtime's errors have no common class
            raise runtime_failure("load_failed", error) from error
    if session.get_providers()[0] != provider:
        heard = words.get("text") or "the runtime fell back to " + session.get_providers()[0]
        raise _missing(provider, heard)
    # Since 1.9 the wrapper opens another session by itself when a provider fails in a run.
    if hasattr(session, "disable_fallback"):
        session.disable_fallback()
    return session, seconds


def _providers(runtime, settings, engine_folder):
    """The provider with its options, and those that take what it leaves."""
    provider = provider_of(settings)
    own, _ = known.split(runtime, provider, settings.get("options") or {})
    own.update(_decided(provider, settings, engine_folder))
    chosen = [(provider, own)]
    if provider == known.TENSORRT and known.CUDA in runtime.get_available_providers():
        chosen.append((known.CUDA, {}))
    return chosen if provider == _CPU else chosen + [(_CPU, {})]


def _decided(provider, settings, engine_folder):
    """Options that the agent sets itself: threads, and where an engine lies."""
    if provider == known.OPENVINO:
        found = {"num_of_threads": str(int(settings.get("threads", 1)))}
        return dict(found, cache_dir=engine_folder) if engine_folder else found
    if provider == known.TENSORRT and engine_folder:
        return {
            "trt_engine_cache_enable": "True",
            "trt_engine_cache_path": engine_folder,
            "trt_timing_cache_enable": "True",
            "trt_timing_cache_path": engine_folder,
        }
    return {}


@contextlib.contextmanager
def _overheard():
    """What the runtime writes to the error stream meanwhile: why it leaves a provider out.

    It is written on to the stream afterwards.
    """
    words = {}
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as stream:
        os.dup2(stream.fileno(), 2)
        try:
            yield words
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            stream.seek(0)
            text = stream.read()
            os.write(2, text)
            words["text"] = _last_words(text.decode("utf-8", "replace"))


def _last_words(text):
    """The reason in the runtime's log, without colours and places in its source."""
    plain = " ".join(re.sub("\x1b\\[[0-9;]*m", "", text).split())
    return plain.rpartition("[ERROR]")[2].strip()[-_LAST_WORDS:]


def session_options(runtime, settings):
    """Session options of the settings: nothing is left to the runtime's defaults that differ."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = int(settings.get("threads", 1))
    options.inter_op_num_threads = 1
    options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    level = _LEVELS[settings.get("optimization", "all")]
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    spinning = "1" if settings.get("spinning", True) else "0"
    options.add_session_config_entry("session.intra_op.allow_spinning", spinning)
    _, entries = known.split(runtime, provider_of(settings), settings.get("options") or {})
    for name in sorted(entries):
        options.add_session_config_entry(name, entries[name])
    options.log_severity_level = 3
    return options


def _missing(provider, text):
    return JobError(
        "provider_missing",
        "%s is not there: %s" % (provider, text),
        "install a runtime with that provider, mend its options, or choose another",
    )


def runtime_failure(code, error):
    """What the runtime raised, as an error of the protocol; lack of memory is told apart."""
    text = " ".join(str(error).split()) or type(error).__name__
    if any(word in text.lower() for word in _MEMORY_WORDS):
        return JobError("oom", text, "free memory, or a smaller model")
    return JobError(code, text)


def read_feeds(path, limit=None):
    """Samples of an npz file: a list of input name to array, in the order of their numbers.

    The keys are `<number>/<input name>`.

    Raises:
        JobError: `bad_request`, the file is missing or is not of that form.
    """
    feeds = {}
    try:
        with np.load(path, allow_pickle=False) as stored:
            for key in stored.files:
                number, _, name = key.partition("/")
                if limit is None or int(number) < limit:
                    array = np.ascontiguousarray(stored[key]).reshape(stored[key].shape)
                    feeds.setdefault(int(number), {})[name] = array
    except (IOError, OSError, ValueError, KeyError) as error:
        raise JobError("bad_request", "the feeds cannot be read: %s" % error) from error
    if not feeds:
        raise JobError("bad_request", "the feeds file holds no sample: " + path)
    return [feeds[number] for number in sorted(feeds)]


def run_once(session, feed):
    """One inference; the outputs in the session's order.

    Raises:
        JobError: `run_failed` or `oom`.
    """
    try:
        return session.run(None, feed)
    except Exception as error:  # the runtime's errors have no common class
        raise runtime_failure("run_failed", error) from error
