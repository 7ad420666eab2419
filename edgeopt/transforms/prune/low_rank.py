"""A product in two: a wide layer through fewer channels than either side has.

    W x  ≈  A (B x)        A [out, rank], B [rank, in]

A and B are those of least error on what the layer reads: the singular vectors of W C^(1/2), C
being the covariance of its input (a truncated decomposition of W itself where inputs are alike in
size). It takes rank (in + out) multiplications instead of in · out, and one more node, so only
ranks that leave at most six tenths of them are offered, and only multiples of the device's block.

Only for convolutions of one pixel without groups, and for Gemm and MatMul with a constant on the
right. The factors are an artifact: a replay uses the stored ones. Must not fire where nothing is
saved.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of, new_node
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.calibration.moments import KEPT_BYTES, WIDEST, Moments, Wanted
from edgeopt.transforms.local_rule import floating, integer, producer_of, refuse, set_constant

SHARES = (0.3, 0.5)
"""Of the multiplications that are left, at most."""
_MOST = 0.6
_RIDGE = 1e-4
_LEAST_WIDTH = 64
_BESIDE = 0.5
"""Of the memory for moments, what those of other layers may take."""
_FACTORS = ("out", "in")

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer that is a matrix.

    Args:
        node: Conv, Gemm or MatMul.
        weight: As it stands there.
        axis: Of the input's channels.
    """

    node: ir.Node
    weight: Array
    axis: int

    @property
    def turned(self) -> bool:
        """Whether the constant is [in, out]."""
        kind = self.node.op_type
        return kind == "MatMul" or (kind == "Gemm" and not integer(self.node, "transB", 0))

    @property
    def matrix(self) -> Array:
        """[out, in]."""
        flat = self.weight.reshape(self.weight.shape[:2])
        return flat.T if self.turned else flat

    def constant(self, matrix: Array) -> Array:
        """A matrix [out, in] in the form of this layer's constant."""
        flat = matrix.T if self.turned else matrix
        shape = (*flat.shape, *self.weight.shape[2:])
        return np.ascontiguousarray(flat.astype(self.weight.dtype)).reshape(shape)


class LowRank:
    """Approximate: one wide layer becomes two narrow ones."""

    version = 1
    needs_data = True
    whole_model = False

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """A few ranks a layer that is wide enough, by the value that it makes."""
        found: list[Action] = []
        for node in model.graph:
            layer = _layer(node)
            if layer is None or min(layer.matrix.shape) < _LEAST_WIDTH:
                continue
            ranks = {_rank(layer, share, offer.profile.channel_block) for share in SHARES}
            name = node.outputs[0].name or ""
            found += [
                Action.of("low_rank", name, rank=rank)
                for rank in sorted(ranks, reverse=True)
                if rank and _saves(layer, rank)
            ]
        return tuple(found)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Put the two factors in the layer's place."""
        node = producer_of(editor.model, action.site)
        layer = None if node is None else _layer(node)
        if node is None or layer is None:
            return Rejection(reason=f"no layer that is one matrix makes {action.site!r}")
        rank = int(action.get("rank"))
        if rank < 1 or not _saves(layer, rank):
            return refuse(f"with rank {rank} it has not fewer multiplications", node)
        known = _factors(editor.model, layer, rank, action, evidence)
        if known is None:
            return refuse("no calibration sample says what it reads", node)
        outward, inward, digest = known
        name = action.site
        first = new_node(
            node.op_type,
            [node.inputs[0], editor.initializer(f"{name}/low_rank/in", layer.constant(inward))],
            output=f"{name}/low_rank",
            attributes=_first_attributes(node),
        )
        made, old = first.outputs[0], node.outputs[0]
        made.type = old.type
        if old.shape is not None:
            sizes = list(old.shape)
            sizes[layer.axis] = rank
            made.shape = ir.Shape(sizes)
        editor.insert([first], before=node)
        editor.set_input(node, 0, made)
        set_constant(editor, node, 1, f"{name}/low_rank/out", layer.constant(outward))
        for attribute in ("strides", "pads", "dilations", "alpha"):
            if attribute in node.attributes:
                editor.set_attribute(node, attribute, None)
        return action.with_artifacts(factors=digest)


def _layer(node: ir.Node) -> _Layer | None:
    weight = array_of(node.inputs[1]) if len(node.inputs) > 1 and not node.domain else None
    source = node.inputs[0] if node.inputs else None
    if weight is None or source is None or weight.dtype != np.float32 or source.shape is None:
        return None
    if array_of(source) is not None:
        return None
    if node.op_type == "Conv":
        plain = integer(node, "group", 1) == 1 and all(size == 1 for size in weight.shape[2:])
        return _Layer(node, weight, 1) if plain and weight.ndim > 2 else None
    if node.op_type == "Gemm":
        plain = not integer(node, "transA", 0) and floating(node, "alpha", 1.0) == 1.0
        return _Layer(node, weight, 1) if plain else None
    if node.op_type == "MatMul" and weight.ndim == 2:
        return _Layer(node, weight, len(source.shape) - 1)
    return None


def _rank(layer: _Layer, share: float, block: int) -> int:
    out, given = layer.matrix.shape
    return int(share * out * given / (out + given)) // block * block


def _saves(layer: _Layer, rank: int) -> bool:
    out, given = layer.matrix.shape
    return rank * (out + given) <= _MOST * out * given


def _first_attributes(node: ir.Node) -> dict[str, Any]:
    """Of the layer that reads: it moves the window; the bias stays with the other one."""
    if node.op_type != "Conv":
        return {"transB": integer(node, "transB", 0)} if node.op_type == "Gemm" else {}
    names = ("strides", "pads", "dilations", "kernel_shape", "auto_pad")
    return {name: node.attributes[name].value for name in names if name in node.attributes}


def _factors(
    model: ir.Model, layer: _Layer, rank: int, action: Action, evidence: Evidence
) -> tuple[Array, Array, str] | None:
    """A [out, rank], B [rank, in], and their artifact."""
    digest = action.artifact("factors")
    held = None if digest is None else evidence.recall(digest)
    if digest is not None and held is not None and held["in"].shape[0] == rank:
        return held["out"], held["in"], digest
    source = layer.node.inputs[0]
    assert source is not None, "layers read something"
    wanted = (source.name or "", layer.axis)
    seen = evidence.moments(model, _read(model, wanted, layer), products=True).get(wanted)
    if seen is None or seen.products is None or len(seen.total) != layer.matrix.shape[1]:
        return None
    if not np.isfinite(seen.products).all():
        return None
    outward, inward = truncated(layer.matrix.astype(np.float64), seen, rank)
    kept = {"out": outward.astype(np.float32), "in": inward.astype(np.float32)}
    return kept["out"], kept["in"], evidence.keep(kept)


def _read(model: ir.Model, first: Wanted, layer: _Layer) -> list[Wanted]:
    """What this layer reads, and what others do: they are looked at in one pass over samples."""
    found = {first: layer.matrix.shape[1]}
    for other in filter(None, map(_layer, model.graph)):
        source, (out, given) = other.node.inputs[0], other.matrix.shape
        if source is not None and min(out, given) >= _LEAST_WIDTH and given <= WIDEST:
            found.setdefault((source.name or "", other.axis), given)
    products = itertools.accumulate(8 * given**2 for given in found.values())
    pairs = zip(found, products, strict=True)
    return [one for one, held in pairs if one == first or held <= _BESIDE * KEPT_BYTES]


def truncated(matrix: Array, seen: Moments, rank: int) -> tuple[Array, Array]:
    """The factors of least squared error on inputs with these moments."""
    assert seen.products is not None, "the caller looked"
    second = seen.products / seen.count
    size = len(second)
    second = second + _RIDGE * max(float(np.trace(second)) / size, 1e-30) * np.eye(size)
    left, values, _ = np.linalg.svd(matrix @ _root(second), full_matrices=False)
    outward = left[:, :rank] * np.sqrt(values[:rank])
    inward = (left[:, :rank] / np.sqrt(np.maximum(values[:rank], 1e-30))).T @ matrix
    return outward, inward


def _root(second: Array) -> Array:
    """A with A A' = the moments; what rounding made negative counts as nothing.

    Sums of products in single precision have eigenvalues below zero where few channels carry
    nearly all of the power.
    """
    try:
        return np.linalg.cholesky(second)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(second)
        return vectors * np.sqrt(np.maximum(values, 0.0))


PLUGIN = LowRank()
