"""`Plan`: what every group of a graph would be, decided once for all of them.

Groups and scales depend on the float graph and its ranges alone, never on which groups are
quantized already: that is what makes the order of actions irrelevant. The plan of a graph lies
in the graph's metadata (which is not serialised), and goes with its clones.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.transforms.base import Evidence, Range, Rejection
from edgeopt.transforms.groups import (
    JOINING,
    MOVING,
    QUANTIZERS,
    Group,
    activations,
    fuses,
    groups,
    holds_groups,
    name_of,
)
from edgeopt.transforms.quantize._scale import Scale, gate_scale_of, scale_of

_KEY = "edgeopt.quantize.plan"
_METHOD = "edgeopt.quantize.range"
_SPAN_RATIO = 4.0
"""Values joined by Concat share a scale where none would lose more than two of its eight bits."""


@dataclass(kw_only=True)
class Plan:
    """Groups, ranges and shared scales of one float graph.

    Args:
        graph: Whose nodes `nodes` holds.
        nodes: By the name of their first output in the float graph.
        groups: By name.
        members: Names of all nodes in groups.
        ranges: By value name; values that share a scale share a range.
        digest: Of the artifact that the ranges come from.
        joined: Names of the Concats whose operands share a scale; the others stay float.
        fused: Names of the Relu and Clip nodes that disappear in the node before them.
        gated: How uint8 values before a HardSwish in integers are coded, by their name.
    """

    graph: ir.Graph
    nodes: dict[str, ir.Node]
    groups: dict[str, Group]
    members: frozenset[str]
    ranges: dict[str, Range]
    digest: str
    joined: frozenset[str] = frozenset()
    fused: frozenset[str] = frozenset()
    gated: dict[str, Scale] = field(default_factory=dict[str, Scale])
    _scales: dict[tuple[str, str], Scale] = field(default_factory=dict[tuple[str, str], Scale])

    def scale(self, name: str, dtype: str) -> Scale | None:
        """How a value is coded; None where calibration has no finite range of it."""
        if dtype == "uint8" and name in self.gated:
            return self.gated[name]
        key = (name, dtype)
        if key not in self._scales:
            if name not in self.ranges:
                return None
            self._scales[key] = scale_of(self.ranges[name], dtype)
        return self._scales[key]


def plan_of(model: ir.Model, action: Action, evidence: Evidence) -> Plan | Rejection:
    """The plan of a graph, computed where it holds no pairs yet, else the one that it came with."""
    graph = model.graph
    held = held_plan(graph)
    if holds_quantizers(graph) and held is not None:
        if held.graph is not graph:
            held = replace(held, graph=graph, nodes=_by_name(graph))
            graph.meta[_KEY] = held
        return held
    source = _float_form(model, evidence)
    if source is None:
        return Rejection(reason="the model came with quantizers of its own")
    method = method_held(graph) or "minmax"
    plan = _planned(source, action, evidence, method)
    plan = replace(plan, graph=graph, nodes=_by_name(graph))
    graph.meta[_KEY] = plan
    return plan


def _float_form(model: ir.Model, evidence: Evidence) -> ir.Model | None:
    """The graph without any quantizer; other transforms of the shelf may have been here first."""
    reference = evidence.reference
    if holds_groups(model.graph) and reference is not None:
        model = reference
    return None if holds_quantizers(model.graph) else model


def _planned(model: ir.Model, action: Action, evidence: Evidence, method: str) -> Plan:
    found = groups(model)
    members = frozenset(name for group in found for name in group.nodes)
    nodes = _by_name(model.graph)
    names = sorted(_coded_values(nodes[name] for name in members))
    ranges, digest = evidence.ranges(model, names, action.artifact("ranges"), method=method)
    plan = Plan(
        graph=model.graph,
        nodes=nodes,
        groups={group.name: group for group in found},
        members=members,
        ranges=dict(ranges),
        digest=digest,
    )
    _share(plan)
    return plan


def holds_quantizers(graph: ir.Graph) -> bool:
    """Whether any node of the main graph converts to or from integer codes."""
    return any(node.op_type in QUANTIZERS for node in graph)


def hold_method(graph: ir.Graph, method: str) -> None:
    """Let the plan that is made of a graph take its ranges by another method than extremes."""
    graph.meta[_METHOD] = method


def method_held(graph: ir.Graph) -> str | None:
    """The range method that was chosen for a graph."""
    return graph.meta.get(_METHOD)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]


def held_plan(graph: ir.Graph) -> Plan | None:
    """The plan that a graph came with; stale once the graph holds no pairs any more."""
    return graph.meta.get(_KEY)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]


def _by_name(graph: ir.Graph) -> dict[str, ir.Node]:
    return {name_of(node.outputs[0]): node for node in graph if node.op_type not in QUANTIZERS}


def _coded_values(nodes: Iterable[ir.Node]) -> set[str]:
    """Names of all values that could stand behind a pair."""
    found: set[str] = set()
    for node in nodes:
        found |= {name_of(value) for _, value in activations(node)}
        found |= {name_of(output) for output in node.outputs}
    return found


def _share(plan: Plan) -> None:
    """Give values one range where codes pass from one to the other unchanged."""
    owner = dict.fromkeys(plan.members, 0)
    fused = {name for name in plan.members if fuses(plan.nodes[name], owner)}
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while (above := parent.get(name, name)) != name:
            name = above
        return name

    def join(names: Iterable[str]) -> None:
        roots = dict.fromkeys(root(name) for name in names)
        together = [plan.ranges[name] for name in roots]
        first = next(iter(roots))
        parent.update(dict.fromkeys(roots, first))
        plan.ranges[first] = _union(together)

    joined: set[str] = set()
    for name, node in plan.nodes.items():
        if name not in plan.members or node.op_type not in MOVING | JOINING:
            continue
        values = [name_of(value) for _, value in activations(node)]
        values += [name_of(output) for output in node.outputs]
        if any(value not in plan.ranges for value in values):
            continue
        if node.op_type in JOINING:
            clipped = any(value in fused for value in values)
            if not _compatible([plan.ranges[root(value)] for value in values], clipped):
                continue
            joined.add(name)
        join(values)
    plan.ranges.update({name: plan.ranges[root(name)] for name in list(parent)})
    for name in plan.members:
        if plan.nodes[name].op_type == "Sigmoid":
            plan.ranges[name] = Range(low=0.0, high=1.0)
    for name in plan.members:
        node = plan.nodes[name]
        if node.op_type == "HardSwish" and (source := node.inputs[0]) is not None:
            found = plan.ranges.get(name_of(source))
            scale = None if found is None else gate_scale_of(found)
            if scale is not None:
                plan.gated[name_of(source)] = scale
    plan.joined, plan.fused = frozenset(joined), frozenset(fused)


def _union(ranges: Iterable[Range]) -> Range:
    found = list(ranges)
    return Range(low=min(r.low for r in found), high=max(r.high for r in found))


def _compatible(ranges: list[Range], clipped: bool) -> bool:
    """Whether values may share a scale; a fused Relu needs the code of zero to be the lowest."""
    spans = [max(r.high, 0.0) - min(r.low, 0.0) for r in ranges]
    if clipped and any(r.low < 0.0 for r in ranges):
        return False
    return max(spans) <= _SPAN_RATIO * max(min(spans), 1e-30)
