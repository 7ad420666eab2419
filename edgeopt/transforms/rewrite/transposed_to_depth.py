"""A transposed convolution whose windows do not overlap, as a pointwise one and pixels laid out.

    ConvTranspose(x, W, stride = kernel)  =  DepthToSpace(Conv1x1(x, W'))

A negative control, for recipes only: measured 0.66 of the speed on a processor; other providers
may have no kernel for the left side.
It must not fire with overlapping windows or gaps, padding, groups, dilation, or kernels that are
not square.
ONNX Runtime does nothing of it.
"""

import numpy as np

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

lay_out = Rule("transposed_to_depth", opset=11)


@lay_out.pattern
def _(op: Ops, x: Tensor, w: Const, b: Const | None = None) -> Term:
    return op.ConvTranspose(x, w, b, _as="conv")


@lay_out.sound
def _(conv: Node, w: Const) -> None:
    require(w.rank == 4 and w.shape[2] == w.shape[3] > 1, "its kernel is not square")
    require(tuple(conv.strides) == w.shape[2:], "windows overlap, or leave gaps")
    names = ("pads", "output_padding", "output_shape", "dilations", "auto_pad")
    require(not any(name in conv.attrs for name in names) or _plain(conv), "it pads, or is dilated")
    require(conv.group == 1, "it has groups")


def _plain(conv: Node) -> bool:
    padded = any(any(conv.attrs.get(name, ())) for name in ("pads", "output_padding"))  # type: ignore[arg-type]
    dilated = any(step != 1 for step in conv.dilations)
    automatic = conv.attrs.get("auto_pad", "NOTSET") != "NOTSET"
    return not (padded or dilated or automatic or "output_shape" in conv.attrs)


@lay_out.replace_with
def _(op: Ops, x: Tensor, w: Const, b: Const | None) -> Term:
    given, made, block = w.shape[:3]
    rows = made * block**2
    turned = op.Transpose(w, perm=(1, 2, 3, 0))
    weight = op.Reshape(turned, op.i64(rows, given, 1, 1))
    bias = None if b is None else op.array(np.repeat(b.array(), block**2))
    conv = op.Conv(x, weight, bias, _name="conv")
    return op.DepthToSpace(conv, blocksize=block, mode="CRD", _name="pixels")


PLUGIN = RuleTransform(lay_out, control=True)
