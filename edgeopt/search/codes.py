"""Integer codes: one alternative a choice, what strategies recombine and draw.

Code 0 of every choice is what the baseline does. `Space.decode` leaves out what does not apply in
a combination, so that different codes may mean one recipe; `encode` finds the codes that a recipe
names.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from edgeopt.core.action import Choice, Recipe

Codes = tuple[int, ...]
EXACT = frozenset({"rewrite", "fuse"})


def starting(choice: Choice) -> int:
    """The code where a search begins: exact choices are on, but for those that need others."""
    return int(choice.family in EXACT and not choice.joint)


def mended(choices: Sequence[Choice], codes: Sequence[int]) -> Codes:
    """The same with what repairs pruning on where anything is pruned, and off where nothing is."""
    pruned = any(k and choice.family == "prune" for choice, k in zip(choices, codes, strict=True))
    return tuple(
        int(pruned) if choice.mends else k for choice, k in zip(choices, codes, strict=True)
    )


def encode(choices: Sequence[Choice], recipe: Recipe) -> Codes | None:
    """The codes that come nearest to a recipe; None where it holds what no choice offers.

    Of an alternative with several actions some may not have applied, so the alternative that
    shares the most actions is taken. Whether the codes say exactly the recipe, decoding tells.
    """
    left = {action.bare() for action in recipe.actions}
    codes: list[int] = []
    for choice in choices:
        alternatives = [{action.bare() for action in found} for found in choice.alternatives]
        shared = [(len(found & left), -len(found - left)) for found in alternatives]
        best = max(range(len(choice)), key=lambda i, s=shared: (s[i][0], s[i][1], -i))
        left -= alternatives[best]
        codes.append(best)
    return None if left else tuple(codes)


def heuristic(choices: Sequence[Choice]) -> tuple[Codes, ...]:
    """What is worth a try before anything was measured, without duplicates.

    Nothing; everything exact; on top of it each other family alone with each of its alternatives;
    all families together; and each family over one half of the network only (choices are in graph
    order).
    """
    found: dict[Codes, None] = {}

    def add(pick: Callable[[int, Choice], int]) -> None:
        codes = (min(pick(i, c), len(c) - 1) for i, c in enumerate(choices))
        found[tuple(codes)] = None

    def exact(choice: Choice) -> int:
        return starting(choice)

    add(lambda _, choice: 0)
    add(lambda _, choice: exact(choice))
    for family, alternative in _inexact(choices):
        add(lambda _, c, f=family, a=alternative: a if c.family == f else exact(c))
    add(lambda _, choice: 1)
    for family, alternative in _inexact(choices):
        places = [i for i, choice in enumerate(choices) if choice.family == family]
        middle = len(places) // 2
        for half in (frozenset(places[:middle]), frozenset(places[middle:])):
            add(lambda i, c, h=half, a=alternative: a if i in h else exact(c))
    return tuple(found)


def _inexact(choices: Sequence[Choice]) -> Iterator[tuple[str, int]]:
    """Each family that changes outputs, with each index that an alternative of it has."""
    widest: dict[str, int] = {}
    for choice in choices:
        if choice.family not in EXACT:
            widest[choice.family] = max(len(choice), widest.get(choice.family, 0))
    for family, size in widest.items():
        for alternative in range(1, size):
            yield family, alternative


def draw(choices: Sequence[Choice], generator: np.random.Generator) -> Codes:
    """Random codes: how much of a family is on, and which alternatives, is drawn first.

    Fair coins would put every draw in the middle of the space, where half of everything is on:
    a density uniform over 0..1 covers sparse and dense recipes alike. Exact rewrites are mostly
    on, since they cost nothing (density Beta(4, 1)).
    """
    density: dict[str, float] = {}
    taste: dict[tuple[str, int], np.ndarray] = {}
    codes: list[int] = []
    for choice in choices:
        family, others = choice.family, len(choice) - 1
        if family not in density:
            density[family] = generator.beta(4, 1) if family in EXACT else generator.random()
        if (family, others) not in taste and others > 0:
            taste[family, others] = generator.dirichlet(np.ones(others))
        on = generator.random() < density[family] and others > 0
        codes.append(1 + int(generator.choice(others, p=taste[family, others])) if on else 0)
    return tuple(codes)
