"""Slices that cut a value up without a gap, as one Split.

    x[:, a:b], x[:, b:c], x[:, c:]  =  Split(x)          a = 0, along the same axis

Tracing exporters write torch's chunk and split so. As one operator it meets what joins it again
(`concat_of_split`) or made it (`split_of_concat`, `split_to_siblings`), which look for a Split.

It must not fire behind a convolution (`split_to_siblings` would take it apart, as the two halves
of a spectrogram), where parts overlap or leave something out, along different axes, with steps or
computed places, or where a size is not known.
Imperative, since the number of parts is open. ONNX Runtime does the same by itself when it loads
a model, so that nothing becomes faster by this alone.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, refuse, site_of
from edgeopt.transforms.rewrite._around import shape_of
from edgeopt.transforms.rewrite._selection import selection_of


@dataclass(frozen=True, slots=True)
class _Cut:
    source: ir.Value
    axis: int
    parts: tuple[ir.Node, ...]
    sizes: tuple[int, ...]


def _match(root: ir.Node) -> _Cut | Rejection:
    source, found = root.inputs[0], selection_of(root)
    if found is None or source is None or source.shape is None:
        return refuse("it selects no constant positions of one axis", root)
    made = source.producer()
    if made is not None and made.op_type == "Conv" and not made.domain:
        return refuse("a convolution makes it: as a Split it would come apart", root)
    axis, whole = found[0].axis, source.shape[found[0].axis]
    if not isinstance(whole, int) or found[0].indices[0] != 0:
        return refuse("it is not the first part of a known size", root)
    cuts = dict(_cuts(source, axis, root.graph))
    by_start = {places[0]: node for node, places in cuts.items()}
    if len(by_start) != len(cuts):
        return refuse("parts overlap", root)
    parts, start = [root], len(found[0].indices)
    while start < whole and start in by_start:
        parts.append(by_start[start])
        start += len(cuts[by_start[start]])
    if start != whole or len(parts) != len(cuts) or len(parts) == 1:
        return refuse("the parts leave something out, or overlap", root)
    return _Cut(source, axis, tuple(parts), tuple(len(cuts[node]) for node in parts))


def _cuts(source: ir.Value, axis: int, graph: object) -> list[tuple[ir.Node, tuple[int, ...]]]:
    """Slices of a value along an axis, each with its places where they lie side by side."""
    found: list[tuple[ir.Node, tuple[int, ...]]] = []
    for user, index in source.uses():
        if index != 0 or user.op_type != "Slice" or user.graph is not graph:
            continue
        part = selection_of(user)
        if part is None or part[0].axis != axis:
            continue
        places = part[0].indices
        if places == tuple(range(places[0], places[0] + len(places))):
            found.append((user, places))
    return found


def _rewrite(editor: Editor, found: _Cut) -> None:
    site = f"{site_of(found.parts[0])}/slices_to_split"
    sizes = editor.initializer(f"{site}/split", np.array(found.sizes, np.int64))
    made = new_node("Split", [found.source, sizes], output=site, attributes={"axis": found.axis})
    made.resize_outputs(len(found.parts))
    assert found.source.shape is not None, "the match knows it"
    for index, (value, size) in enumerate(zip(made.outputs, found.sizes, strict=True)):
        value.name = f"{site}/{index}"
        value.type = found.source.type
        value.shape = shape_of(
            size if i == found.axis else s for i, s in enumerate(found.source.shape)
        )
    first = next(node for node in editor.graph if node in found.parts)
    editor.insert([made], before=first)
    for part, value in zip(found.parts, made.outputs, strict=True):
        editor.replace_value(part.outputs[0], value)
    editor.remove_dead(found.parts)


PLUGIN = LocalRule(
    name="slices_to_split",
    roots=frozenset({"Slice"}),
    match=_match,
    rewrite=_rewrite,
    opset=13,
)
