"""The pre-pass: exact rules that never lose, done before anything is decided.

Spellings become operators first (a rule that moves a number away would hide them), then what is
left is cleaned, then work is moved to where there is less of it; and again, until no rule has a
site. Within a phase the order does not matter: the result is the same graph. Every rule of it
removes nodes or multiplications, or moves a node up or down for good, so that it ends.

What pays on some devices only (or changes what underflows) stays a choice of its own.
"""

from collections.abc import Callable, Sequence

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Evidence, Offer, Rejection, ShelfName
from edgeopt.transforms.bodies import sites_of
from edgeopt.transforms.replay import attempt
from edgeopt.transforms.stages import transform_of

NAME = "canonicalize"
PHASES: tuple[tuple[str, ...], ...] = (
    (
        "unfuse_conv",
        "unfuse_gemm",
        "unfuse_matmul",
        "unfuse_gelu",
        "unfuse_norm",
        "unfuse_rms",
    ),
    (
        "gelu",
        "hardswish",
        "hardsigmoid",
        "sigmoid",
        "layernorm",
        "softmax",
        "depth_to_space",
        "einsum_to_matmul",
        "max_to_relu",
        "prelu_to_leaky",
    ),
    (
        "inline_branch",
        "drop_dead",
        "shared_expressions",
        "concat_of_split",
        "split_of_concat",
        "select_of_concat",
        "flat_concat",
        "drop_expand",
        "drop_resize",
        "argmax_of_logits",
        "power_to_product",
        "power_to_root",
        "pad_into_pool",
        "pad_into_conv",
        "dead_taps",
        "unused_slice",
        "select_first",
    ),
    (
        "fold_batchnorm",
        "batchnorm_of_rows",
        "fold_add",
        "fold_mul",
        "factor_before_activation",
        "divide_by_constant",
        "root_mean_square",
    ),
    (
        "average_before_conv1x1",
        "pool_before_conv1x1",
        "mean_before_product",
        "conv1x1_before_resize",
        "unary_before_resize",
        "constant_before_resize",
        "operand_before_expand",
        "reassociate",
        "subsample_to_stride",
    ),
    (
        "compose_conv1x1",
        "pointwise_into_conv",
        "compose_products",
        "merge_branches",
        "transpose_into_product",
        "shuffle_to_columns",
    ),
    ("affine_before", "constant_chain"),
    ("chain_pools", "average_to_conv", "slices_to_split"),
)
"""Names of transforms, phase by phase."""

ALWAYS: frozenset[str] = frozenset(name for phase in PHASES for name in phase)
"""Transforms that are no decisions."""

_ROUNDS = 50
Order = Callable[[Sequence[Action]], Sequence[Action]]


def as_listed(actions: Sequence[Action]) -> Sequence[Action]:
    """Sites in the order of the graph."""
    return actions


def canonicalize(
    editor: Editor,
    offer: Offer,
    evidence: Evidence,
    *,
    families: Sequence[ShelfName] = ("rewrite", "fuse"),
    order: Order = as_listed,
) -> tuple[Action, ...]:
    """Do every rule of the pre-pass at every site, until none is left.

    Args:
        editor: Of the graph, which it changes.
        offer: Decides which sites exist.
        evidence: Handed to the rules.
        families: Shelves that may be used.
        order: In which the sites of a phase are tried.

    Returns:
        What was done, in order: a recipe of it gives the same graph.
    """
    done: list[Action] = []
    for _ in range(_ROUNDS):
        before = len(done)
        for phase in PHASES:
            done += _settle(phase, editor, offer, evidence, families, order)
        if len(done) == before:
            break
    return tuple(done)


def _settle(
    phase: Sequence[str],
    editor: Editor,
    offer: Offer,
    evidence: Evidence,
    families: Sequence[ShelfName],
    order: Order,
) -> list[Action]:
    """One phase until it has no site left."""
    done: list[Action] = []
    for _ in range(_ROUNDS):
        before = len(done)
        for action in order(_listed(phase, editor, offer, families)):
            mark = editor.mark()
            made = attempt(editor, action, evidence)
            if isinstance(made, Rejection):
                editor.undo(mark)
            else:
                done.append(made)
        if len(done) == before:
            break
    return done


def _listed(
    phase: Sequence[str], editor: Editor, offer: Offer, families: Sequence[ShelfName]
) -> list[Action]:
    found: list[Action] = []
    for name in phase:
        family, transform = transform_of(name)
        if family in families:
            found += sites_of(family, transform, editor.model, offer, bodies=editor.bodies)
    return found
