"""The rules on the shelves: those of the exact transforms that are written in the rule language."""

from edgeopt import plugins
from edgeopt.transforms.base import EXACT, STAGES
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.transform import RuleTransform


def rules_on_shelves() -> tuple[Rule, ...]:
    """Every such rule, shelf by shelf, sorted by name."""
    found: list[Rule] = []
    for shelf in (each for each in STAGES if each in EXACT):
        for name in plugins.SHELVES[shelf].names():
            plugin = plugins.SHELVES[shelf].load(name)
            if isinstance(plugin, RuleTransform):
                found.append(plugin.rule)
    return tuple(found)
