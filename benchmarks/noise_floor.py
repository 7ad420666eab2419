"""The model beside itself, again and again: how often intervals are wrong, what noise remains.

    python benchmarks/noise_floor.py [--times 40] [--device local] [--model ...] [--protocol normal]

Every measurement opens the device anew: fresh connection, fresh agent, fresh processes. The true
ratio is 1, so the share of 95 % intervals that exclude 1 should be near 5 %. The noise floor is the
95th percentile of |ratio - 1|: smaller differences are not seen on this device with this protocol.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from edgeopt.api.device import open_device
from edgeopt.api.prepare import FEEDS
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Failure
from edgeopt.graph.inputs import random_feeds
from edgeopt.graph.read import read_model
from edgeopt.measure.feeds import write_feeds
from edgeopt.measure.plan import protocol
from edgeopt.measure.runner import measure

HERE = Path(__file__).resolve().parents[1]


def main() -> None:
    """Measure, count, print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=40)
    options.add_argument("--device", default="local")
    options.add_argument("--model", default=str(HERE / "models" / "digits" / "digits.onnx"))
    options.add_argument("--protocol", default="normal")
    given = options.parse_args()
    model, settings = read_model(Path(given.model)), RuntimeSettings()
    ratios: list[float] = []
    excluded, verdicts = 0, dict[str, int]()
    with tempfile.TemporaryDirectory() as folder:
        feeds = Path(folder) / "feeds.npz"
        write_feeds(random_feeds(model, FEEDS, shapes={}), feeds)
        for number in range(given.times):
            with open_device(given.device, Path(folder) / "agent") as device:
                found = measure(
                    device.target,
                    baseline=model.path,
                    candidate=model.path,
                    feeds=feeds,
                    settings=settings,
                    baseline_settings=settings,
                    protocol=protocol(given.protocol),
                    identical=True,
                )
            if isinstance(found, Failure):
                raise SystemExit(found.reason)
            samples = found.values["latency"].samples
            assert samples is not None
            ratio = samples.ratio
            ratios.append(ratio.value)
            outside = not ratio.contains(1.0)
            excluded += outside
            status = found.verdict.status
            verdicts[status] = verdicts.get(status, 0) + 1
            print(
                f"{number + 1:>3}  {ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]  "
                f"{status}{'  excludes 1' if outside else ''}",
                flush=True,
            )
    off = np.abs(np.array(ratios) - 1)
    print(f"{given.device}, {given.protocol}: {excluded} of {len(ratios)} intervals exclude 1")
    print(f"noise floor (95 % of |ratio - 1|): {np.quantile(off, 0.95):.1%}; verdicts {verdicts}")


if __name__ == "__main__":
    main()
