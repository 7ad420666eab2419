"""Check that this exported model computes here what it computed where it was made.

Needs numpy and onnxruntime only:  python verify.py
Exit code 0: equal within the tolerance that was found on the machine that exported it. 6: not.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort


def main():
    folder = Path(__file__).resolve().parent
    runtime = json.loads((folder / "runtime.json").read_text(encoding="utf-8"))
    options = ort.SessionOptions()
    options.intra_op_num_threads = runtime["threads"]
    options.inter_op_num_threads = 1
    levels = {"off": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED"}
    level = "ORT_" + levels.get(runtime["optimization"], "ENABLE_ALL")
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    session = ort.InferenceSession(
        str(folder / "model.onnx"), options, providers=[runtime["provider"]]
    )
    inputs, outputs = np.load(folder / "inputs.npz"), np.load(folder / "outputs.npz")
    names = [output.name for output in session.get_outputs()]
    worst, wrong = 0.0, 0
    for sample in range(runtime["samples"]):
        prefix = str(sample) + "/"
        feed = {key[len(prefix) :]: inputs[key] for key in inputs if key.startswith(prefix)}
        for name, found in zip(names, session.run(names, feed)):
            expected = outputs[prefix + name]
            if found.shape != expected.shape or found.dtype != expected.dtype:
                wrong += 1
                continue
            if expected.dtype.kind not in "fc":
                wrong += int(not np.array_equal(found, expected))
                continue
            difference = np.abs(found.astype(np.float64) - expected.astype(np.float64))
            worst = max(worst, float(difference.max()) if difference.size else 0.0)
    tolerance = runtime["tolerance"]
    good = wrong == 0 and worst <= tolerance
    print(
        "%s: %d samples, largest difference %.3g (tolerance %.3g)%s"
        % (
            "OK" if good else "WRONG OUTPUTS",
            runtime["samples"],
            worst,
            tolerance,
            ", %d outputs of another shape, type or integer value" % wrong if wrong else "",
        )
    )
    return 0 if good else 6


if __name__ == "__main__":
    sys.exit(main())
