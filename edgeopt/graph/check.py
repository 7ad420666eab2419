"""Whether a graph is valid ONNX, by the standard's own checker; the runtime has the last word."""

import onnx
import onnx_ir as ir
from onnx import checker, shape_inference

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.errors import ModelError
from edgeopt.graph.runtime import RuntimeFailure, session_of
from edgeopt.graph.shapes import skeleton


def check(graph: ir.Model) -> None:
    """Run the full check, shape inference included.

    Where the checker objects and the runtime loads the model nevertheless, it passes: users have
    such models, and they run.

    Raises:
        ModelError: Checker and runtime refuse it; the message is the checker's.
    """
    objection = _objection(skeleton(graph))
    if not objection:
        return
    try:
        session_of(graph, RuntimeSettings(optimization="off"))
    except RuntimeFailure as error:
        raise ModelError(
            f"the graph is not valid: {objection}", hint=f"and the runtime says: {error.what}"
        ) from error


def _objection(model: onnx.ModelProto) -> str:
    """What the checker says against a model, as one line; empty where it says nothing."""
    try:
        checker.check_model(  # pyright: ignore[reportUnknownMemberType]
            model, full_check=True
        )
    except (checker.ValidationError, shape_inference.InferenceError, ValueError) as error:
        return " ".join(str(error).split())[:400]
    return ""
