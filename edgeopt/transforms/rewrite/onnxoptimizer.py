"""The default passes of the onnxoptimizer package, as its users run them.

    optimize(model, fuse and eliminate passes)  =  model

Meant to be exact, and verified like any other action: differential testing found bugs in 9 of its
passes, and `fuse_pad_into_pool` changes results. It refuses where the package fails. Weights must
fit into one file of 2 GB.
"""

from typing import Any

import onnx
import onnxoptimizer  # pyright: ignore[reportMissingTypeStubs]

from edgeopt.core.action import Action
from edgeopt.errors import ModelError
from edgeopt.transforms.whole_model import WholeModel


def _run(model: onnx.ModelProto, action: Action) -> onnx.ModelProto:
    del action
    tool: Any = onnxoptimizer
    try:
        found: onnx.ModelProto = tool.optimize(model)
    except (RuntimeError, ValueError, IndexError) as error:
        raise ModelError(str(error) or type(error).__name__) from error
    return found


PLUGIN = WholeModel(name="onnxoptimizer", variants=({},), run=_run)
