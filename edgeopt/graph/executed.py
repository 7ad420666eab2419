"""What the runtime of this machine executes for a model, in the device agent's form, with shapes.

It stands in for a device that runs the same runtime: which operators there are after its
optimizations, with which attributes and on which shapes. The times are those of this machine.
"""

import hashlib
import json
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.errors import ModelError
from edgeopt.graph.runtime import Session, optimized
from edgeopt.graph.write import serialized

_KERNEL, _CPU = "_kernel_time", "CPUExecutionProvider"


def executed(
    model: onnx.ModelProto, settings: RuntimeSettings, feed: Feed, runs: int = 1
) -> list[dict[str, Any]]:
    """Nodes in the order of one run: name, op, domain, attributes, types, shapes and `time_s`.

    Args:
        model: Self-contained.
        settings: Threads and the level of optimization; the provider is this machine's CPU.
        feed: One input.
        runs: The time is the median over so many; without it nothing but the first run counts.

    Raises:
        RuntimeFailure: The model does not load or run.
        ModelError: Nothing is computed.
    """
    level = settings.optimization
    made = model if level == "off" else optimized(model, level)
    known = {(node.name, node.op_type): _facts(node) for node in _all(made.graph)}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    times: dict[tuple[str, str], dict[int, float]] = {}
    # What was made runs as it is: another session would give its own nodes other names.
    plain = replace(settings, provider=_CPU, options={}, optimization="off")
    for run, event in _kernels(made, plain, feed, runs):
        said = event["args"]
        key = event["name"].removesuffix(_KERNEL), str(said.get("op_name", ""))
        found.setdefault(key, _node(key, said, known))
        taken = times.setdefault(key, {})
        taken[run] = taken.get(run, 0.0) + event["dur"] * 1e-6
    if not found:
        raise ModelError("the runtime executes no operator", hint="the outputs are constants")
    return [{**node, "time_s": _middle(times[key])} for key, node in found.items()]


def _kernels(
    model: onnx.ModelProto, settings: RuntimeSettings, feed: Feed, runs: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Events of kernels with the run that they belong to; the first warms up."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder) / "profile"
        session = Session(serialized(model), settings, profile=prefix)
        for _ in range(runs if runs == 1 else runs + 1):
            session.run(feed)
        events = json.loads(session.end_profile().read_text(encoding="utf-8"))
    run = 0
    for event in sorted(events, key=lambda event: event.get("ts", 0)):
        name = str(event.get("name", ""))
        run += name == "model_run"
        if event.get("cat") == "Node" and name.endswith(_KERNEL):
            yield run, event


def _middle(times: Mapping[int, float]) -> float:
    """Median over runs; the first is left out where there are others."""
    first = min(times)
    return statistics.median([t for run, t in times.items() if run != first] or [times[first]])


def _node(
    key: tuple[str, str],
    said: Mapping[str, Any],
    known: Mapping[tuple[str, str], tuple[str, str]],
) -> dict[str, Any]:
    domain, attributes = known.get(key, (None, None))
    taken, made = _tensors(said, "input"), _tensors(said, "output")
    return {
        "name": key[0],
        "op": key[1],
        "domain": domain,
        "attributes": attributes,
        "provider": said.get("provider", ""),
        "inputs": [kind for kind, _ in taken],
        "outputs": [kind for kind, _ in made],
        "input_shapes": [shape for _, shape in taken],
        "output_shapes": [shape for _, shape in made],
    }


def _tensors(said: Mapping[str, Any], side: str) -> list[tuple[str, list[int]]]:
    entries: list[Mapping[str, list[int]]] = said.get(f"{side}_type_shape") or []
    return [(kind, shape) for entry in entries for kind, shape in entry.items()]


def _facts(node: onnx.NodeProto) -> tuple[str, str]:
    # As the agent does it, which reads the same bytes from the file (`onnxfile.operators`).
    parts = sorted(attribute.SerializeToString() for attribute in node.attribute)
    return node.domain, hashlib.sha256(b"".join(parts)).hexdigest()[:12] if parts else ""


def _all(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    inner = [a for n in graph.node for a in n.attribute if a.HasField("g")]
    return [*graph.node, *(node for a in inner for node in _all(a.g))]
