"""What must hold before a graph is opened: known operators, names given once, no cycle.

The runtime takes graphs that are not topologically sorted, so order is no error here. Empty and
repeated *node* names are none either (`normalize` gives new ones); repeated *value* names are:
which of the two a reader means cannot be known.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter

import onnx
from onnx import defs

from edgeopt.errors import ModelError
from edgeopt.graph import files
from edgeopt.graph.stand_ins import NORMS

RUNTIME_DOMAINS = frozenset(
    {
        "com.microsoft",
        "com.microsoft.experimental",
        "com.microsoft.nchwc",
        "com.ms.internal.nhwc",
        "org.pytorch.aten",
    }
)
"""Domains of the runtime itself: their operators are known to it, not to the onnx package."""

_Scope = onnx.GraphProto | onnx.FunctionProto


def check_wellformed(model: onnx.ModelProto, *, where: str = "", custom_ops: bool = False) -> None:
    """Refuse what cannot be worked with.

    Args:
        model: As it was parsed.
        where: The file, for messages.
        custom_ops: Accept operators of unknown domains (a library with them will be loaded).

    Raises:
        ModelError: An unknown operator, a value defined twice or nowhere, or a cycle.
    """
    opsets = {_domain(entry.domain): entry.version for entry in model.opset_import}
    functions = {(_domain(f.domain), f.name) for f in model.functions}
    newest = defs.onnx_opset_version()
    if opsets.get("", 0) > newest:
        raise ModelError(
            f"the model needs operator set {opsets['']}, the installed onnx package knows {newest}",
            where=where,
            hint="upgrade onnx and onnxruntime, or export with a lower opset_version",
        )
    for nodes, imports in _bodies(model, opsets):
        for node in nodes:
            _check_operator(node, imports, functions, where, custom_ops=custom_ops)
    _check_scope(model.graph, frozenset(), where)
    for function in model.functions:
        _check_scope(function, frozenset(), where)


def _bodies(
    model: onnx.ModelProto, opsets: dict[str, int]
) -> Iterable[tuple[Sequence[onnx.NodeProto], dict[str, int]]]:
    for graph in _nested(model.graph.node):
        yield graph, opsets
    for function in model.functions:
        own = {_domain(entry.domain): entry.version for entry in function.opset_import}
        for nodes in _nested(function.node):
            yield nodes, {**opsets, **own}


def _nested(nodes: Sequence[onnx.NodeProto]) -> Iterable[Sequence[onnx.NodeProto]]:
    yield nodes
    for graph in files.subgraphs(nodes):
        yield from _nested(graph.node)


@cache
def _standard_domains() -> frozenset[str]:
    return frozenset(schema.domain for schema in defs.get_all_schemas_with_history())


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _check_operator(
    node: onnx.NodeProto,
    opsets: dict[str, int],
    functions: set[tuple[str, str]],
    where: str,
    *,
    custom_ops: bool,
) -> None:
    domain = _domain(node.domain)
    if (domain, node.op_type) in functions or domain in RUNTIME_DOMAINS:
        return
    if not domain and node.op_type in NORMS:
        return
    label = _label(node)
    if domain not in _standard_domains():
        if custom_ops:
            return
        raise ModelError(
            f"{label} has the unknown operator {node.op_type!r} of the domain {domain!r}",
            where=where,
            hint="if a library implements it, name the library with --custom-ops",
        )
    if domain not in opsets:
        raise ModelError(
            f"{label} uses the domain {domain or 'ai.onnx'!r}, but the model does not say which"
            " version of it",
            where=where,
            hint="export the model again; its opset_import is incomplete",
        )
    if not defs.has(node.op_type, opsets[domain], domain):
        raise ModelError(
            f"{label} has the unknown operator {node.op_type!r}: it is not in operator set"
            f" {opsets[domain]} of {domain or 'ai.onnx'!r}",
            where=where,
            hint="check the exporter's opset_version; an operator of your own belongs into a domain"
            " of its own",
        )


def _check_scope(scope: _Scope, outer: frozenset[str], where: str) -> None:
    given = _given(scope)
    made = [name for node in scope.node for name in node.output if name]
    repeated = [name for name, count in Counter([*given, *made]).items() if count > 1]
    if repeated:
        raise ModelError(
            f"the value {repeated[0]!r} is defined {Counter([*given, *made])[repeated[0]]} times",
            where=where,
            hint="every value needs a name of its own: export the model again",
        )
    visible = outer | set(given) | set(made)
    for node in scope.node:
        missing = [name for name in node.input if name and name not in visible]
        if missing:
            raise ModelError(
                f"{_label(node)} reads {missing[0]!r}, which no node, input or initializer defines",
                where=where,
                hint="the model is damaged or was cut out of a larger one: export it again",
            )
        for inner in files.subgraphs([node]):
            _check_scope(inner, visible, where)
    _check_outputs(scope, visible, where)
    _check_cycle(scope, where)


def _given(scope: _Scope) -> list[str]:
    if isinstance(scope, onnx.FunctionProto):
        return list(scope.input)
    # An initializer that is also an input is one value: a default for the input.
    names = [info.name for info in scope.input]
    held = [t.name for t in scope.initializer] + [t.values.name for t in scope.sparse_initializer]
    inputs = set(names)
    return names + [name for name in held if name not in inputs]


def _check_outputs(scope: _Scope, visible: frozenset[str] | set[str], where: str) -> None:
    if isinstance(scope, onnx.FunctionProto):
        names = list(scope.output)
    else:
        names = [info.name for info in scope.output]
    for name in names:
        if name not in visible:
            raise ModelError(
                f"the output {name!r} is computed nowhere",
                where=where,
                hint="the model is damaged or was cut out of a larger one: export it again",
            )


def _check_cycle(scope: _Scope, where: str) -> None:
    maker = {name: index for index, node in enumerate(scope.node) for name in node.output if name}
    reads = {
        index: {maker[name] for name in _reads(node) if name in maker}
        for index, node in enumerate(scope.node)
    }
    try:
        TopologicalSorter(reads).prepare()
    except CycleError as error:
        nodes: list[int] = error.args[1]
        names = " -> ".join(_label(scope.node[index]) for index in nodes[:4])
        raise ModelError(
            f"the graph has a cycle: {names}",
            where=where,
            hint="two values may have been given one name: export the model again",
        ) from error


def _reads(node: onnx.NodeProto) -> set[str]:
    """Names that a node reads, those that its subgraphs capture included."""
    names = set(node.input)
    for graph in files.subgraphs([node]):
        inner = {name for child in graph.node for name in _reads(child)}
        inner |= {info.name for info in graph.output}
        own = {*_given(graph), *(name for child in graph.node for name in child.output)}
        names |= inner - own
    return names


def _label(node: onnx.NodeProto) -> str:
    name = node.name or (node.output[0] if node.output else "")
    return f"node {name!r} ({node.op_type})"
