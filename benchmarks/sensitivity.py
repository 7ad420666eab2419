"""A full sensitivity pass, and what it would cost with the runtime's own tool.

    python benchmarks/sensitivity.py MODEL [--tool 5] [--device local]

The pass is timed whole: calibration, then every alternative of every precision choice alone, built
and run on the same samples, its damage at the outputs. Beside it stands `quantize_static`, asked
for one group at a time with per-channel weights, calibrated on the same samples as ours (it does
so again for every model that it makes), and its model run on those that the damage is taken on.
It is timed for a few groups drawn over the whole net, and counted once an alternative. Nothing of
ours is extrapolated; the tool's total is its median times their number. CPU seconds of one
thread, since a busy machine lengthens wall times at random.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

from edgeopt.api.device import open_device
from edgeopt.api.reopen import workshop_for
from edgeopt.api.subject import open_subject
from edgeopt.api.workspace import Workspace
from edgeopt.core.data import Feed
from edgeopt.estimate.estimator import GraphEstimator
from edgeopt.estimate.sensitivity import SAMPLES
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import write_model
from edgeopt.transforms.base import Offer
from edgeopt.transforms.groups import groups
from edgeopt.transforms.space import GraphSpace

TARGET = 20.0
CALIBRATION = 256
"""Samples at most, as `Statistics` takes them."""


class Reader(CalibrationDataReader):
    """The calibration feeds in the tool's form."""

    def __init__(self, feeds: list[Feed]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next feed; None at the end."""
        feed = next(self._feeds, None)
        return None if feed is None else dict(feed)


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of some work in this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def by_tool(model: Path, nodes: list[str], feeds: list[Feed], out: Path) -> None:
    """One group quantized by the runtime's tool, and run on the first samples."""
    quantize_static(
        model,
        out,
        Reader(feeds),
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        nodes_to_quantize=nodes,
    )
    session = Session(out)
    for feed in feeds[:SAMPLES]:
        session.run(feed)


def compare(space: GraphSpace, device: str, asked: int, folder: Path) -> None:
    """Our pass, then some of the tool's, then the ratio and what it is based on."""
    estimator = GraphEstimator(space)
    chosen = [c for c in space.choices if c.family == "quantize" and c.name != "quantize:*"]
    first = space.choices.index(chosen[0])
    calibration_s = cpu_s(lambda: estimator.alone(first, 1))
    pass_s = cpu_s(lambda: estimator.damages)
    count = sum(len(choice) - 1 for choice in chosen)
    feeds = list(space.workshop.evidence.feeds(CALIBRATION))
    exact = space.graph(estimator.exact())
    path = folder / "exact.onnx"
    write_model(exact, path)
    outputs = {node.output[0]: node.name for node in onnx.load(path).graph.node}
    found = groups(exact)
    some = [found[i] for i in np.unique(np.linspace(0, len(found) - 1, asked).astype(int))]
    spent: list[float] = []
    for group in some:
        nodes = [outputs[name] for name in group.nodes if name in outputs]
        out = folder / "tool.onnx"
        spent.append(cpu_s(lambda nodes=nodes, out=out: by_tool(path, nodes, feeds, out)))
        print(f"tool, {group.name}: {spent[-1]:.2f} s", flush=True)
    print(
        f"{len(chosen)} choices, {count} alternatives beside off, on {device}; "
        f"calibrated on {len(feeds)} samples, damage on {SAMPLES}"
    )
    print(f"one-time calibration {calibration_s:.1f} s, the pass {pass_s:.1f} s of CPU")
    whole, ours = median(spent) * count, calibration_s + pass_s
    print(
        f"tool: median {median(spent):.2f} s over {len(spent)} groups, times {count}: {whole:.0f} s"
    )
    verdict = "met" if whole / ours >= TARGET else "missed"
    print(
        f"ratio {whole / ours:.1f} with calibration, {whole / pass_s:.1f} without; target {verdict}"
    )


def main() -> None:
    """Open, time, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--tool", type=int, default=5, help="groups that the tool is timed on")
    parser.add_argument("--device", default="local", help="whose actions are offered")
    asked = parser.parse_args()
    subject = open_subject(asked.model, data=None, metric=None, seed=0, progress=print)
    with (
        tempfile.TemporaryDirectory() as folder,
        Workspace.open(Path(folder) / "store") as workspace,
        open_device(asked.device, workspace.folder / "agent") as device,
    ):
        workshop = workshop_for(subject, workspace, device.profile.opset_ceiling)
        space = GraphSpace(
            workshop, Offer(profile=device.profile), families=("rewrite", "fuse", "quantize")
        )
        compare(space, asked.device, asked.tool, Path(folder))


if __name__ == "__main__":
    main()
