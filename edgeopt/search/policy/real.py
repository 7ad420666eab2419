"""A real model on simulated devices: tables of the model, with a device's tastes drawn.

What the model is (which choices it has, what meets, how much weighs and hurts in relation) is as it
was estimated; what a device makes of it is not known, and is drawn anew for each instance.
"""

from collections.abc import Sequence

import numpy as np

from edgeopt.core.action import Choice
from edgeopt.search.codes import starting
from edgeopt.search.policy.generated import Pair, blurred, scaled
from edgeopt.search.policy.source import family_of, padded
from edgeopt.search.policy.tables import FAMILIES, Instance
from edgeopt.search.table import Table

_TASTE, _PRICE, _HURT, _BORDER = 0.5, 0.25, 0.4, 0.5
"""Spreads of logarithms: of what a family gains, of each alternative's gain and damage, and of what
all borders cost."""
_MILD = 0.4
"""Damages are raised to powers between this and 1: estimates spread them too far."""


def on_a_device(
    choices: Sequence[Choice],
    table: Table,
    sizes: Sequence[Sequence[float]],
    generator: np.random.Generator,
) -> Pair:
    """What counts on a device that is drawn, and what a search would see of it.

    Args:
        choices: Of the model's space.
        table: As it was estimated: relative changes of the latency, and damages.
        sizes: Relative changes of the size, by choice and alternative.
        generator: Of everything that is drawn.
    """
    cost, damage, size = padded(table.cost), padded(table.damage), padded(sizes)
    families = np.array([family_of(choice.family) for choice in choices], np.int64)
    taste = generator.lognormal(0.0, _TASTE, len(FAMILIES))[families][:, None]
    cost = cost * taste * generator.lognormal(0.0, _PRICE, cost.shape)
    damage = damage ** generator.uniform(_MILD, 1.0) * generator.lognormal(0.0, _HURT, cost.shape)
    border = float(generator.lognormal(0.0, _BORDER))
    true = Instance(
        cost=cost,
        damage=scaled(damage, generator),
        size=size,
        edges={pair: border * value for pair, value in table.edges.items()},
        counts=np.array([len(choice) for choice in choices], np.int64),
        families=families,
    )
    return blurred(true, tuple(starting(choice) for choice in choices), generator)
