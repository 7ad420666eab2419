"""A padding before a pooling, as the pooling's own.

    MaxPool(Pad(x, p, c))      =  MaxPool(x, pads + p)          c = -infinity, or c = 0 and x >= 0
    AveragePool(Pad(x, p, 0))  =  AveragePool(x, pads + p), padding counted in the mean

The pooling's own padding is -infinity, so that a window takes the largest of what is really there.
With zeros that is the same only where nothing is negative, behind a Relu for example.
It must not fire where x may be negative, on other modes than constant, where batch or channels are
padded too or anything is cut off, where a window may hold padding alone, with `auto_pad`, where an
average leaves padding of its own out, or where something else reads the padded planes.
Imperative, since the sign follows from nodes of any number. ONNX Runtime leaves such a Pad;
onnxoptimizer's `fuse_pad_into_pool` takes every Pad of zeros in, and gives other results where x is
negative. Measured 1.55.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, input_of, integer, integers, refuse, word
from edgeopt.transforms.rewrite._around import maker
from edgeopt.transforms.rewrite._sign import is_nonnegative

_LEADING = 2


@dataclass(frozen=True, slots=True)
class _Padded:
    pool: ir.Node
    pad: ir.Node
    pads: tuple[int, ...]


def _match(pool: ir.Node) -> _Padded | Rejection:
    pad = maker(pool, 0, "Pad")
    if pad is None:
        return refuse("it does not pool padded planes of its own", pool)
    pads, value, source = array_of(input_of(pad, 1)), input_of(pad, 2), pad.inputs[0]
    if word(pad, "mode", "constant") != "constant" or input_of(pad, 3) is not None:
        return refuse("it pads with what is there, or names axes", pad)
    number = np.zeros(()) if value is None else array_of(value)
    if pads is None or number is None:
        return refuse("its padding is computed", pad)
    if pool.op_type == "AveragePool":
        left_out = any(integers(pool, "pads")) and not integer(pool, "count_include_pad", 0)
        if (number != 0).any() or left_out:
            return refuse("it pads an average with a number, or leaves padding of its own out", pad)
    elif not (np.isneginf(number).all() or ((number == 0).all() and is_nonnegative(source))):
        return refuse("padding of 0 could be larger than what is there", pad)
    rank = len(pads) // 2
    kernel = integers(pool, "kernel_shape")
    begin, end = pads[:rank], pads[rank:]
    if any(begin[:_LEADING]) or any(end[:_LEADING]) or (pads < 0).any():
        return refuse("it pads batch or channels, or cuts", pad)
    if word(pool, "auto_pad", "NOTSET") != "NOTSET" or integer(pool, "ceil_mode", 0):
        return refuse("the pooling pads by itself", pool)
    if len(pool.outputs) > 1 or any(step != 1 for step in integers(pool, "dilations")):
        return refuse("it is dilated, or says where the largest was", pool)
    own = integers(pool, "pads") or (0,) * (2 * (rank - _LEADING))
    added = (*begin[_LEADING:], *end[_LEADING:])
    total = tuple(int(a) + b for a, b in zip(added, own, strict=True))
    if any(size >= taps for size, taps in zip(total, (*kernel, *kernel), strict=True)):
        return refuse("a window may hold padding alone", pool)
    return _Padded(pool, pad, total)


def _rewrite(editor: Editor, found: _Padded) -> None:
    editor.set_attribute(found.pool, "pads", found.pads)
    if found.pool.op_type == "AveragePool":
        editor.set_attribute(found.pool, "count_include_pad", 1)
    editor.set_input(found.pool, 0, found.pad.inputs[0])
    editor.remove_dead([found.pad])


PLUGIN = LocalRule(
    name="pad_into_pool",
    roots=frozenset({"MaxPool", "AveragePool"}),
    match=_match,
    rewrite=_rewrite,
    opset=11,
)
