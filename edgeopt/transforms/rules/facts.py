"""What the rewriter tells rules about values and nodes of an onnx_ir graph."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

import onnx
import onnx_ir as ir
from onnx import defs

from edgeopt.graph.editor import array_of
from edgeopt.transforms.rules.sizes import FREE, Array, Facts, Refused, Size
from edgeopt.transforms.rules.terms import Attribute, Const, Node, Tensor

_DTYPES: Mapping[ir.DataType, str] = {
    ir.DataType.FLOAT: "float32",
    ir.DataType.DOUBLE: "float64",
    **{d: d.name.lower() for d in ir.DataType if d.name.startswith(("INT", "UINT", "BOOL"))},
    **{d: d.name.lower() for d in ir.DataType if d.name.startswith(("FLOAT16", "BFLOAT16"))},
}
_IMPLIED = {"strides": 1, "dilations": 1}
"""Per spatial axis, what a window's attribute means where it is left out."""


def dtype_of(value: ir.Value) -> str | None:
    """Element type as numpy calls it; None where it is not known."""
    found = value.dtype
    return None if found is None else _DTYPES.get(found, found.name.lower())


def is_constant(value: ir.Value) -> bool:
    """Whether a value is the same in every run: an initializer that is no input, or a Constant."""
    if value.const_value is not None:
        return not value.is_graph_input()
    made = value.producer()
    return made is not None and made.op_type == "Constant" and not made.domain


def bound(variable: Tensor, value: ir.Value) -> Tensor:
    """A variable of a pattern with what is known about the value it stands for."""
    shape = value.shape
    sizes: tuple[Size, ...] | None = None
    if shape is not None:
        sizes = tuple(s if isinstance(s, int) else s.value or FREE for s in shape)
    load: Callable[[], Array] | None = None
    if is_constant(value):
        load = _loader(value)
        if sizes is None:
            sizes = load().shape
    made = value.producer()
    maker = "" if made is None or made.domain else made.op_type
    facts = Facts(value, dtype_of(value), sizes, load, maker)
    kind = Const if isinstance(variable, Const) else Tensor
    return kind(variable.name, optional=variable.optional, facts=facts)


def node_of(node: ir.Node, version: int, *, swapped: bool = False) -> Node:
    """A node's attributes, with what its operator's schema says about those left out.

    Args:
        node: The node.
        version: Of the default operator set.
        swapped: Whether its operands stand the other way round than in the pattern.
    """
    written = attributes_of(node)

    def default(name: str) -> Any:
        known = _defaults(node.op_type, node.domain, version)
        if name not in known:
            raise Refused(f"{node.op_type} of opset {version} has no attribute {name}")
        found = known[name]
        return _implied(node, name) if found is None else found

    return Node(node.op_type, written, default, domain=node.domain, key=node, swapped=swapped)


def attributes_of(node: ir.Node) -> dict[str, Attribute]:
    """Attributes as Python values; graphs and tensors are left out."""
    return {
        name: plain(attribute)
        for name, attribute in node.attributes.items()
        if attribute.type not in _OPAQUE and not attribute.is_ref()
    }


def is_plain(node: ir.Node) -> bool:
    """Whether a node can be written again from what `attributes_of` says."""
    return all(a.type not in _OPAQUE and not a.is_ref() for a in node.attributes.values())


def default_of(op_type: str, domain: str, version: int, name: str) -> Any:
    """What an attribute means where it is left out; None where that is for the node to say."""
    return _defaults(op_type, domain, version).get(name)


def plain(attribute: ir.Attr) -> Attribute:
    """An attribute's value; lists as tuples."""
    return _unlisted(attribute.value)


def _unlisted(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(cast("list[Any]", value))
    return value


_OPAQUE = frozenset(
    {
        ir.AttributeType.GRAPH,
        ir.AttributeType.GRAPHS,
        ir.AttributeType.TENSOR,
        ir.AttributeType.TENSORS,
        ir.AttributeType.SPARSE_TENSOR,
        ir.AttributeType.SPARSE_TENSORS,
        ir.AttributeType.TYPE_PROTO,
        ir.AttributeType.TYPE_PROTOS,
    }
)


@lru_cache(maxsize=2048)
def _defaults(op_type: str, domain: str, version: int) -> Mapping[str, Any]:
    if not defs.has(op_type, version, domain):
        return {}
    schema = defs.get_schema(op_type, version, domain)
    return {name: _default(each) for name, each in schema.attributes.items()}


def _default(attribute: Any) -> Any:
    proto: onnx.AttributeProto = attribute.default_value
    if proto.type == onnx.AttributeProto.UNDEFINED:
        return None
    found: Any = ir.from_proto(proto)
    return _unlisted(found.value)


def _implied(node: ir.Node, name: str) -> Any:
    """One number a spatial axis, for the windows of convolutions and pooling."""
    spatial = _spatial(node)
    if name in _IMPLIED:
        return (_IMPLIED[name],) * spatial
    if name in {"pads", "output_padding"}:
        return (0,) * (2 * spatial if name == "pads" else spatial)
    if name == "kernel_shape":
        weight = node.inputs[1] if len(node.inputs) > 1 else None
        if weight is None or weight.shape is None:
            raise Refused("its kernel is not known")
        return tuple(size for size in weight.shape[2:] if isinstance(size, int))
    return None


def _spatial(node: ir.Node) -> int:
    written = node.attributes.get("kernel_shape")
    if written is not None:
        return len(written.as_ints())
    for value in node.inputs[1::-1]:
        if value is not None and value.shape is not None:
            return len(value.shape) - 2
    raise Refused(f"the rank of what {node.op_type} reads is not known")


def _loader(value: ir.Value) -> Callable[[], Array]:
    def load() -> Array:
        found = array_of(value)
        if found is None:
            raise Refused(f"the value of {value.name!r} is not at hand")
        return found

    return load
