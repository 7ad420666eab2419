"""What a weight is, in one short text: its content, or how a rule computed it."""

import hashlib
from weakref import WeakKeyDictionary

import onnx_ir as ir

from edgeopt.core import digest as digests

_KNOWN: "WeakKeyDictionary[ir.TensorProtocol, str]" = WeakKeyDictionary()


def label_of(tensor: ir.TensorProtocol) -> str:
    """The same text for tensors of the same content; each is read at most once."""
    found = _KNOWN.get(tensor)
    if found is None:
        found = text_hash("weight", digests.of_array(tensor.numpy()))
        _KNOWN[tensor] = found
    return found


def name_expression(tensor: ir.TensorProtocol, text: str) -> None:
    """Let a tensor be known by how it is computed, so that nobody has to."""
    _KNOWN[tensor] = text


def text_hash(*parts: str) -> str:
    """24 hexadecimal digits."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()
