"""Graphs: read, observed, edited, checked and written."""

from edgeopt.graph.without_sympy import import_onnx_ir

import_onnx_ir()
