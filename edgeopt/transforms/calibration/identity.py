"""What a value depends on, as a digest: its node, and everything before that.

Two graphs that differ in one place share the digests of all values that do not come after it, so
what was found out about a value holds in every graph that computes it in the same way.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, cast

import onnx_ir as ir


class Identity:
    """Digests of values; those of tensors are kept, since clones of a graph share them."""

    def __init__(self) -> None:
        self._tensors: dict[int, tuple[Any, bytes]] = {}

    def of_values(self, graph: ir.Graph) -> dict[str, str]:
        """Name to digest, for inputs, constants and results of the main graph.

        Args:
            graph: Sorted.
        """
        keys: dict[str, str] = {}
        for name, value in graph.initializers.items():
            keys[name] = self.of_tensor(value.const_value).hex()
        for value in graph.inputs:
            keys[value.name or ""] = f"input {value.name}"
        for node in graph:
            state = hashlib.sha256(self._described(node, keys))
            for index, output in enumerate(node.outputs):
                if output.name:
                    keys[output.name] = f"{state.hexdigest()}:{index}"
        return keys

    def of_tensor(self, tensor: Any) -> bytes:
        """Digest of a tensor's content."""
        held = self._tensors.get(id(tensor))
        if held is None or held[0] is not tensor:
            content = b"" if tensor is None else tensor.tobytes() + str(tensor.dtype).encode()
            shape = b"" if tensor is None else str(tensor.shape).encode()
            held = (tensor, hashlib.sha256(content + shape).digest())
            self._tensors[id(tensor)] = held
        return held[1]

    def _described(self, node: ir.Node, keys: Mapping[str, str]) -> bytes:
        """Operator, attributes, and what its inputs depend on, those of subgraphs included."""
        names = [None if value is None else value.name for value in node.inputs]
        inputs = [name and keys.get(name, name) for name in names]
        head = f"{node.domain}:{node.op_type}:{node.overload}{inputs}".encode()
        for name, attribute in sorted(node.attributes.items()):
            head += f";{name}=".encode()
            if attribute.type is ir.AttributeType.TENSOR:
                head += self.of_tensor(attribute.value)
            elif attribute.type is ir.AttributeType.GRAPH:
                head += self._inner(cast("ir.Graph", attribute.value), keys)
            else:
                head += repr(attribute.value).encode()
        return head

    def _inner(self, graph: ir.Graph, keys: Mapping[str, str]) -> bytes:
        own = {value.name for value in _made_inside(graph)}
        outer = {name: key for name, key in keys.items() if name not in own}
        held = graph.initializers.items()
        head = b"".join(f"{name}=".encode() + self.of_tensor(v.const_value) for name, v in held)
        head += b"".join(self._inside(node, outer) for node in graph)
        return head + repr([value.name for value in graph.outputs]).encode()

    def _inside(self, node: ir.Node, outer: Mapping[str, str]) -> bytes:
        outputs = repr([value.name for value in node.outputs]).encode()
        return self._described(node, outer) + outputs


def _made_inside(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs
