"""The one typed door to pymoo: children of the survivors of an archive of integer codes."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from edgeopt.errors import UsageError
from edgeopt.search.codes import Codes

Matrix = npt.NDArray[np.float64]


class Mating(Protocol):
    """Survival, tournament, crossover and mutation in one call."""

    def __call__(
        self, rows: Sequence[Codes], costs: Matrix, excess: Matrix, count: int
    ) -> Sequence[Codes]:
        """Children, in the order of birth, possibly equal to known rows.

        Args:
            rows: n codes.
            costs: Minimised [n, objectives], finite.
            excess: [n], above 0 for infeasible rows; the smaller the better.
            count: How many children.
        """
        ...


def load_mating(sizes: Sequence[int], seed: int, population: int) -> Mating:
    """NSGA-II's operators for choices of these sizes.

    Uniform crossover, and a mutation that gives each choice with probability 1/L another
    alternative, drawn uniformly.

    Raises:
        UsageError: pymoo is not installed.
    """
    try:
        from pymoo.config import Config
    except ImportError as error:
        raise UsageError(
            "the strategy nsga2 needs pymoo, which is not installed",
            hint="pip install 'edgeopt[search]', or choose --strategy random",
        ) from error
    Config.warnings["not_compiled"] = False
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.core.mutation import Mutation
    from pymoo.core.population import Population
    from pymoo.core.problem import Problem
    from pymoo.operators.crossover.ux import UX

    high = np.array(sizes, dtype=np.int64)

    class Reset(Mutation):
        """Each choice with probability 1/L to another alternative."""

        def _do(
            self, problem: Any, rows: npt.NDArray[np.int64], *_: Any, random_state: Any, **__: Any
        ) -> npt.NDArray[np.int64]:
            hit = random_state.random(rows.shape) < 1 / rows.shape[1]
            step = 1 + random_state.integers(np.maximum(high - 1, 1), size=rows.shape)
            return np.where(hit, (rows + step) % high, rows)

    nsga2: Any = NSGA2  # its annotations name the default operators' classes only
    algorithm = nsga2(
        pop_size=population, crossover=UX(), mutation=Reset(), eliminate_duplicates=False
    )

    def mate(rows: Sequence[Codes], costs: Matrix, excess: Matrix, count: int) -> Sequence[Codes]:
        if not costs.shape[1]:
            costs = np.zeros((len(rows), 1))
        problem = Problem(
            n_var=len(high), n_obj=costs.shape[1], n_ieq_constr=1, xl=0, xu=high - 1, vtype=int
        )
        if algorithm.problem is None:
            algorithm.setup(problem, seed=seed)
        told = Population.new(X=np.array(rows), F=costs, G=excess[:, None])
        state = algorithm.random_state
        parents = algorithm.survival.do(
            problem, told, n_survive=population, random_state=state, algorithm=algorithm
        )
        children = algorithm.mating.do(
            problem, parents, count, algorithm=algorithm, random_state=state
        )
        return [tuple(int(code) for code in child) for child in children.get("X")]

    return mate
