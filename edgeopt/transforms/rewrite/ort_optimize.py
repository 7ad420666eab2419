"""The graph that ONNX Runtime makes of the model when it loads it, saved as a model.

    optimize(model, level)  =  model          level: basic, extended

What is saved need not be done again at every start on the device. Only the levels whose graphs
run elsewhere are offered: `basic` stays within ONNX, `extended` writes fused operators of
`com.microsoft`. The layout level is left out: its blocked layouts belong to this machine's
processor.
"""

import onnx

from edgeopt.core.action import Action
from edgeopt.errors import ModelError
from edgeopt.graph.runtime import optimized
from edgeopt.transforms.whole_model import WholeModel

_LEVELS = ("basic", "extended")


def _run(model: onnx.ModelProto, action: Action) -> onnx.ModelProto:
    level = str(action.get("level", ""))
    if level not in _LEVELS:
        raise ModelError(f"there is no portable level {level!r}; choose {' or '.join(_LEVELS)}")
    return optimized(model, level)


def _contrib(action: Action) -> bool:
    return action.get("level") == "extended"


PLUGIN = WholeModel(
    name="ort_optimize",
    variants=tuple({"level": level} for level in _LEVELS),
    run=_run,
    contrib=_contrib,
)
