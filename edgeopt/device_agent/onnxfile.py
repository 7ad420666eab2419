"""As much of an ONNX file as the agent needs, read from its wire format: no onnx on the device.

Field numbers are those of onnx.proto3. Weights are skipped, not read.
"""

import hashlib
import mmap
import os

_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER = 1, 5
_NODE_NAME, _NODE_OPERATOR, _NODE_ATTRIBUTE, _NODE_DOMAIN = 3, 4, 5, 7
_ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPH, _ATTRIBUTE_TENSORS, _ATTRIBUTE_GRAPHS = 5, 6, 10, 11
_TENSOR_EXTERNAL = 13
_ENTRY_KEY, _ENTRY_VALUE = 1, 2


def size_bytes(path):
    """Bytes of the model file and of the external data files that it names."""
    return sum(os.path.getsize(name) for name in files(path))


def files(path):
    """The model file and, by name, the external data files that it names and that are there."""
    places = set()
    for graph in _graphs(path):
        places.update(_external(graph))
    folder = os.path.dirname(path)
    found = [path] + [os.path.join(folder, place) for place in sorted(places)]
    return [name for name in found if os.path.isfile(name)]


def domains(path):
    """(node name, operator) to the operator's domain, subgraphs included."""
    return {key: domain for key, (domain, _) in operators(path).items()}


def operators(path):
    """(node name, operator) to the operator's domain and a digest of its attributes.

    The digest is empty without attributes. Equal digests are equal attributes; graphs count too.
    """
    found = {}
    for graph in _graphs(path):
        for node in _all(graph, _GRAPH_NODE):
            key = _text(node, _NODE_NAME), _text(node, _NODE_OPERATOR)
            attributes = sorted(bytes(part) for part in _all(node, _NODE_ATTRIBUTE))
            found[key] = _text(node, _NODE_DOMAIN), attributes_digest(attributes)
    return found


def attributes_digest(attributes):
    """Twelve hexadecimal digits for sorted serialized attributes; empty for none."""
    if not attributes:
        return ""
    return hashlib.sha256(b"".join(attributes)).hexdigest()[:12]


def _graphs(path):
    """The main graph and, after it, every graph inside an attribute."""
    if os.path.getsize(path) == 0:
        return
    with open(path, "rb") as stream:
        # Never closed by hand: slices of it may be alive until the process ends.
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    waiting = _all(memoryview(data), _GRAPH)
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in _all(graph, _GRAPH_NODE):
            for attribute in _all(node, _NODE_ATTRIBUTE):
                waiting += _all(attribute, _ATTRIBUTE_GRAPH) + _all(attribute, _ATTRIBUTE_GRAPHS)


def _external(graph):
    """Locations of external data that the tensors of one graph name."""
    tensors = _all(graph, _GRAPH_INITIALIZER)
    for node in _all(graph, _GRAPH_NODE):
        for attribute in _all(node, _NODE_ATTRIBUTE):
            tensors += _all(attribute, _ATTRIBUTE_TENSOR) + _all(attribute, _ATTRIBUTE_TENSORS)
    for tensor in tensors:
        for entry in _all(tensor, _TENSOR_EXTERNAL):
            if _text(entry, _ENTRY_KEY) == "location":
                yield _text(entry, _ENTRY_VALUE)


def _all(message, number):
    """The sub-messages (or texts) of one field."""
    return [value for key, value in _fields(message) if key == number]


def _text(message, number):
    found = _all(message, number)
    return bytes(found[-1]).decode("utf-8", "replace") if found else ""


def _fields(message):
    """(number, bytes) of every length-delimited field of a message; other fields are skipped."""
    position, end = 0, len(message)
    while position < end:
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == 0:
            _, position = _varint(message, position)
        elif kind == 1:
            position += 8
        elif kind == 5:
            position += 4
        elif kind == 2:
            length, position = _varint(message, position)
            yield tag >> 3, message[position : position + length]
            position += length
        else:
            return


def _varint(message, position):
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 127) << shift
        position += 1
        if byte < 128:
            return value, position
        shift += 7
