"""Weights of matrix products as 4- or 8-bit codes, one scale a block of consecutive inputs.

The product becomes `MatMulNBits` of `com.microsoft`
(https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md): codes [N, blocks,
block * bits / 8] with the middle code as zero, scales [N * blocks]. For size: an eighth or a
quarter of the float weight. With accuracy level 4 the kernel also codes the activation in 8 bits,
block by block. Not faster where time goes into arithmetic: 0.9 times the speed of float on a
three-layer BERT with 32 tokens (one thread, x86 with VNNI). Must not fire on sums shorter than a
block, nor on what `dynamic_matmul` refuses.
"""

import numpy as np
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of, new_node
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.groups import hold_groups, name_of
from edgeopt.transforms.local_rule import refuse
from edgeopt.transforms.quantize._codes import Array
from edgeopt.transforms.quantize._kept import remembered
from edgeopt.transforms.quantize._products import (
    bias_added,
    depth,
    factor_of,
    is_turned,
    products_of,
    sites_of_products,
    weight_of,
)

NAME = "weight_only_blocks"
BLOCK = 32
LEAST_DEPTH = 128
"""Below it the scales and the padding of the last block take what the codes save."""
_DOMAIN = "com.microsoft"
_ACCURACY_LEVEL = 4


class WeightOnlyBlocks:
    """Few bits a weight, one scale a block."""

    version = 1
    needs_data = False
    whole_model = False
    scheme = "weight_only"

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """Eight and four bits for every group that has long float products."""
        if offer.profile.quantization is None or not offer.contrib:
            return ()
        level = _ACCURACY_LEVEL
        return tuple(
            Action.of(NAME, site, bits=bits, block=BLOCK, accuracy_level=level)
            for site in sites_of_products(model, LEAST_DEPTH)
            for bits in (8, 4)
        )

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Replace every long product of the group."""
        del evidence
        hold_groups(editor.model)
        found = products_of(editor.model, action.site)
        if isinstance(found, Rejection):
            return found
        long = [node for node in found if depth(node) >= LEAST_DEPTH]
        if not long:
            return refuse(f"its sums are shorter than {LEAST_DEPTH}", *found)
        for node in long:
            if not _quantize(editor, node, action):
                return refuse("its weight is not finite", node)
        return action


PLUGIN = WeightOnlyBlocks()


def _quantize(editor: Editor, node: ir.Node, action: Action) -> bool:
    made, bits, block = node.outputs[0], int(action.get("bits")), int(action.get("block"))
    weight, turned, factor = weight_of(node), is_turned(node), factor_of(node)
    array = array_of(weight)
    assert array is not None, "it is a product with a constant weight"
    if not np.isfinite(array).all():
        return False
    matrix = array if turned else array.T
    codes, scales = remembered(
        ir.convenience.get_const_tensor(weight),
        ("blocks", turned, bits, block, float(factor)),
        lambda: packed(matrix * factor, bits, block),
    )
    name = name_of(made)
    role = f"{name}__weight{bits}x{block}"
    values = [
        node.inputs[0],
        editor.initializer(role, codes),
        editor.initializer(f"{role}_scales", scales),
    ]
    attributes = {
        "K": matrix.shape[1],
        "N": matrix.shape[0],
        "bits": bits,
        "block_size": block,
        "accuracy_level": int(action.get("accuracy_level")),
    }
    product = new_node(
        "MatMulNBits",
        values,
        output=f"{name}__product",
        attributes=attributes,
        domain=_DOMAIN,
        like=made,
    )
    nodes = [product, *bias_added(editor, node, product.outputs[0])]
    editor.import_domain(_DOMAIN, 1)
    editor.insert(nodes, before=node)
    editor.replace_value(made, nodes[-1].outputs[0])
    editor.remove_dead([node])
    return True


def packed(weight: Array, bits: int, block: int) -> tuple[Array, Array]:
    """Codes [N, blocks, block * bits / 8] uint8, low bits first, and scales [N * blocks].

    Args:
        weight: [N, K], float32.
        bits: 4 or 8.
        block: Elements of K that share a scale; the last block is filled up with zeros.
    """
    rows, given = weight.shape
    blocks = -(-given // block)
    padded = np.zeros((rows, blocks * block), np.float32)
    padded[:, :given] = weight
    parts = padded.reshape(rows, blocks, block)
    middle = 1 << (bits - 1)
    # The extreme of a block gets the lowest code, which reaches one step further than the highest.
    extreme = np.take_along_axis(parts, np.abs(parts).argmax(axis=2)[..., None], axis=2)
    scales = np.where(np.abs(extreme) < 1e-30, np.float32(1.0), extreme / -middle)
    codes = np.clip(np.rint(parts / scales) + middle, 0, 2 * middle - 1).astype(np.uint8)
    if bits == 4:
        codes = codes[..., 0::2] | (codes[..., 1::2] << 4)
    return np.ascontiguousarray(codes), scales.reshape(-1).astype(np.float32)
