"""Dynamic quantization of the matrix products of one group: ranges are found at run time.

x @ W becomes float(DynamicQuantizeLinear(x) @ codes) * (scale of x * scale of W), plus the bias of
a Gemm. The runtime fuses this to MatMulIntegerToFloat or DynamicQuantizeMatMul. Weights are signed
with one scale a channel where the device says so; products that read one value share its codes.
Standard operators only; needs no data. On a three-layer BERT (32 tokens, one thread of a processor
with VNNI and AMX, interleaved, processor time) 1.9 to 2.1 times as fast as float; the runtime's
tool with unsigned weights 1.2. Must not fire on a transposed activation, on a weight that is no
float32 matrix, or below opset 11 (no DynamicQuantizeLinear).
"""

import numpy as np
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.bodies import owner
from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.groups import hold_groups, name_of, through
from edgeopt.transforms.local_rule import opset_of, refuse
from edgeopt.transforms.quantize._codes import Kind, coded_weight
from edgeopt.transforms.quantize._products import (
    bias_added,
    factor_of,
    is_turned,
    products_of,
    sites_of_products,
    weight_of,
)

NAME = "dynamic_matmul"
OPSET_NEEDED = 11


class DynamicMatMul:
    """Integer products with a float result; the activation's range is that of the sample."""

    version = 1
    needs_data = False
    whole_model = False
    scheme = "dynamic_int8"

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action a group that has float products, in the device's weight type."""
        types = offer.profile.quantization
        if types is None or types.symmetric or opset_of(model) < OPSET_NEEDED:
            return ()
        return tuple(Kind.action(NAME, site, types) for site in sites_of_products(model))

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Replace every product of the group that has a constant matrix."""
        del evidence
        if opset_of(editor.model) < OPSET_NEEDED:
            return Rejection(reason=f"DynamicQuantizeLinear needs opset {OPSET_NEEDED}")
        hold_groups(editor.model)
        found = products_of(editor.model, action.site)
        if isinstance(found, Rejection):
            return found
        for node in found:
            if not _quantize(editor, node, Kind.asked(action)):
                return refuse("its weight is not finite", node)
        return action


PLUGIN = DynamicMatMul()


def _quantize(editor: Editor, node: ir.Node, kind: Kind) -> bool:
    """Put the integer product in the place of a node; False where the weight is not finite."""
    made = node.outputs[0]
    constants = _constants(editor, node, kind)
    if constants is None:
        return False
    codes, scale, zero = constants
    name, quantize = name_of(made), _codes_of(editor, node)
    sums = new_node(
        "MatMulInteger",
        [quantize.outputs[0], codes, quantize.outputs[2], zero],
        output=f"{name}__integer",
    )
    sums.outputs[0].type, sums.outputs[0].shape = ir.TensorType(ir.DataType.INT32), made.shape
    to_float = {"to": ir.DataType.FLOAT.value}
    cast = new_node("Cast", sums.outputs, output=f"{name}__sum", attributes=to_float, like=made)
    both = new_node("Mul", [quantize.outputs[1], scale], output=f"{name}__scales")
    both.outputs[0].type, both.outputs[0].shape = scale.type, scale.shape
    factors = [cast.outputs[0], both.outputs[0]]
    product = new_node("Mul", factors, output=f"{name}__product", like=made)
    nodes = [sums, cast, both, product, *bias_added(editor, node, product.outputs[0])]
    editor.insert(nodes, before=node)
    editor.replace_value(made, nodes[-1].outputs[0])
    editor.remove_dead([node])
    return True


def _codes_of(editor: Editor, node: ir.Node) -> ir.Node:
    """The DynamicQuantizeLinear of what a node reads; one serves all users in the same graph.

    Not those of other bodies: the runtime fuses it into the product within one graph only.
    """
    value, graph = node.inputs[0], editor.graph
    assert value is not None, "it is a product"
    for user, _ in value.uses():
        if user.op_type == "DynamicQuantizeLinear" and user.graph is graph:
            return user
    name = f"{name_of(through(value))}__dynamic"
    inner = owner(value) is not graph
    if inner:
        name = f"{name_of(node.outputs[0])}__{name}"
    made = ir.node("DynamicQuantizeLinear", [value], num_outputs=3, name=name)
    codes, scale, zero = made.outputs
    codes.name, codes.type, codes.shape = f"{name}_codes", ir.TensorType(_UINT8), value.shape
    scale.name, scale.type, scale.shape = f"{name}_scale", ir.TensorType(_FLOAT), ir.Shape(())
    zero.name, zero.type, zero.shape = f"{name}_zero", ir.TensorType(_UINT8), ir.Shape(())
    producer = value.producer()
    if producer is not None and not inner:
        editor.insert_after([made], after=producer)
    else:
        editor.insert([made], before=next(iter(graph)))
    return made


_UINT8, _FLOAT = ir.DataType.UINT8, ir.DataType.FLOAT


def _constants(
    editor: Editor, node: ir.Node, kind: Kind
) -> tuple[ir.Value, ir.Value, ir.Value] | None:
    """Codes [K, N], scale and zero point; named after the weight, so that its users share them."""
    weight, turned, factor = weight_of(node), is_turned(node), factor_of(node)
    coded = coded_weight(weight, kind, (0 if turned else 1,))
    if coded is None:
        return None
    role = f"{weight.name}__{kind.tag}{'_turned' if turned else ''}"
    named, scale = f"{role}_scale", coded.scale
    if factor != 1.0:
        named, scale = f"{name_of(node.outputs[0])}__{kind.tag}_scale", coded.scale * factor
    return (
        editor.initializer(role, coded.codes.T if turned else coded.codes),
        editor.initializer(named, np.asarray(scale, np.float32)),
        editor.initializer(f"{role}_zero", coded.zero),
    )
