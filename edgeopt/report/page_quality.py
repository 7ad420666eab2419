"""How latencies spread and how they moved, as small drawings in a table's cells."""

import math
from collections.abc import Sequence

from markupsafe import Markup

_WIDTH, _HEIGHT, _ROOM = 120.0, 28.0, 3.0
_LEAST_SPREAD = 0.02
"""The axis is never narrower than this share of the median: noise must look as small as it is."""


def box(shares: Sequence[float | None]) -> Markup:
    """The middle half as a box, 5 % to 95 % as a line, from half to twice the median.

    Args:
        shares: Seconds below which 5, 25, 50, 75 and 95 % of the runs are.
    """
    middle = shares[2]
    known = [v / middle for v in shares if v is not None] if middle else []
    if len(known) < len(shares):
        return Markup("")
    low, first, _, third, high = (_along(v) for v in known)
    y, centre = _HEIGHT / 2, _along(1.0)
    return Markup(
        '<svg class="spark" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" '
        'aria-label="middle half from {a} to {b} of the median">'
        '<polyline class="beside" points="{low:.1f},{y} {high:.1f},{y}"/>'
        '<rect x="{first:.1f}" y="{top}" width="{wide:.1f}" height="12"/>'
        '<polyline class="mine" points="{centre:.1f},{top} {centre:.1f},{end}"/></svg>'
    ).format(
        w=int(_WIDTH), h=int(_HEIGHT), a=f"{known[1]:.2f}", b=f"{known[3]:.2f}", low=low, high=high,
        y=y, first=first, wide=max(1.0, third - first), centre=centre, top=y - 6, end=y + 6,
    )  # fmt: skip


def _along(ratio: float) -> float:
    """Half the median at the left end, twice at the right; what is beyond stands at the end."""
    share = (math.log2(min(max(ratio, 0.5), 2.0)) + 1) / 2
    return _ROOM + share * (_WIDTH - 2 * _ROOM)


def sparkline(mine: Sequence[float | None], beside: Sequence[float | None]) -> Markup:
    """Each model's block medians over its own median, in order: the model, and the given beside.

    Args:
        mine: Seconds a block; None where unknown.
        beside: Of the given model, beside the same blocks; may be empty.
    """
    lines = [_relative(values) for values in (beside, mine)]
    known = [v for line in lines for v in line if v is not None]
    if len(known) < 2:
        return Markup("")
    spread = max(_LEAST_SPREAD, *(abs(v - 1) for v in known))
    drawn = Markup("").join(
        Markup('<polyline class="{}" points="{}"/>').format(kind, _points(line, spread))
        for kind, line in zip(("beside", "mine"), lines, strict=True)
        if line
    )
    return Markup(
        '<svg class="spark" width="{}" height="{}" viewBox="0 0 {} {}" role="img" '
        'aria-label="block medians within ±{} % of their median">{}</svg>'
    ).format(int(_WIDTH), int(_HEIGHT), int(_WIDTH), int(_HEIGHT), f"{100 * spread:.1f}", drawn)


def _relative(values: Sequence[float | None]) -> list[float | None]:
    known = sorted(value for value in values if value is not None)
    middle = known[len(known) // 2] if known else 0.0
    return [None if v is None or middle == 0 else v / middle for v in values]


def _points(line: Sequence[float | None], spread: float) -> str:
    step = (_WIDTH - 2 * _ROOM) / max(1, len(line) - 1)
    height = _HEIGHT / 2 - _ROOM
    return " ".join(
        f"{_ROOM + i * step:.1f},{_HEIGHT / 2 - height * (v - 1) / spread:.1f}"
        for i, v in enumerate(line)
        if v is not None
    )
