"""A large max pooling on top of a smaller one beside it.

    MaxPool_k2(x)  =  MaxPool_(k2-k1+1)(MaxPool_k1(x))          k1 < k2, both with stride 1

Both keep the size with centred padding, which is -infinity, so that windows at the border hold the
same elements. It is the SPP block: poolings of 5, 9 and 13 side by side become three of 5 in turn,
75 elements a position instead of 275.

It must not fire with strides or dilations, with even kernels or another padding than half of the
kernel, or where no smaller pooling of the same value stands before it.
Imperative, since it looks for a sibling. ONNX Runtime does nothing of it; measured 1.8.
"""

from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, integer, integers, refuse, word


@dataclass(frozen=True, slots=True)
class _Pair:
    pool: ir.Node
    smaller: ir.Node
    kernel: tuple[int, ...]


def _centred(node: ir.Node) -> tuple[int, ...] | None:
    """The kernel of a MaxPool that keeps the size; None for any other node."""
    if node.op_type != "MaxPool" or node.domain or len(node.outputs) != 1:
        return None
    kernel, pads = integers(node, "kernel_shape"), integers(node, "pads")
    plain = word(node, "auto_pad", "NOTSET") == "NOTSET" and not integer(node, "storage_order", 0)
    steps = (*integers(node, "strides"), *integers(node, "dilations"))
    if not plain or any(step != 1 for step in steps) or not all(size % 2 for size in kernel):
        return None
    half = tuple(size // 2 for size in kernel)
    return kernel if pads == (*half, *half) or not any((*pads, *half)) else None


def _match(pool: ir.Node) -> _Pair | Rejection:
    kernel, source = _centred(pool), pool.inputs[0]
    if kernel is None or source is None:
        return refuse("it does not keep the size with stride 1", pool)
    best: _Pair | None = None
    for other, _ in source.uses():
        size = _centred(other) if other.graph is pool.graph else None
        if size is None or len(size) != len(kernel) or other is pool:
            continue
        smaller = all(a <= b for a, b in zip(size, kernel, strict=True)) and size != kernel
        if smaller and (best is None or size > best.kernel):
            best = _Pair(pool, other, size)
    return best or refuse("no smaller pooling reads the same value", pool)


def _rewrite(editor: Editor, found: _Pair) -> None:
    kernel = integers(found.pool, "kernel_shape")
    left = [big - small + 1 for big, small in zip(kernel, found.kernel, strict=True)]
    half = [size // 2 for size in left]
    editor.set_attribute(found.pool, "kernel_shape", left)
    editor.set_attribute(found.pool, "pads", [*half, *half])
    editor.set_input(found.pool, 0, found.smaller.outputs[0])


PLUGIN = LocalRule(name="chain_pools", roots=frozenset({"MaxPool"}), match=_match, rewrite=_rewrite)
