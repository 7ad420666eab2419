"""Real gate runs, for `benchmarks/gate.py --real`: the same net, and one that is really slower."""

import datetime
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgeopt.api.gate import check
from edgeopt.api.gate_case import GateRequest
from edgeopt.api.prepare import FEEDS
from edgeopt.api.subject import open_subject
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.gate.verdict import Finding
from edgeopt.graph.runtime import Session

_TRIAL = 16
"""Filters of the first try, from which the number for the wanted share follows."""
SESSIONS = 5
BLOCKS = 20


@dataclass(frozen=True, kw_only=True)
class Real:
    """What is run.

    Args:
        model: The base model.
        data: Spec of samples for it, which are its inputs.
        device: Name.
        runs: Of each kind.
        slowdown: How much more time the slower net takes, as a share.
        allowed: By the budget, as a share.
        time_s: Of one gate run, for its measurements.
        protocol: Rung.
    """

    model: Path
    data: str
    device: str
    runs: int
    slowdown: float
    allowed: float
    time_s: float
    protocol: str


def run(asked: Real) -> None:
    """Both kinds of runs; a line a run, and the count of each kind."""
    with tempfile.TemporaryDirectory(prefix="edgeopt-gate-") as place:
        folder = Path(place)
        files = {"itself": folder / "itself.onnx", "slower": folder / "slower.onnx"}
        renamed = onnx.load(asked.model)
        renamed.doc_string = "the same net under another digest"
        onnx.save(renamed, files["itself"])
        _slower(asked, folder, files["slower"])
        counts: dict[str, Counter[str]] = {name: Counter() for name in files}
        for number in range(asked.runs):  # in turn, so that both kinds see the same machine
            for name, model in files.items():
                finding, took_s = _once(asked, folder, model)
                counts[name][finding.status] += 1
                print(f"{name} {number + 1}: {finding.status}, {took_s:.0f} s: {finding.message}")
                print(*(f"    {note}" for note in finding.notes), sep="\n", flush=True)
    for name, found in counts.items():
        told = ", ".join(f"{status} {n}" for status, n in found.most_common())
        print(f"{asked.runs} runs against {name}, {asked.allowed:.0%} allowed: {told}")


def _once(asked: Real, folder: Path, model: Path) -> tuple[Finding, float]:
    """One `edgeopt gate check`, and how many seconds it took."""
    config = folder / "edgeopt.toml"
    config.write_text(
        f"[gate]\nmodel = '{model}'\ndata = '{Path(asked.data).resolve()}'\n"
        f"protocol = '{asked.protocol}'\n[[gate.budget]]\nmetric = 'latency.p50'\n"
        f"device = '{asked.device}'\nmax_regression = '{asked.allowed * 100:g}%'\n"
    )
    request = GateRequest(
        config=config, base=str(asked.model), time_s=asked.time_s, today=datetime.date.today()
    )
    began = time.monotonic()
    (finding,) = check(request, partial(print, file=sys.stderr)).findings
    return finding, time.monotonic() - began


def _slower(asked: Real, folder: Path, path: Path) -> None:
    """A net that takes about the wanted share more processor time, measured beside the base."""
    data = open_subject(asked.model, data=asked.data, metric=None, seed=0, progress=print).data
    assert data is not None
    feeds = list(data.search.feeds[:FEEDS])

    def ratios(filters: int) -> list[float]:
        _write(asked.model, filters, path)
        return [_processor_ratio(asked.model, path, feeds) for _ in range(SESSIONS)]

    one, two = (float(np.median(ratios(n))) for n in (_TRIAL, 2 * _TRIAL))
    each = max((two - one) / _TRIAL, 1e-6)  # the time of a convolution is nearly linear in filters
    filters = max(1, round(_TRIAL + (1 + asked.slowdown - one) / each))
    found = sorted(ratios(filters))
    print(
        f"slower: a convolution of {filters} filters over the input, its mean times 0 added to the "
        f"output, takes {np.median(found) - 1:+.1%} processor time "
        f"({found[0] - 1:+.1%} to {found[-1] - 1:+.1%} in {SESSIONS} pairs of sessions)",
        flush=True,
    )


def _processor_ratio(base: Path, other: Path, feeds: list[Feed]) -> float:
    """Processor time of one net over another's, blocks in turn: other programs hardly touch it."""
    sessions = [Session(path, RuntimeSettings(threads=1)) for path in (base, other)]
    ratios: list[float] = []
    for turn in range(BLOCKS + 1):
        taken: dict[int, float] = {}
        for which in (0, 1) if turn % 2 else (1, 0):
            began = time.process_time()
            for feed in feeds:
                sessions[which].run(feed)
            taken[which] = time.process_time() - began
        ratios.append(taken[1] / taken[0])
    return float(np.median(ratios[1:]))


def _write(source: Path, filters: int, path: Path) -> None:
    """The net with more work and the same outputs: nothing folds a finite value times zero."""
    model = onnx.load(source)
    graph = model.graph
    given, output = graph.input[0].name, graph.output[0].name
    for node in graph.node:
        node.output[:] = ["before_more" if name == output else name for name in node.output]
    generator = np.random.default_rng(0)
    kernel = generator.normal(0, 0.1, (filters, 3, 3, 3)).astype(np.float32)
    graph.initializer.append(numpy_helper.from_array(kernel, "more_kernel"))
    graph.initializer.append(helper.make_tensor("more_zero", TensorProto.FLOAT, (), (0.0,)))
    graph.node.extend(
        (
            helper.make_node("Conv", (given, "more_kernel"), ("more",), pads=(1, 1, 1, 1)),
            helper.make_node("ReduceMean", ("more",), ("more_mean",), keepdims=0),
            helper.make_node("Mul", ("more_mean", "more_zero"), ("more_nothing",)),
            helper.make_node("Add", ("before_more", "more_nothing"), (output,)),
        )
    )
    onnx.save(model, path)
