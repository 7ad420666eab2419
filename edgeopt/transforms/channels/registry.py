"""Imports every file of rules, so that each has registered its operators."""

from edgeopt.transforms.channels.rules import (
    elementwise,
    layers,
    mixing,
    moving,
    recurrent,
    reshape,
    sizes,
)
from edgeopt.transforms.channels.walk import registered

FILES = (elementwise, layers, mixing, moving, recurrent, reshape, sizes)
RULES = registered()
