"""Run a tool that works on files on a graph under work, and take its result back.

The tools are run as their users run them, on the normalised model. What they raise becomes a
rejection: a crash of a foreign tool is a fact about this candidate, not a defect of ours.
"""

import contextlib
import logging
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.errors import ModelError
from edgeopt.graph.editor import Editor
from edgeopt.graph.read import open_graph
from edgeopt.graph.write import write_model
from edgeopt.transforms.base import Rejection

Tool = Callable[[Path, Path], None]
"""Reads a model from the first path and writes another one to the second."""


def run_tool(
    editor: Editor, action: Action, tool: Tool, integer: frozenset[str]
) -> Action | Rejection:
    """Put the tool's result in the place of the editor's model.

    Args:
        editor: Of the model that the tool gets as a file.
        action: Returned when it worked.
        tool: Called once.
        integer: Operators one of which the result must hold, or else nothing was quantized.
    """
    with tempfile.TemporaryDirectory(prefix="edgeopt-") as folder:
        source, made = Path(folder) / "float.onnx", Path(folder) / "integer.onnx"
        write_model(editor.model, source)
        try:
            with _silent():
                tool(source, made)
        except Exception as error:  # a foreign tool may raise anything
            text = str(error).strip().splitlines() or [type(error).__name__]
            return Rejection(reason=f"the tool fails: {type(error).__name__}: {text[0][:300]}")
        try:
            graph = _in_memory(open_graph(made))
        except ModelError as error:
            return Rejection(reason=f"the tool wrote a model that cannot be read: {error.what}")
    if not any(node.op_type in integer for node in graph.graph.all_nodes()):
        return Rejection(reason="the tool quantized nothing")
    editor.replace_model(graph)
    return action


def _in_memory(graph: ir.Model) -> ir.Model:
    """The graph with its external tensors read in, since their files are about to go."""
    for value in graph.graph.initializers.values():
        if isinstance(value.const_value, ir.ExternalTensor):
            value.const_value = ir.tensor(value.const_value.numpy().copy(), name=value.name)
    return graph


@contextlib.contextmanager
def _silent() -> Generator[None]:
    """The tool logs advice to the root logger, which would print it."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
