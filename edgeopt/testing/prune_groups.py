"""The oracle of pruning: a net without some channels equals the net that does not read them.

    removed(model, found, group, kept)     the smaller net
    unread(model, found, group, kept)      the same net with zeros where those channels are read
    difference(one, other, feeds)          how far apart their outputs are
    apart_where_read(one, other, ...)      how far apart what the readers make is

The second is made without any of the machinery of removal: only weights that read become zero, no
shape changes. Outputs behind a discrete operator (ArgMax, a comparison) are compared by what it
decides on.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.graph.discrete import first_jumps
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.runtime import observe
from edgeopt.transforms.channels.edits import Cut, put
from edgeopt.transforms.channels.groups import Dependencies, Group, Indices
from edgeopt.transforms.channels.removal import remove

TOLERANCE = 1e-5
"""Of the largest number: the same sums in another order."""
Array = npt.NDArray[Any]
_PLAIN = RuntimeSettings(optimization="off")
_COPIED_BYTES = 64_000_000
"""Weights of a larger net are handed to the runtime as they lie in memory."""


def removed(model: ir.Model, name: str, kept: Indices) -> ir.Model | str:
    """A clone without the other units of the group of that name, or why that cannot be."""
    editor = Editor(model.clone())
    found = Dependencies(editor.model)
    group = found.group(name)
    assert group is not None, "the caller asked for a group"
    reason = remove(editor, found, group, kept)
    return editor.model if reason is None else reason


def unread(model: ir.Model, name: str, kept: Indices) -> ir.Model:
    """A clone in which nobody reads the other units of the group of that name."""
    editor = Editor(model.clone())
    group = Dependencies(editor.model).group(name)
    assert group is not None, "the caller asked for a group"
    for cut in group.readers:
        units = group.units_at(cut.labels)
        places = np.flatnonzero((units >= 0) & ~np.isin(units, kept))
        held = np.array(array_of(cut.node.inputs[cut.index]))
        index: list[Any] = [slice(None)] * held.ndim
        index[cut.axis] = places
        held[tuple(index)] = _zero(cut, held, places)
        put(editor, cut.node, cut.index, held, f"unread{cut.axis}")
    return editor.model


def noise(model: ir.Model, feeds: Sequence[Feed]) -> float:
    """How far a net is from itself when the runtime adds its sums in another order."""
    return difference(model, model, feeds, settings=RuntimeSettings(optimization="basic"))


def difference(
    one: ir.Model, other: ir.Model, feeds: Sequence[Feed], *, settings: RuntimeSettings = _PLAIN
) -> float:
    """Largest difference of what both make, beside the largest number, or 1 if that is less.

    Args:
        one: Run with optimizations off.
        other: Run with the settings.
        feeds: For both.
        settings: Off as well, where they are not given.
    """
    names = _compared(one)
    pairs = _both(one, other, names, feeds, settings)
    return max((_apart(a[name], b[name]) for a, b in pairs for name in names), default=0.0)


def apart_where_read(one: ir.Model, other: ir.Model, name: str, feeds: Sequence[Feed]) -> float:
    """The difference of what the layers make that read a group: nothing has amplified it yet.

    Behind them both nets are the same.

    Args:
        one: The whole net.
        other: The smaller one.
        name: Of the group, in the whole net.
        feeds: For both.

    Returns:
        Infinity where every such layer has lost channels of its own.
    """
    group = Dependencies(one).group(name)
    assert group is not None, "the caller asked for a group"
    names = list(dict.fromkeys(cut.node.outputs[0].name or "" for cut in group.readers))
    found = [
        _apart(a[each], b[each])
        for a, b in _both(one, other, names, feeds, _PLAIN)
        for each in names
        if a[each].shape == b[each].shape
    ]
    return max(found, default=np.inf)


def _both(
    one: ir.Model,
    other: ir.Model,
    names: Sequence[str],
    feeds: Sequence[Feed],
    settings: RuntimeSettings,
) -> Iterator[tuple[Mapping[str, Array], Mapping[str, Array]]]:
    wanted = observe(one, names, feeds, settings=_PLAIN, limit_bytes=_COPIED_BYTES)
    made = observe(other, names, feeds, settings=settings, limit_bytes=_COPIED_BYTES)
    return zip(wanted, made, strict=True)


def _apart(wanted: Array, made: Array) -> float:
    wide = wanted.astype(np.float64)
    finite = np.isfinite(wide)
    if made.shape != wide.shape or not np.array_equal(finite, np.isfinite(made)):
        return np.inf
    error = np.abs(wide - made, where=finite, out=np.zeros_like(wide))
    size = float(np.abs(wide, where=finite, out=np.zeros_like(wide)).max(initial=0.0))
    return float(error.max(initial=0.0)) / max(size, 1.0)


def some_units(group: Group, generator: np.random.Generator) -> Indices:
    """Units to keep: of every stratum at random, one at least."""
    found: list[int] = []
    for stratum in group.strata:
        count = int(generator.integers(1, len(stratum) + 1))
        found += generator.choice(stratum, count, replace=False).tolist()
    if len(found) == group.width:
        wide = max(group.strata, key=len)
        found.remove(int(generator.choice(wide)))
    return np.array(sorted(found), np.int64)


def _compared(model: ir.Model) -> list[str]:
    """Outputs, those behind a discrete operator by its operands."""
    jumps = first_jumps(model)
    found: list[str] = []
    for value in model.graph.outputs:
        name = value.name or ""
        listed = [operand for jump in jumps.get(name, ()) for operand in jump.operands]
        found += listed or [name]
    return list(dict.fromkeys(found))


def _zero(cut: Cut, held: npt.NDArray[Any], places: Indices) -> Any:
    """What stands for 0: of codes their zero point."""
    if cut.node.op_type != "DequantizeLinear" or len(cut.node.inputs) < 3:
        return 0
    points = array_of(cut.node.inputs[2])
    if points is None or points.ndim == 0:
        return 0 if points is None else points
    along = (cut.node.attributes.get_int("axis", 1) or 0) % held.ndim
    shape = [points.size if axis == along else 1 for axis in range(held.ndim)]
    whole = np.broadcast_to(points.reshape(shape), held.shape)
    return np.take(whole, places, axis=cut.axis)
