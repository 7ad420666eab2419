"""The model beside itself, again and again: how often intervals are wrong, what noise remains.

    python benchmarks/noise_floor.py [--times 40] [--device local] [--model ...] [--protocol normal]

As `edgeopt device calibrate`, but nothing is kept. The true ratio is 1, so the share of 95 %
intervals that exclude 1 should be near 5 %. The noise floor is the 95th percentile of |ratio - 1|:
smaller differences are not seen on this device with this protocol.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path

from edgeopt.api.measure import settings_on
from edgeopt.api.noise import calibrate

HERE = Path(__file__).resolve().parents[1]


def main() -> None:
    """Measure, count, print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=40)
    options.add_argument("--device", default="local")
    options.add_argument("--model", default=str(HERE / "models" / "digits" / "digits.onnx"))
    options.add_argument("--protocol", default="normal")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = calibrate(
            given.device,
            partial(print, flush=True),
            model=given.model,
            times=given.times,
            rung=given.protocol,
            settings_of=settings_on,
            folder=Path(folder),
        )
    print(f"{given.device}: {found.excluded} of {found.times} intervals exclude 1")
    print(f"noise floor: {found.text}; invalid and not counted: {found.unusable}")


if __name__ == "__main__":
    main()
