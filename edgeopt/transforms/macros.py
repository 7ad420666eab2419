"""Exact transforms that pay off together and may lose alone: offered as one decision.

A macro is a sequence of transforms. The search sees one choice: none of them, the first, the
first two, and so on, each at all its sites on the graph that the ones before it left. They take
no part in the fixpoint of the rules that are canonical forms.
"""

from collections.abc import Callable, Mapping, Sequence

from edgeopt.core.action import Action, Choice

MACROS: Mapping[str, tuple[str, ...]] = {
    "layout": ("pad_channels", "se_resize"),
    "stem": ("space_to_depth_stem",),
    "groups": ("dense_groups", "shuffle_to_rows"),
}
"""By name: the blocked layout of channels, and what then never has to leave it; for integer
kernels only, the first convolution on four times the channels, and convolutions without groups
that take in the shuffles between them."""

IN_FLOAT: frozenset[str] = frozenset({"rewrite:layout"})
"""Choices whose last alternative is a sensible first guess without quantization."""

STEM = "rewrite:stem"
IN_INTEGERS: frozenset[str] = frozenset({STEM, "rewrite:groups"})
"""Choices whose last alternative is a sensible first guess where everything is quantized."""

JOINT: frozenset[str] = frozenset(name for names in MACROS.values() for name in names)
"""Transforms that belong to a macro."""


def macro(
    name: str, steps: Sequence[str], exhaust: Callable[[str], Sequence[Action]]
) -> Choice | None:
    """The choice of one macro; None where no transform of it has a site.

    Args:
        name: Of the macro.
        steps: Its transforms in order.
        exhaust: Does a transform at all its sites, and says what was done.
    """
    done: list[Action] = []
    labels: list[str] = ["off"]
    alternatives: list[tuple[Action, ...]] = [()]
    for step in steps:
        made = exhaust(step)
        if made:
            done += made
            labels.append(step if len(labels) == 1 else f"{labels[-1]}+{step}")
            alternatives.append(tuple(done))
    if not done:
        return None
    return Choice(
        name=f"rewrite:{name}",
        family="rewrite",
        labels=tuple(labels),
        alternatives=tuple(alternatives),
        joint=True,
    )
