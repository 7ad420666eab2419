"""The passes of the onnxoptimizer package: its default ones as its users run them, or one.

    optimize(model, fuse and eliminate passes)  =  model
    optimize(model, [pass])  =  model

Meant to be exact, and verified like any other action: differential testing found bugs in 9 of its
passes, and `fuse_pad_into_pool`, which is among the default ones, changes results. It refuses
where the package fails or has no such pass. Weights must fit into one file of 2 GB.
What a search offers is the default; a recipe may name a pass: `onnxoptimizer "*" pass="nop"`.
"""

from typing import Any

import onnx
import onnxoptimizer  # pyright: ignore[reportMissingTypeStubs]

from edgeopt.core.action import Action
from edgeopt.errors import ModelError
from edgeopt.transforms.whole_model import WholeModel


def passes() -> tuple[str, ...]:
    """The names of all passes that the package has."""
    tool: Any = onnxoptimizer
    return tuple(str(name) for name in tool.get_available_passes())


def _run(model: onnx.ModelProto, action: Action) -> onnx.ModelProto:
    tool: Any = onnxoptimizer
    named = dict(action.parameters).get("pass")
    if named is not None and named not in passes():
        raise ModelError(f"onnxoptimizer has no pass {named!r}")
    try:
        chosen = () if named is None else ([str(named)],)
        found: onnx.ModelProto = tool.optimize(model, *chosen)
    except (RuntimeError, ValueError, IndexError) as error:
        raise ModelError(str(error) or type(error).__name__) from error
    return found


PLUGIN = WholeModel(name="onnxoptimizer", variants=({},), run=_run)
