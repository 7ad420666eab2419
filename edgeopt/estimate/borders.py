"""Between which choices a value passes: where one is on and the other off, precision changes."""

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from edgeopt.core.action import Choice
from edgeopt.transforms.groups import activations, groups, name_of

_PASSING = 3
"""Nodes outside of any group that a border is looked for behind."""


def borders(graph: ir.Model, choices: Sequence[Choice]) -> frozenset[tuple[int, int]]:
    """Pairs of quantize choices, the smaller index first, whose groups are neighbours.

    Neighbours are groups where one reads what the other makes, directly or through a few nodes
    that belong to no group, and groups that read one value.
    """
    owner = _owners(graph, choices)
    found: set[tuple[int, int]] = set()
    readers: dict[str, set[int]] = {}
    for node in graph.graph:
        mine = owner.get(name_of(node.outputs[0])) if node.outputs else None
        if mine is None:
            continue
        for _, value in activations(node):
            readers.setdefault(name_of(value), set()).add(mine)
            for other in _makers(value, owner, _PASSING):
                if other != mine:
                    found.add((min(mine, other), max(mine, other)))
    for together in readers.values():
        ordered = sorted(together)
        found |= {(a, b) for k, a in enumerate(ordered) for b in ordered[k + 1 :]}
    return frozenset(found)


def _owners(graph: ir.Model, choices: Sequence[Choice]) -> dict[str, int]:
    """Value name to the quantize choice that decides the precision of the node that makes it."""
    members = {group.name: group.nodes for group in groups(graph)}
    owner: dict[str, int] = {}
    for index, choice in enumerate(choices):
        if choice.family != "quantize":
            continue
        sites = {action.site for actions in choice.alternatives for action in actions}
        for site in sorted(sites):
            for name in members.get(site, (site,)):
                owner.setdefault(name, index)
    return owner


def _makers(value: ir.Value, owner: dict[str, int], depth: int) -> Iterator[int]:
    node = value.producer()
    if node is None:
        return
    mine = owner.get(name_of(value))
    if mine is not None:
        yield mine
    elif depth:
        for _, before in activations(node):
            yield from _makers(before, owner, depth - 1)
