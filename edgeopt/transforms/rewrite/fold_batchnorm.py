"""BatchNormalization into the weights of the layer before it.

    BN(Conv(x, W, b))  =  Conv(x, W·f, (b - mean)·f + shift)     f = scale / sqrt(var + epsilon)

Also behind ConvTranspose (output channels are on axis 1 of the weight, group by group) and Gemm
(they are the columns of B); grouped convolutions and a missing bias are fine.

It must not fire in training mode (the statistics are those of the batch), when something else
reads the layer's output (it would see normalised values), when weights or statistics are no
constants, or behind a Gemm whose C differs from row to row.
A MatMul, also with its rows flattened for the normalization: `batchnorm_of_rows`.
ONNX Runtime folds Conv and ConvTranspose by itself, Gemm not; quantization needs it done before.
"""

from edgeopt.transforms.rules.conditions import require_factors
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term, total
from edgeopt.transforms.rules.transform import RuleTransform

fold = Rule("fold_batchnorm", shared="something else reads the layer's output")


@fold.pattern
def _(
    op: Ops,
    x: Tensor,
    w: Const,
    scale: Const,
    shift: Const,
    mean: Const,
    variance: Const,
    b: Const | None = None,
) -> Term:
    missing = "it does not follow a Conv, ConvTranspose or Gemm"
    layer = op.one_of("Conv", "ConvTranspose", "Gemm")(x, w, b, _as="layer", _missing=missing)
    return op.BatchNormalization(layer, scale, shift, mean, variance, _as="norm")


@fold.sound
def _(norm: Node, scale: Const, variance: Const) -> None:
    require_factors(norm, scale, variance)


@fold.sound
def _(layer: Node, w: Const, b: Const | None, scale: Const) -> None:
    count = channels(layer, w)
    if b is not None:
        rows = b.rank > 1 and not (b.rank == 2 and b.shape[0] == 1)
        same = not rows and (b.rank == 0 or b.shape[-1] in (1, count))
        require(same, "its bias differs from row to row")
    require(scale.shape == (count,), "layer and normalization have different numbers of channels")


@fold.replace_with
def _(
    op: Ops,
    x: Tensor,
    w: Const,
    b: Const | None,
    scale: Const,
    shift: Const,
    mean: Const,
    variance: Const,
    layer: Node,
    norm: Node,
) -> Term:
    factor = scale / op.Sqrt(variance + norm.epsilon)
    moved = shift - mean * factor
    ones = (1,) * (w.rank - 2)
    if layer.op_type == "Gemm":
        weight = w * op.Reshape(factor, op.i64(-1, 1) if layer.transB else op.i64(1, -1))
        before = op.Reshape(b, op.i64(-1)) * layer.beta * factor if b else None
        return op.like(layer)(x, weight, total(before, moved), beta=1.0)
    if layer.op_type == "Conv":
        weight = w * op.Reshape(factor, op.i64(-1, 1, *ones))
    else:
        grouped = op.Reshape(w, op.i64(layer.group, -1, *w.shape[1:]))
        scaled = grouped * op.Reshape(factor, op.i64(layer.group, 1, -1, *ones))
        weight = op.Reshape(scaled, op.i64(*w.shape))
    return op.like(layer)(x, weight, total(b * factor if b else None, moved))


def training(norm: Node) -> bool:
    """Whether it normalises with the statistics of the batch."""
    return bool(norm.attrs.get("training_mode", 0))


def channels(layer: Node, weight: Const) -> int:
    """Number of output channels (columns of a Gemm)."""
    if layer.op_type == "Gemm":
        return weight.shape[0 if layer.transB else 1]
    if layer.op_type == "Conv":
        return weight.shape[0]
    return weight.shape[1] * layer.group


PLUGIN = RuleTransform(fold)
