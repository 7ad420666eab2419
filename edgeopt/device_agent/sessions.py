"""Runtime sessions with every setting explicit, and the feeds that they run on."""

import os

import numpy as np
from failures import JobError

_LEVELS = {
    "off": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_KEYS = ("provider", "threads", "spinning", "optimization", "options")
_CPU = "CPUExecutionProvider"
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


def open_session(path, settings, profile_prefix=None, optimized_path=None):
    """A session on exactly the provider that was asked for.

    Args:
        path: The model file.
        settings: provider, threads, spinning, optimization, options.
        profile_prefix: Where the profile goes; None for no profile.
        optimized_path: Where the runtime writes the graph that it made; None for nowhere.

    Raises:
        JobError: `provider_missing`, `load_failed`, `oom`, or `bad_request`.
    """
    runtime = import_runtime()
    unknown = sorted(set(settings) - set(_KEYS))
    if unknown or settings.get("optimization", "all") not in _LEVELS:
        raise JobError("bad_request", "settings cannot be used: %r" % (settings,))
    provider = settings.get("provider", _CPU)
    available = runtime.get_available_providers()
    if provider not in available:
        raise _missing(provider, "this runtime offers " + ", ".join(available))
    options = session_options(runtime, settings)
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    if optimized_path is not None:
        options.optimized_model_filepath = optimized_path
    chosen = [(provider, dict(settings.get("options") or {}))]
    if provider != _CPU:
        chosen.append((_CPU, {}))
    if not os.path.isfile(path):
        raise JobError("bad_request", "there is no model file at " + path)
    try:
        session = runtime.InferenceSession(path, options, providers=chosen)
    except Exception as error:  # the runtime's errors have no common class
        raise runtime_failure("load_failed", error) from error
    if session.get_providers()[0] != provider:
        raise _missing(provider, "the runtime fell back to " + session.get_providers()[0])
    # Since 1.9 the wrapper opens another session by itself when a provider fails in a run.
    if hasattr(session, "disable_fallback"):
        session.disable_fallback()
    return session


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
    options.log_severity_level = 3
    return options


def _missing(provider, text):
    return JobError(
        "provider_missing",
        "%s is not there: %s" % (provider, text),
        "install a runtime with that provider, or choose another",
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
