"""What the policy sees of a plan: nodes (choices), edges between them, candidates, globals.

All figures are squashed, so that one scale fits models with ten and with a hundred choices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from edgeopt.search.policy.tables import (
    FAMILIES,
    MACROS,
    Edits,
    Floats,
    Instance,
    Ints,
    Tables,
    picked,
)

Array = npt.NDArray[np.float32]
_KINDS = len(FAMILIES)
NODE, CANDIDATE, GLOBAL = 12 + _KINDS, 12 + _KINDS, 14 + 2 * _KINDS


@dataclass(frozen=True)
class Observation:
    """Inputs of the network.

    Args:
        node: [B, L, NODE].
        exists: [B or 1, L, 1]: 0 for padding.
        near, border: Averages over neighbours, plain and by what their border costs
            [B or 1, L, L].
        candidate: [B, C, CANDIDATE].
        members: [B or 1, C, L].
        valid: [B, C], 1 for what may be chosen.
        whole: [B, GLOBAL].
    """

    node: Array
    exists: Array
    near: Array
    border: Array
    candidate: Array
    members: Array
    valid: Array
    whole: Array

    def arrays(self) -> Mapping[str, Array]:
        """By name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True)
class Static:
    """What no step changes, by instance [N, ...]."""

    node: Array
    exists: Array
    near: Array
    border: Array
    candidate: Array
    there: npt.NDArray[np.bool_]
    whole: Array
    last: Floats
    """The highest code of each choice, at least 1."""

    def take(self, index: Ints) -> "Static":
        """Those of some instances, in that order."""
        return Static(*(getattr(self, each.name)[index] for each in fields(self)))


@dataclass(frozen=True)
class Seen:
    """A state, evaluated by the shown tables."""

    codes: Ints
    preference: Floats
    left: Floats
    values: Floats
    utility: Floats
    changed: Floats
    border: Floats
    gained: Floats


def squashed(values: Floats, scale: float = 20.0) -> Floats:
    """Linear near 0, logarithmic beyond."""
    return np.asarray(np.arcsinh(scale * values) / 2, dtype=np.float64)


def static_of(instances: Sequence[Instance], tables: Tables, edits: Edits) -> Static:
    """Of padded instances."""
    length = tables.cost.shape[1]
    exists = np.zeros((len(instances), length))
    counts = np.ones((len(instances), length))
    families = np.full((len(instances), length), _KINDS - 1)
    for n, one in enumerate(instances):
        exists[n, : len(one.counts)] = 1.0
        counts[n, : len(one.counts)] = one.counts
        families[n, : len(one.families)] = one.families
    near, border = _neighbours(tables, exists)
    member = np.eye(_KINDS)[families] * exists[:, :, None]
    order: Floats = np.arange(length, dtype=np.float64)
    place: Floats = order / np.maximum(exists.sum(axis=1), 1)[:, None]
    node: list[Floats] = [
        squashed(tables.cost.min(axis=2)),
        squashed(np.where(tables.damage > 0, tables.damage, np.inf).min(axis=2, initial=9.9), 5.0),
        squashed(tables.size.min(axis=2)),
        squashed(tables.edges.sum(axis=2)),
        place,
        np.log2(counts) / 2,
    ]
    nodes = np.concatenate([np.stack(node, axis=2), member], axis=2) * exists[:, :, None]
    return Static(
        node=nodes.astype(np.float32),
        exists=exists[:, :, None].astype(np.float32),
        near=near.astype(np.float32),
        border=border.astype(np.float32),
        candidate=_candidates(edits, counts, member, exists).astype(np.float32),
        there=_there(edits),
        whole=_fingerprint(instances, tables, member, exists).astype(np.float32),
        last=np.maximum(counts - 1, 1),
    )


def _neighbours(tables: Tables, exists: Floats) -> tuple[Floats, Floats]:
    """Borders and the order of the choices; and the borders by what they cost."""
    length = exists.shape[1]
    chain = (np.eye(length, k=1) + np.eye(length, k=-1))[None] * exists[:, :, None]
    joined = np.maximum((tables.edges != 0).astype(np.float64), chain * exists[:, None, :])
    degree = np.maximum(joined.sum(axis=2, keepdims=True), 1.0)
    return joined / degree, squashed(tables.edges) / np.sqrt(degree)


def _candidates(edits: Edits, counts: Floats, member: Floats, exists: Floats) -> Floats:
    """[N, C, 6 + families]: STOP, macro, code, number of alternatives, size, off; families."""
    rows, single = edits.choice.shape
    found = np.zeros((rows, 1 + single + MACROS, 6 + _KINDS))
    found[:, 0, 0] = 1.0
    own = np.take_along_axis(counts, edits.choice, axis=1)
    found[:, 1 : 1 + single, 2] = edits.code / np.maximum(own - 1, 1)
    found[:, 1 : 1 + single, 3] = np.log2(own) / 2
    found[:, 1 : 1 + single, 5] = edits.code == 0
    found[:, 1 + single :, 1] = 1.0
    found[:, 1 + single :, 5] = edits.macro.max(axis=2) <= 0
    share = (edits.macro >= 0).sum(axis=2) / np.maximum(exists.sum(axis=1), 1)[:, None]
    found[:, 1 + single :, 4] = share
    found[:, :, 6:] = (edits.members > 0) @ member
    found[:, :, 6:] /= np.maximum(found[:, :, 6:].sum(axis=2, keepdims=True), 1.0)
    return found


def _there(edits: Edits) -> npt.NDArray[np.bool_]:
    stop = np.ones((len(edits.choice), 1), np.bool_)
    return np.concatenate([stop, edits.single, edits.kind >= 0], axis=1)


def _fingerprint(
    instances: Sequence[Instance], tables: Tables, member: Floats, exists: Floats
) -> Floats:
    """Device and model in figures: best gains and damages by family, borders, what loses."""
    gains = np.minimum(tables.cost.min(axis=2), 0.0)
    hurts = tables.damage.max(axis=2)
    by_family = (gains[:, :, None] * member).sum(axis=1)
    measured = np.array([one.measured for one in instances])
    count = np.maximum(exists.sum(axis=1), 1)
    borders = np.abs(tables.edges).sum(axis=(1, 2)) / 2
    others = [
        np.log1p(measured) / 5,
        count / 50,
        squashed(gains.sum(axis=1), 3.0),
        squashed(borders, 3.0),
        np.minimum(borders / np.maximum(-gains.sum(axis=1), 1e-6), 5.0) / 5,
        squashed(hurts.sum(axis=1), 1.0),
    ]
    shares = member.sum(axis=1) / count[:, None]
    return np.concatenate([np.stack(others, axis=1), squashed(by_family, 3.0), shares], axis=1)


def observed(tables: Tables, edits: Edits, static: Static, seen: Seen) -> Observation:
    """An observation of B plans."""
    return Observation(
        node=_nodes(tables, static, seen),
        exists=static.exists,
        near=static.near,
        border=static.border,
        candidate=_moves(static, seen),
        members=edits.members,
        valid=_valid(edits, static, seen.codes).astype(np.float32),
        whole=_globals(static, seen),
    )


def _nodes(tables: Tables, static: Static, seen: Seen) -> Array:
    on = (seen.codes > 0).astype(np.float64)
    now = [
        on,
        seen.codes / static.last,
        squashed(picked(tables.cost, seen.codes)),
        squashed(picked(tables.damage, seen.codes), 5.0),
        squashed(picked(tables.size, seen.codes)),
        squashed((tables.edges @ on[:, :, None])[:, :, 0]),
    ]
    wide = np.broadcast_to(static.node, (len(on), *static.node.shape[1:]))
    return np.concatenate([np.stack(now, axis=2).astype(np.float32), wide], axis=2)


def _moves(static: Static, seen: Seen) -> Array:
    changed = seen.changed
    slack = seen.values[:, None, 1] + changed[:, :, 1] - 1.0
    parts = [
        squashed(changed[:, :, 0]),
        squashed(changed[:, :, 1], 5.0),
        squashed(changed[:, :, 2]),
        squashed(seen.gained),
        squashed(slack, 2.0),
        squashed(seen.border),
    ]
    count = len(changed)
    wide = np.broadcast_to(static.candidate, (count, *static.candidate.shape[1:]))
    return np.concatenate([np.stack(parts, axis=2).astype(np.float32), wide], axis=2)


def _globals(static: Static, seen: Seen) -> Array:
    count = len(seen.codes)
    parts = [
        seen.preference,
        np.clip(seen.values[:, :1], -2.0, 2.0),
        squashed(seen.values[:, 1:2], 2.0),
        np.clip(seen.values[:, 2:], -2.0, 2.0),
        np.clip(seen.utility[:, None], -5.0, 5.0),
        seen.left[:, None],
    ]
    wide = np.broadcast_to(static.whole, (count, *static.whole.shape[1:]))
    return np.concatenate([np.concatenate(parts, axis=1).astype(np.float32), wide], axis=1)


def _valid(edits: Edits, static: Static, codes: Ints) -> npt.NDArray[np.bool_]:
    """STOP always; of the others those that change anything."""
    count = len(codes)
    choice = np.broadcast_to(edits.choice, (count, edits.choice.shape[1]))
    other = np.take_along_axis(codes, choice, axis=1) != edits.code
    moved = ((edits.macro >= 0) & (edits.macro != codes[:, None, :])).any(axis=2)
    stop = np.ones((count, 1), np.bool_)
    return static.there & np.concatenate([stop, other, moved], axis=1)
