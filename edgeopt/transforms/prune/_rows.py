"""The weights that make the channels of a group, unit by unit."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from edgeopt.graph.editor import array_of
from edgeopt.transforms.channels.edits import Cut
from edgeopt.transforms.channels.groups import Dependencies, Group, Indices

Floats = npt.NDArray[np.float64]
_MAKING = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN"})


def rows(found: Dependencies, group: Group) -> Iterator[tuple[Indices, Floats]]:
    """Of every layer that makes channels: unit of each row [rows], and the rows [rows, weights]."""
    for cut in found.cuts:
        weight = array_of(cut.node.inputs[cut.index])
        if not _makes(cut, group) or weight is None or weight.dtype.kind != "f":
            continue
        units = group.units_at(cut.labels)
        at = np.flatnonzero(units >= 0)
        if len(at):
            yield units[at], np.moveaxis(weight, cut.axis, 0)[at].reshape(len(at), -1).astype(float)


def _makes(cut: Cut, group: Group) -> bool:
    made = {source.value for source in group.sources}
    node = cut.node
    return (
        not cut.reads
        and cut.index in (1, 2)
        and node.op_type in _MAKING
        and (cut.index == 1 or node.op_type in ("LSTM", "GRU", "RNN"))
        and any(value in made for value in node.outputs)
    )
