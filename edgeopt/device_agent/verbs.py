"""The verbs that run in a child: one function each, from a job to its reply."""

import json
import os
import time

import engines
import machine
import numpy as np
import onnxfile
import sessions


def runtime(job):
    """Which runtime there is, found by importing it where a crash does no harm."""
    module = sessions.import_runtime()
    return {
        "runtime": {
            "name": "onnxruntime",
            "version": module.__version__,
            "providers": module.get_available_providers(),
            "numpy": np.__version__,
        }
    }


def footprint(job):
    """Size, load time, first run and peak memory of one model alone in a process.

    The peak counts from the level after the runtime was imported and the feed was read. `before`
    is the machine's state before anything of it began. A provider that compiles is given its
    engine first, by another process: what is timed here is the load of the kept one.
    """
    path, feeds_path, settings = (
        _model(job, "model"),
        job.get("feeds", str),
        job.get("settings", dict),
    )
    found_at, room = machine.state(), machine.available_bytes()
    built = engines.prepare(job)
    sessions.import_runtime()
    feed = sessions.read_feeds(feeds_path, limit=1)[0]
    cleared = machine.forget_peak()
    before = machine.process_memory()
    job.phase("load candidate")
    session, opened = engines.opened(path, settings)
    job.phase("run candidate")
    start = time.perf_counter()
    sessions.run_once(session, feed)
    first_run_s = time.perf_counter() - start
    for _ in range(2):
        sessions.run_once(session, feed)
    after = machine.process_memory()
    return {
        "size_bytes": onnxfile.size_bytes(path),
        "load_s": opened["load_s"],
        "first_run_s": first_run_s,
        "engine": built["engine"],
        "build_s": built["build_s"],
        "peak_memory_bytes": _peak(before, after, cleared),
        "before": found_at,
        "available_bytes": room,
        "providers": session.get_providers(),
    }


def _peak(before, after, cleared):
    """Bytes above the level; None where the system does not say.

    Where the old peak could not be cleared, and the new one is not above it, nothing is known.
    """
    if before is None or after is None or (not cleared and after[1] == before[1]):
        return None
    return max(0, after[1] - before[0])


def profile(job):
    """The nodes that the runtime executed, in order, with mean times of a run.

    A pass of its own, since profiling costs time on every node. Domains come from the graph
    that the runtime writes down, since the profile does not say them.
    """
    path, settings = _model(job, "model"), job.get("settings", dict)
    feeds = sessions.read_feeds(job.get("feeds", str))
    runs = job.get("runs", int)
    prefix = os.path.join(job.folder, "profile")
    made = os.path.join(job.folder, "optimized.onnx")
    sessions.import_runtime()
    job.phase("load candidate")
    session, _ = engines.opened(
        path, settings, feed=feeds[0], profile_prefix=prefix, optimized_path=made
    )
    job.phase("run candidate")
    for index in range(runs + 1):
        sessions.run_once(session, feeds[index % len(feeds)])
    written = session.end_profiling()
    with open(written) as stream:
        events = json.load(stream)
    operators = onnxfile.operators(made) if os.path.isfile(made) else {}
    for name in os.listdir(job.folder):
        if name.startswith(("profile", "optimized")):
            os.remove(os.path.join(job.folder, name))
    return {
        "nodes": _nodes(events, runs, operators),
        "runs": runs,
        "providers": session.get_providers(),
        "compiled": sessions.compiles(settings),
    }


_KERNEL = "_kernel_time"


def _nodes(events, runs, operators):
    """One entry a node; the first run is left out of the times, and of the order it is the source.

    Runs are told apart by the event that ends each of them.
    """
    found, run = {}, 0
    for event in sorted(events, key=lambda event: event.get("ts", 0)):
        if event.get("name") == "model_run":
            run += 1
        name = event.get("name", "")
        if event.get("cat") != "Node" or not name.endswith(_KERNEL):
            continue
        details, name = event.get("args", {}), name[: -len(_KERNEL)]
        operator = details.get("op_name", "")
        domain, attributes = operators.get((name, operator), (None, None))
        node = found.setdefault(
            (name, operator, details.get("node_index")),
            {
                "name": name,
                "op": operator,
                "domain": domain,
                "attributes": attributes,
                "provider": details.get("provider", ""),
                "time_s": 0.0,
                "inputs": _types(details.get("input_type_shape")),
                "outputs": _types(details.get("output_type_shape")),
                "input_shapes": _shapes(details.get("input_type_shape")),
                "output_shapes": _shapes(details.get("output_type_shape")),
            },
        )
        if run > 1:
            node["time_s"] += event.get("dur", 0) * 1e-6 / runs
    return list(found.values())


def _types(entries):
    """Element types of a node's tensors, as the runtime names them."""
    return [name for entry in entries or [] for name in entry]


def _shapes(entries):
    """Shapes of a node's tensors in the first run."""
    return [shape for entry in entries or [] for shape in entry.values()]


def _model(job, name):
    return os.path.abspath(job.get(name, str))
