"""How much of a run's time the board measures, and what a second device costs.

    python benchmarks/fleet.py [--candidates 16] [--model models/digits/digits.onnx --data ...npz]

Every candidate of a run is measured once on this machine and recorded, with the time that each job
took. Then whole runs are played against one board and against two: a replayed board answers after
the recorded time, uses none of this machine's, and measures the same things. The targets: the board
measures at least 70 % of the wall time, and two devices take at most 1.2 times the time of one.
"""

import argparse
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from edgeopt.api.device import PROBE_S
from edgeopt.api.prepare import prepared
from edgeopt.api.request import RunRequest
from edgeopt.api.run import run_request
from edgeopt.api.workspace import Workspace
from edgeopt.core.candidate import Candidate
from edgeopt.measure.plan import NORMAL, QUICK
from edgeopt.targets.replay import RecordingTarget

HERE = Path(__file__).resolve().parents[1]
DIGITS = HERE / "models" / "digits"


def record(request: RunRequest, count: int, recording: Path) -> int:
    """Measure what a run would ask for under both rungs, and write it down."""
    with prepared(request, print, lambda: False, keep=True) as ready:
        (lane,) = ready.lanes
        target = RecordingTarget(lane.bench.device.target, recording)
        target.request("probe", deadline_s=PROBE_S)
        lane.bench = replace(lane.bench, device=replace(lane.bench.device, target=target))
        baseline = Candidate(
            recipe=ready.spaces[lane.device].empty(), runtime=lane.bench.baseline_runtime
        )
        asked = {baseline.key: baseline}
        for _, strategy in ready.strategies(lane.device):
            found = strategy.ask(count)
            asked |= {candidate.key: candidate for candidate in found}
        for number, candidate in enumerate(asked.values()):
            made = lane.bench.prepared(candidate)
            for protocol in (QUICK, NORMAL):
                lane.bench.measured(made, protocol)
            print(f"recorded {number + 1} of {len(asked)}", flush=True)
        return len(asked)


def timed(request: RunRequest) -> tuple[float, dict[str, float]]:
    """Wall seconds of a run, and the seconds that each board was measuring."""
    start = time.monotonic()
    result = run_request(request, progress=lambda line: None, stopped=lambda: False)
    wall_s = time.monotonic() - start
    busy = dict.fromkeys(request.devices, 0.0)
    with Workspace.open(request.store) as workspace:
        for trial in workspace.trials.trials(str(result.document["study"]["id"])):
            busy[trial.device] += trial.device_s
    return wall_s, busy


def main() -> None:
    """Record, replay, print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--candidates", type=int, default=16)
    options.add_argument("--model", default=str(DIGITS / "digits.onnx"))
    options.add_argument("--data", default=str(DIGITS / "digits.npz"))
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        recording = place / "board.jsonl"
        request = RunRequest(
            model=given.model,
            data=given.data,
            strategy="random",
            trials=given.candidates,
            budget_s=3600.0,
            store=place / "record",
            out=place / "out",
        )
        record(request, given.candidates, recording)
        lines = [
            f'[devices.{name}]\nkind = "replay"\nrecording = "{recording}"\n'
            'environment = { EDGEOPT_REPLAY_PACE = "1" }\n'
            for name in ("one", "two")
        ]
        devices = place / "devices.toml"
        devices.write_text("\n".join(lines))
        os.environ["EDGEOPT_DEVICES"] = str(devices)
        alone, busy = timed(replace(request, device="one", store=place / "a"))
        both, shared = timed(replace(request, device="one,two", store=place / "b"))
    print(f"one board: {alone:.1f} s, measuring {busy['one'] / alone:.0%} of it")
    words = ", ".join(f"{name} {seconds / both:.0%}" for name, seconds in shared.items())
    print(f"two boards: {both:.1f} s, {both / alone:.2f} times as long; measuring: {words}")


if __name__ == "__main__":
    main()
