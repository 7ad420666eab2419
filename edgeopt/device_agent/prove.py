"""`prove`: what each provider that the runtime lists makes of a tiny model.

A list proves nothing: a GPU runtime built for other chips lists CUDA, opens a session, and dies
at the first kernel. So each provider computes here, alone, in a process of its own, and its
numbers are compared with those of the CPU.
"""

import json
import os
import struct
import tempfile
import time

import jobs
import numpy as np
import options
import sessions
from failures import JobError

_DEADLINE_S = 120.0
# Half precision and TF32 keep three digits; the values are of the order of one.
_TOLERANCE = 2e-2
_SHAPE = (1, 4, 8, 8)
_NO_FALLBACK = "session.disable_cpu_ep_fallback"


def prove(job):
    """`{provider: {ok, text, seconds}}`; `seconds_each` limits how long one may take."""
    limit_s = float(job.arguments.get("seconds_each", _DEADLINE_S))
    folder = tempfile.mkdtemp(prefix="prove-", dir=job.folder)
    model = os.path.join(folder, "tiny.onnx")
    with open(model, "wb") as stream:
        stream.write(tiny_model())
    found = {}
    for provider in sessions.listed():
        start = time.perf_counter()
        reply = jobs.Runner(folder).run(
            "prove_one", {"provider": provider, "model": model}, limit_s
        )
        found[provider] = {
            "ok": reply["ok"],
            "text": reply["text"] if reply["ok"] else reply["error"]["text"],
            "seconds": round(time.perf_counter() - start, 3),
        }
    return {"providers": found}


def prove_one(job):
    """One provider in this process.

    Raises:
        JobError: `load_failed`, `run_failed` or `provider_missing`: it does not compute.
    """
    runtime = sessions.import_runtime()
    provider, path = job.get("provider", str), job.get("model", str)
    feed = {"x": _values(_SHAPE, 1)}
    expected = sessions.run_once(sessions.open_session(path, {}), feed)[0]
    job.phase("load candidate")
    session = _alone(runtime, path, provider, os.path.join(job.folder, "proof"))
    if session.get_providers()[0] != provider:
        raise JobError("provider_missing", "the runtime left it out and took the CPU")
    if hasattr(session, "disable_fallback"):
        session.disable_fallback()
    job.phase("run candidate")
    computed = sessions.run_once(session, feed)[0]
    others = _places(session.end_profiling()) - {provider}
    if others:
        raise JobError("provider_missing", "it left nodes to " + ", ".join(sorted(others)))
    far = float(np.max(np.abs(computed.astype(np.float64) - expected)))
    if not far <= _TOLERANCE:
        raise JobError("run_failed", "its numbers are %.3g from those of the CPU" % far)
    return {"text": "its numbers are within %.1g of those of the CPU" % max(far, 1e-9)}


def _alone(runtime, path, provider, prefix):
    """A session with a profile, that fails where the provider leaves a node to the CPU.

    Old runtimes (1.10) take the entry for that without a word and without effect, so what
    computed is read from the profile as well.
    """
    settings = runtime.SessionOptions()
    settings.log_severity_level = 3
    settings.intra_op_num_threads = 1
    settings.enable_profiling = True
    settings.profile_file_prefix = prefix
    if provider != options.CPU:
        settings.add_session_config_entry(_NO_FALLBACK, "1")
    try:
        return runtime.InferenceSession(path, settings, providers=[provider], enable_fallback=0)
    except Exception as error:  # the runtime's errors have no common class
        raise sessions.runtime_failure("load_failed", error) from error


def _places(path):
    """Providers that nodes of a profile ran on."""
    with open(path) as stream:
        events = json.load(stream)
    os.remove(path)
    found = (event.get("args", {}).get("provider") for event in events)
    return {name for name in found if name}


def tiny_model():
    """Convolution and ReLU, float32 [1, 4, 8, 8] to [1, 4, 8, 8], as the bytes of an ONNX file.

    Written field by field, since there is no onnx on a device; numbers are those of onnx.proto3.
    Version 6 of the format and operator set 11 are read by every runtime since 2019.
    """
    kernel = _values((4, 4, 3, 3), 2) / 4
    pads = _text(1, "pads") + b"".join(_number(8, 1) for _ in range(4)) + _number(20, 7)
    convolution = _node("Conv", ["x", "w"], "y") + _bytes(5, pads)
    graph = (
        _bytes(1, convolution)
        + _bytes(1, _node("Relu", ["y"], "z"))
        + _text(2, "tiny")
        + _bytes(5, _tensor("w", kernel))
        + _bytes(11, _value("x", _SHAPE))
        + _bytes(12, _value("z", _SHAPE))
    )
    return _number(1, 6) + _text(2, "edgeopt") + _bytes(7, graph) + _bytes(8, _number(2, 11))


def _node(operator, inputs, output):
    names = b"".join(_text(1, name) for name in inputs)
    return names + _text(2, output) + _text(3, operator) + _text(4, operator)


def _tensor(name, array):
    sizes = b"".join(_number(1, size) for size in array.shape)
    raw = struct.pack("<%df" % array.size, *array.ravel().tolist())
    return sizes + _number(2, 1) + _text(8, name) + _bytes(9, raw)


def _value(name, shape):
    sizes = b"".join(_bytes(1, _number(1, size)) for size in shape)
    kind = _number(1, 1) + _bytes(2, sizes)
    return _text(1, name) + _bytes(2, _bytes(1, kind))


def _text(field, text):
    return _bytes(field, text.encode("utf-8"))


def _bytes(field, data):
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _number(field, value):
    return _varint(field << 3) + _varint(value)


def _varint(value):
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _values(shape, seed):
    """Numbers between -1 and 1 that are the same on every device."""
    count = int(np.prod(shape))
    return np.sin(np.arange(count) * 0.7 + seed).astype(np.float32).reshape(shape)
