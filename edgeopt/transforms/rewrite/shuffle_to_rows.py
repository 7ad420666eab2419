"""A channel shuffle behind a convolution, in the order of its weights.

    Reshape(Transpose(Reshape(f(Conv(x, W, b)))))  =  f(Conv(x, W[order], b[order]))

f is an activation that treats all channels alike, or nothing. So ShuffleNet's shuffles cost
nothing; moved through the layout of integer kernels they are transposes of single bytes.

It must not fire when something else reads what is shuffled, on a convolution in groups (an
output would read the channels of another group), on another permutation than that of two channel
axes, or where weights are no constants.
"""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import (
    LocalRule,
    input_of,
    integer,
    integers,
    refuse,
    set_constant,
    site_of,
)
from edgeopt.transforms.rewrite._convolution import constants_of

_ALIKE = frozenset({"Relu", "Clip", "HardSwish", "HardSigmoid", "Sigmoid", "LeakyRelu"})
_SHUFFLE = (0, 2, 1, 3, 4)


@dataclass(frozen=True, slots=True)
class _Shuffle:
    root: ir.Node
    source: ir.Value
    conv: ir.Node
    order: tuple[int, ...]
    weight: npt.NDArray[Any]
    bias: npt.NDArray[Any] | None


def _match(root: ir.Node) -> _Shuffle | Rejection:
    transpose = _before(root, "Transpose")
    split = None if transpose is None else _before(transpose, "Reshape")
    if transpose is None or split is None or integers(transpose, "perm") != _SHUFFLE:
        return refuse("it does not end a channel shuffle", root)
    source = input_of(split, 0)
    sizes, merged = array_of(input_of(split, 1)), array_of(input_of(root, 1))
    if source is None or source.shape is None or root.outputs[0].shape != source.shape:
        return refuse("it does not keep a known shape", root)
    if sizes is None or sizes.size != len(_SHUFFLE) or merged is None:
        return refuse("its shapes are computed", root)
    conv = _convolution(source, split)
    if isinstance(conv, Rejection):
        return conv
    constants = constants_of(conv)
    if isinstance(constants, Rejection):
        return constants
    weight, bias = constants
    outer, inner = int(sizes[1]), int(sizes[2])
    if outer * inner != weight.shape[0] or tuple(sizes[3:]) != tuple(source.shape)[2:]:
        return refuse("it moves more than channels", root)
    order = tuple(row * inner + column for column in range(inner) for row in range(outer))
    return _Shuffle(root, source, conv, order, weight, bias)


def _before(node: ir.Node, operator: str) -> ir.Node | None:
    """The node whose only user a node is, where it is of that type."""
    value = input_of(node, 0)
    made = None if value is None else value.producer()
    alone = value is not None and sole_user(value) is node
    return made if made is not None and made.op_type == operator and alone else None


def _convolution(source: ir.Value, split: ir.Node) -> ir.Node | Rejection:
    value, user = source, split
    made = value.producer()
    if made is not None and made.op_type in _ALIKE and made.inputs[0] is not None:
        if sole_user(value) is not user:
            return refuse("something else reads what is shuffled", made)
        value, user = made.inputs[0], made
        made = value.producer()
    if made is None or made.op_type != "Conv" or made.domain or made.graph is not split.graph:
        return refuse("it does not follow a convolution", split)
    if sole_user(value) is not user:
        return refuse("something else reads the convolution", made)
    if integer(made, "group", 1) != 1:
        return refuse("the convolution has groups", made)
    return made


def _rewrite(editor: Editor, found: _Shuffle) -> None:
    site, old = f"{site_of(found.root)}/shuffle_to_rows", found.root.outputs[0]
    set_constant(editor, found.conv, 1, f"{site}/weight", found.weight[list(found.order)])
    if found.bias is not None:
        set_constant(editor, found.conv, 2, f"{site}/bias", found.bias[list(found.order)])
    if old.is_graph_output():
        editor.replace_value(old, found.source)
    else:
        # The convolution's value keeps its name: quantizers call their groups by it.
        editor.replace_uses(old, found.source)
    editor.remove_dead([found.root])


PLUGIN = LocalRule(
    name="shuffle_to_rows", roots=frozenset({"Reshape"}), match=_match, rewrite=_rewrite, opset=5
)
