"""`Remembered`: a space whose decoded recipes and their exact figures are kept.

Tables are made of many recipes that differ from one in a single alternative. Building each takes
a large part of a second; asking for its figures again, when its graph is no longer at hand, as
long once more.
"""

from collections.abc import Iterator, Mapping, Sequence

from edgeopt.core.action import Action, Choice, Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.protocols import Arrays, Space
from edgeopt.search.codes import Codes

Figures = Mapping[str, float]


class Remembered:
    """Implements `core.protocols.Space` on top of another one.

    Args:
        space: Asked once for each row of codes.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._recipes: dict[Codes, Recipe] = {}
        self._figures: dict[str, Figures] = {}

    @property
    def choices(self) -> tuple[Choice, ...]:
        """As the space has them."""
        return self._space.choices

    @property
    def runtimes(self) -> tuple[RuntimeSettings, ...]:
        """As the space has them."""
        return self._space.runtimes

    def empty(self) -> Recipe:
        """The baseline."""
        return self._space.empty()

    def decode(self, codes: Sequence[int]) -> Recipe:
        """The recipe of some codes; its figures are taken while its graph is there."""
        row = tuple(codes)
        if row not in self._recipes:
            recipe = self._space.decode(row)
            self._recipes[row] = recipe
            self.static_cost(recipe)
        return self._recipes[row]

    def legal(self, recipe: Recipe) -> tuple[Action, ...]:
        """As the space says."""
        return self._space.legal(recipe)

    def then(self, recipe: Recipe, action: Action) -> Recipe | str:
        """As the space says."""
        return self._space.then(recipe, action)

    def standard(self) -> tuple[tuple[str, Candidate], ...]:
        """As the space says."""
        return self._space.standard()

    def guesses(self) -> Iterator[tuple[str, Candidate]]:
        """As the space says."""
        return self._space.guesses()

    def observe(self, recipe: Recipe) -> Arrays:
        """As the space says."""
        return self._space.observe(recipe)

    def static_cost(self, recipe: Recipe) -> Figures:
        """Exact figures, kept by the recipe's digest."""
        if recipe.digest not in self._figures:
            self._figures[recipe.digest] = self._space.static_cost(recipe)
        return self._figures[recipe.digest]
