"""Convolutions of one x that are added, as one.

    Conv(x, W1, b1) + Conv(x, W2, b2) + x  =  Conv(x, W1 + W2 + I, b1 + b2)

Smaller kernels are padded with zeros to where they lie in the largest, groups are spelled out
where another branch has fewer; a normalization of x counts as a convolution, and x itself as a
branch beside two others. It is how RepVGG is trained: 3x3, 1x1 and identity, each with a
normalization (folded before by `fold_batchnorm`).

It must not fire inside a larger sum, with fewer than two convolutions, where strides, dilations or
output sizes differ, where something else reads a branch, with `auto_pad`, where sizes are not
known, or where one kernel would take more multiplications than all that it replaces (a depthwise
3x3 beside a dense 1x1).
Imperative, since the number of branches is open. ONNX Runtime does nothing of it; measured 1.2.
"""

from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, integer, refuse
from edgeopt.transforms.rewrite._around import Steps, sizes_of
from edgeopt.transforms.rewrite._batchnorm import affine, normalises_batch
from edgeopt.transforms.rewrite._convolution import constants_of
from edgeopt.transforms.rewrite._windows import Window, windows_of

_TWO = 2


@dataclass(frozen=True, slots=True)
class _Branch:
    """A convolution among the terms of a sum."""

    conv: ir.Node
    windows: tuple[Window, ...]
    weight: npt.NDArray[Any]
    bias: npt.NDArray[Any] | None
    group: int


@dataclass(frozen=True, slots=True)
class _Merge:
    root: ir.Node
    branches: tuple[_Branch, ...]
    identity: bool
    rest: tuple[ir.Value, ...]
    group: int
    windows: tuple[Window, ...]


def _terms(node: ir.Node, *, top: bool = True) -> list[ir.Value]:
    """The terms of a tree of Adds of one shape."""
    found: list[ir.Value] = []
    for value in node.inputs:
        maker = None if value is None else value.producer()
        if value is None:
            return []
        alone = sole_user(value) is node and value.shape == node.outputs[0].shape
        if maker is not None and maker.op_type == "Add" and not maker.domain and alone:
            found += _terms(maker, top=False)
        else:
            found.append(value)
    return found


def _branch(value: ir.Value, shape: ir.ShapeProtocol | None) -> _Branch | None:
    conv = value.producer()
    if conv is None or conv.domain or sole_user(value) is None:
        return None
    if conv.op_type == "BatchNormalization":
        return _normalized(conv, shape)
    if conv.op_type != "Conv":
        return None
    windows, constants = windows_of(conv), constants_of(conv)
    if isinstance(windows, Rejection) or isinstance(constants, Rejection):
        return None
    if value.shape != shape:
        return None
    return _Branch(conv, windows, *constants, integer(conv, "group", 1))


def _is_inner(root: ir.Node) -> bool:
    """Whether a larger sum goes on behind it."""
    user = sole_user(root.outputs[0])
    further = user is not None and user.op_type == "Add" and not user.domain
    return user is not None and further and user.outputs[0].shape == root.outputs[0].shape


def _normalized(norm: ir.Node, shape: ir.ShapeProtocol | None) -> _Branch | None:
    """A normalization of x itself, as the depthwise convolution of one tap that it is."""
    numbers, sizes = affine(norm), sizes_of(norm.inputs[0])
    if isinstance(numbers, Rejection) or normalises_batch(norm) or norm.outputs[0].shape != shape:
        return None
    spatial = () if shape is None else tuple(shape)[_TWO:]
    known = [size for size in spatial if isinstance(size, int)]
    if len(known) != len(spatial) or (sizes is not None and sizes[_TWO:] != tuple(known)):
        return None
    windows = tuple(
        Window(size=size, kernel=1, stride=1, dilation=1, begin=0, end=0) for size in known
    )
    factor, shift = (each.astype(np.float32) for each in numbers)
    weight = factor.reshape(-1, *(1,) * (1 + len(known)))
    return _Branch(norm, windows, weight, shift, len(factor))


def _match(root: ir.Node) -> _Merge | Rejection:
    if _is_inner(root):
        return refuse("it is part of a larger sum", root)
    terms = _terms(root)
    found = [_branch(value, root.outputs[0].shape) for value in terms]
    first = next((one for one in found if one is not None), None)
    if first is None or root.outputs[0].shape is None:
        return refuse("it adds no convolutions of known size", root)
    source = first.conv.inputs[0]
    alike = [one is not None and _alike(one, first) for one in found]
    branches = tuple(one for one, same in zip(found, alike, strict=True) if same and one)
    if len(branches) < _TWO:
        return refuse("it does not add two convolutions of one value alike", root)
    rest = [value for value, same in zip(terms, alike, strict=True) if not same]
    strides = {window.stride for one in branches for window in one.windows}
    identity = source in rest and strides == {1}
    if identity and source is not None:
        rest.remove(source)
    group = gcd(*(one.group for one in branches))
    windows = _common(branches)
    if all(one.conv.op_type != "Conv" for one in branches):
        return refuse("it adds normalizations only", root)
    made, given = first.weight.shape[0], first.weight.shape[1] * first.group
    cost = prod(window.kernel for window in windows) * given // group * made
    before = sum(one.weight.size for one in branches)
    if cost > before:
        return refuse(f"{cost} multiplications a position instead of {before}", root)
    return _Merge(root, branches, identity, tuple(rest), group, windows)


def _alike(one: _Branch, first: _Branch) -> bool:
    """Whether two convolutions step over the same value alike."""
    same = one.conv.inputs[0] is first.conv.inputs[0]
    plain = all(w.dilation == 1 or w.kernel == 1 for w in (*one.windows, *first.windows))
    pairs = zip(one.windows, first.windows, strict=True)
    return same and plain and all(a.stride == b.stride and a.made == b.made for a, b in pairs)


def _common(branches: tuple[_Branch, ...]) -> tuple[Window, ...]:
    """Windows that hold those of every branch."""
    found: list[Window] = []
    for windows in zip(*(one.windows for one in branches), strict=True):
        begin = max(w.begin for w in windows)
        kernel = max(w.kernel + begin - w.begin for w in windows)
        size, stride = windows[0].size, windows[0].stride
        end = max(0, (windows[0].made - 1) * stride + kernel - size - begin)
        found.append(
            Window(size=size, kernel=kernel, stride=stride, dilation=1, begin=begin, end=end)
        )
    return tuple(found)


def _spread(one: _Branch, found: _Merge) -> npt.NDArray[np.float64]:
    """The weight of a branch in the groups and windows of all."""
    made, given = one.weight.shape[:2]
    per = given * one.group // found.group
    sizes = [window.kernel for window in found.windows]
    wide = np.zeros((made, per, *sizes))
    pairs = list(zip(found.windows, one.windows, strict=True))
    places = [slice(a.begin - b.begin, a.begin - b.begin + b.kernel) for a, b in pairs]
    for row in range(made):
        first = row * one.group // made * given - row * found.group // made * per
        wide[(row, slice(first, first + given), *places)] = one.weight[row]
    return wide


def _rewrite(editor: Editor, found: _Merge) -> None:
    first, root = found.branches[0], found.root
    steps = Steps(editor, "merge_branches", root)
    weight = sum(_spread(one, found) for one in found.branches)
    assert isinstance(weight, np.ndarray), "there are branches"
    if found.identity:
        middle = tuple(window.begin for window in found.windows)
        per = weight.shape[1]
        for row in range(len(weight)):
            weight[(row, row % per, *middle)] += 1
    biases = [one.bias.astype(np.float64) for one in found.branches if one.bias is not None]
    dtype = first.weight.dtype
    inputs = [first.conv.inputs[0], steps.constant("weight", weight.astype(dtype))]
    inputs += [steps.constant("bias", sum(biases).astype(dtype))] if biases else []  # type: ignore[union-attr]
    shape = root.outputs[0].shape
    pads = (*(w.begin for w in found.windows), *(w.end for w in found.windows))
    total = steps.add(
        "conv",
        "Conv",
        inputs,
        shape,
        kernel_shape=[w.kernel for w in found.windows],
        strides=[w.stride for w in found.windows],
        pads=list(pads),
        group=found.group,
    )
    for index, value in enumerate(found.rest):
        total = steps.add(f"sum_{index}", "Add", [total, value], shape)
    steps.finish()


PLUGIN = LocalRule(
    name="merge_branches", roots=frozenset({"Add"}), match=_match, rewrite=_rewrite, opset=7
)
