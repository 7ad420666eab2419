"""Operator cost tables of devices: filled from every measured trial's profile, read by `inspect`.

One file a device and runtime setting, in the workspace's folder `costs`.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import onnx

from edgeopt.api.device import Device
from edgeopt.core import digest as digests
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.core.trial import Trial
from edgeopt.errors import EdgeOptError
from edgeopt.estimate.cost_table import CostTable, Profiled
from edgeopt.estimate.operators import operators_of
from edgeopt.graph.executed import executed
from edgeopt.measure.runner import Outcome

FOLDER = "costs"


def learn_costs(folder: Path, device: Device, trial: Trial, outcome: Outcome) -> None:
    """Take a measured trial's profile into the device's table.

    Nothing is learned from a measurement that does not hold, or where the profile hides the
    operators. A table that cannot be kept is learned again.

    Args:
        folder: The workspace's.
        device: Where it was measured.
        trial: With the digest of the file.
        outcome: Of the measurement.
    """
    latency = outcome.values.get("latency")
    profile: Mapping[str, Any] = outcome.profile or {}
    found = operators_of(profile.get("nodes", ()))
    operators = tuple((operator.key, seconds) for operator, seconds in found)
    if latency is None or outcome.verdict.status == "invalid" or not operators:
        return
    settings = trial.candidate.runtime
    runtime = f"onnxruntime {device.facts.get('runtime')} {settings.text}"
    path = _path(folder, device, runtime)
    table = CostTable.read(path) or CostTable(
        device=device.name, runtime=runtime, optimization=settings.optimization
    )
    profiled = Profiled(model=trial.model_digest, latency_s=latency.value, operators=operators)
    with contextlib.suppress(EdgeOptError):
        table.learned(profiled).write(path)


def tables_of(folder: Path, device: Device) -> list[CostTable]:
    """The tables of a device as it is now: what changes a measurement begins another one."""
    paths = sorted((folder / FOLDER).glob(f"{_short(device.fingerprint)}-*.json"))
    tables = (CostTable.read(path) for path in paths)
    return [table for table in tables if table is not None and table.profiles]


def estimates(
    folder: Path, device: Device, model: onnx.ModelProto, feed: Feed
) -> list[dict[str, Any]]:
    """What each table of a device says of a model that need not have been there.

    Args:
        folder: The workspace's.
        device: Whose tables are asked.
        model: Self-contained.
        feed: One input: it decides the shapes.

    Returns:
        One entry a table: `seconds` of a run, how much of that was profiled, the roofline, and how
        far the table's estimates are off (`agreement`). Empty without tables.

    Raises:
        RuntimeFailure: The model does not run on this machine.
    """
    found: list[dict[str, Any]] = []
    for table in tables_of(folder, device):
        nodes = executed(model, RuntimeSettings(optimization=table.optimization), feed)
        made = table.estimate([operator for operator, _ in operators_of(nodes)])
        agreement, roofline = table.agreement(), table.roofline
        found.append(
            {
                "runtime": table.runtime,
                "models": len(table.profiles),
                "estimate": asdict(made),
                "roofline": {
                    "macs_per_s": roofline.rate,
                    "bytes_per_s": roofline.bandwidth,
                    "launch_s": roofline.launch_s,
                },
                "agreement": None if agreement is None else asdict(agreement),
            }
        )
    return found


def lines_of(told: Mapping[str, Any], device: str) -> list[str]:
    """An entry of `estimates` for people."""
    if "absent" in told:
        return [told["absent"]]
    made, roofline, agreement = told["estimate"], told["roofline"], told["agreement"]
    lines = [
        f"Estimate, not a measurement ({told['runtime']}): {made['seconds'] * 1e3:.3g} ms a run",
        f"  from operators profiled on {device} (models: {told['models']}): "
        f"{made['profiled']:.0%} of it is of operators that were seen there,",
        f"  {made['unseen']} of {made['operators']} are by the roofline "
        f"({roofline['macs_per_s'] / 1e9:.3g} G multiply-adds/s, "
        f"{roofline['bytes_per_s'] / 1e9:.3g} GB/s, {roofline['launch_s'] * 1e6:.2g} us a kernel)",
    ]
    if agreement is None:
        return [*lines, "  how far it is off is not known: one model was profiled"]
    rank = agreement["rank_correlation"]
    return [
        *lines,
        f"  how far such estimates are off, each of {agreement['models']} models from the others' "
        f"profiles: {agreement['error']:.0%} in the middle, {agreement['worst']:.0%} at worst"
        + ("" if rank is None else f", rank correlation {rank:.2f}"),
    ]


def _path(folder: Path, device: Device, runtime: str) -> Path:
    return folder / FOLDER / f"{_short(device.fingerprint)}-{_short(runtime)}.json"


def _short(text: str) -> str:
    return digests.short(digests.of_text(text))
