"""A stand-in for a runtime with a compiling provider, for the agent's interpreter only.

It keeps the habits of TensorRT's provider that the agent must cope with, and computes nothing:
`trt_engine_cache_path` gets one engine file where there is none, else the file is read and left
alone; building takes longer than loading; models whose bytes begin with `crash`, `refuse` or
`forget` crash the process, raise, or are built again each time. Where the provider is named
without options, as a proof does, `FAKE_HABIT` says how it misbehaves. `FAKE_ASKED_S` is how long
the question for providers takes.
"""

import json
import os
import signal
import time

import numpy as np

__version__ = "9.9.9"
CPU, TENSORRT = "CPUExecutionProvider", "TensorrtExecutionProvider"
BUILD_S = 0.05


def get_available_providers():
    time.sleep(float(os.environ.get("FAKE_ASKED_S", "0")))
    return [TENSORRT, CPU]


def set_default_logger_severity(level):
    pass


class SessionOptions:
    def __init__(self):
        self.entries = {}

    def add_session_config_entry(self, name, value):
        self.entries[name] = value


class ExecutionMode:
    ORT_SEQUENTIAL = 0


class GraphOptimizationLevel:
    ORT_DISABLE_ALL, ORT_ENABLE_BASIC, ORT_ENABLE_EXTENDED, ORT_ENABLE_ALL = range(4)


class _Argument:
    name = "x"


class InferenceSession:
    def __init__(self, path, options, providers, **_):
        with open(path, "rb") as stream:
            content = stream.read()
        self._providers = [each if isinstance(each, str) else each[0] for each in providers]
        self._habit = ""
        self._profile = getattr(options, "profile_file_prefix", "")
        if self._providers[0] != TENSORRT:
            return
        if isinstance(providers[0], str):
            self._habit = os.environ.get("FAKE_HABIT", "")
            if self._habit == "left out":
                self._providers = [CPU]
        else:
            self._compile(content, providers[0][1])

    @staticmethod
    def _compile(content, options):
        if content.startswith(b"crash"):
            os.kill(os.getpid(), signal.SIGSEGV)
        if content.startswith(b"refuse"):
            raise RuntimeError("the builder found no implementation of a node")
        folder = options.get("trt_engine_cache_path")
        place = os.path.join(folder, "TensorrtExecutionProvider_0.engine") if folder else ""
        if place and os.path.exists(place) and not content.startswith(b"forget"):
            return
        time.sleep(BUILD_S)
        if place:
            with open(place, "wb") as stream:
                stream.write(content * 2)
            # A file system may keep whole seconds only.
            os.utime(place, (0, time.time_ns() % 10**9))

    def get_providers(self):
        return self._providers

    def get_inputs(self):
        return [_Argument()]

    get_outputs = get_inputs

    def run(self, names, feed):
        if self._habit == "no kernel image":
            raise RuntimeError("no kernel image is available for execution on the device")
        if self._habit == "crash":
            os.kill(os.getpid(), signal.SIGILL)
        return [np.asarray(feed["x"]) * (3 if self._habit == "wrong" else 2)]

    def end_profiling(self):
        provider = CPU if self._habit == "left to the CPU" else self._providers[0]
        path = self._profile + ".json"
        with open(path, "w") as stream:
            json.dump([{"cat": "Node", "args": {"provider": provider}}], stream)
        return path

    def disable_fallback(self):
        pass
