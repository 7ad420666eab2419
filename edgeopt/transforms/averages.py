"""Which AveragePools can be integer, and how they divide."""

import onnx_ir as ir

from edgeopt.transforms.local_rule import integer, integers, word

_PLANES = 4


def averages_planes(node: ir.Node) -> bool:
    """Whether a node is an AveragePool that can be a depthwise convolution with one weight.

    The runtime's own integer kernel of it takes five times longer than the one in float; that of
    the convolution takes less. Windows that count less at the border need known sizes.
    """
    source, made = node.inputs[0], node.outputs[0]
    if node.op_type != "AveragePool" or source is None or source.shape is None:
        return False
    if len(source.shape) != _PLANES or not isinstance(source.shape[1], int):
        return False
    if word(node, "auto_pad", "NOTSET") != "NOTSET" or integer(node, "ceil_mode", 0):
        return False
    if any(step != 1 for step in integers(node, "dilations")):
        return False
    if not counts_less(node):
        return True
    planes = [] if made.shape is None else [*source.shape[2:], *made.shape[2:]]
    return len(planes) == _PLANES and all(isinstance(size, int) for size in planes)


def counts_less(node: ir.Node) -> bool:
    """Whether an AveragePool divides by fewer where its window reaches over the border."""
    return any(integers(node, "pads")) and not integer(node, "count_include_pad", 0)


def averages_in_integers(node: ir.Node) -> bool:
    """Whether an AveragePool runs faster in integers: on planes as a convolution only."""
    source = node.inputs[0]
    rank = None if source is None or source.shape is None else len(source.shape)
    return rank != _PLANES or averages_planes(node)
