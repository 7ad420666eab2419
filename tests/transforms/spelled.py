"""Activations as exporters spell them."""

import math
from collections.abc import Callable

import numpy as np

from edgeopt.testing.graphs import Builder

Spelled = Callable[[Builder, str, str], str]
"""Writes y = f(x)."""


def number(b: Builder, value: float) -> str:
    """A scalar constant."""
    return b.constant(f"number_{value:.6f}", np.asarray(value, np.float32))


def hard_swish(b: Builder, x: str, y: str) -> str:
    """The operator."""
    return b.node("HardSwish", [x], y)


def spelled_hard_swish(b: Builder, x: str, y: str) -> str:
    """x · Clip(x + 3, 0, 6) / 6."""
    above = b.node("Add", [x, number(b, 3.0)], f"{y}_a")
    cut = b.node("Clip", [above, number(b, 0.0), number(b, 6.0)], f"{y}_c")
    return b.node("Div", [b.node("Mul", [x, cut], f"{y}_m"), number(b, 6.0)], y)


def swish(b: Builder, x: str, y: str) -> str:
    """x · Sigmoid(x)."""
    return b.node("Mul", [b.node("Sigmoid", [x], f"{y}_s"), x], y)


def gelu(b: Builder, x: str, y: str) -> str:
    """x · (1 + Erf(x / sqrt(2))) / 2."""
    erf = b.node("Erf", [b.node("Div", [x, number(b, math.sqrt(2))], f"{y}_d")], f"{y}_e")
    above = b.node("Add", [erf, number(b, 1.0)], f"{y}_a")
    return b.node("Mul", [b.node("Mul", [x, above], f"{y}_m"), number(b, 0.5)], y)


def gelu_by_tanh(b: Builder, x: str, y: str) -> str:
    """x · (1 + Tanh(sqrt(2 / pi) · (x + 0.044715 x³))) / 2."""
    cube = b.node("Pow", [x, number(b, 3.0)], f"{y}_p")
    inner = b.node("Add", [x, b.node("Mul", [cube, number(b, 0.044715)], f"{y}_q")], f"{y}_i")
    bent = b.node("Mul", [inner, number(b, math.sqrt(2 / math.pi))], f"{y}_b")
    above = b.node("Add", [b.node("Tanh", [bent], f"{y}_t"), number(b, 1.0)], f"{y}_a")
    return b.node("Mul", [b.node("Mul", [x, number(b, 0.5)], f"{y}_h"), above], y)


def mish(b: Builder, x: str, y: str) -> str:
    """x · Tanh(Softplus(x))."""
    return b.node("Mul", [x, b.node("Tanh", [b.node("Softplus", [x], f"{y}_s")], f"{y}_t")], y)
