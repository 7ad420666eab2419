"""What a training goes through: a bank of simulated instances with plans to imitate."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgeopt.search.policy.assignment import Assignment, Bank, bank_of, preferences
from edgeopt.search.policy.generated import Pair
from edgeopt.search.policy.tables import Floats, Ints
from edgeopt.search.policy.teacher import nearer, plans, targets

_NOISE = 0.05


@dataclass(frozen=True)
class Lesson:
    """States with the shares of the candidates that come nearest to a target [B, C]."""

    state: Assignment
    shares: Floats


@dataclass(frozen=True)
class Course:
    """Instances to learn from.

    Args:
        bank: All of them; what is seen differs from what counts.
        pools: Plans of each [plans, L].
        wanted: Preferences with a target [N, each, 3].
        targets: The plan for each preference [N, each, L].
    """

    bank: Bank
    pools: tuple[Ints, ...]
    wanted: Floats
    targets: Ints

    @staticmethod
    def of(pairs: Sequence[Pair], generator: np.random.Generator, each: int = 6) -> "Course":
        """Plans for some preferences an instance; seconds for a hundred instances.

        A target is the best of integer programs and of what a search has found, improved by local
        search, for one preference.
        """
        bank = bank_of(
            [pair.shown for pair in pairs],
            [pair.start for pair in pairs],
            [pair.true for pair in pairs],
        )
        length = bank.starts.shape[1]
        pools = tuple(_rows([*plans(pair, generator), *pair.found], length) for pair in pairs)
        wanted = preferences(len(pairs) * each, generator).reshape(len(pairs), each, 3)
        found = [targets(bank, pools, wanted[:, n]) for n in range(each)]
        return Course(bank, pools, wanted, np.stack(found, axis=1))

    def lesson(self, count: int, generator: np.random.Generator) -> Lesson:
        """States on the way from some start to a target, without rollouts."""
        index = generator.integers(len(self.pools), size=count)
        which = generator.integers(self.targets.shape[1], size=count)
        bank, target = self.bank.take(index), self.targets[index, which]
        begin = self._begins(index, generator)
        moved = generator.random((count, 1)) * 1.15
        codes = np.where(generator.random(begin.shape) < moved, target, begin)
        other = self._others(bank, generator)
        codes = np.where(generator.random(codes.shape) < _NOISE * (moved < 1), other, codes)
        state = Assignment.begin(bank, self.wanted[index, which], codes)
        left = generator.integers(4, 25, size=count)
        state = Assignment(bank, state.preference, codes, left)
        return Lesson(state, nearer(bank.edits, codes, target))

    def tasks(self, count: int, generator: np.random.Generator) -> Assignment:
        """Instances, preferences and starts for rollouts."""
        index = generator.integers(len(self.pools), size=count)
        wanted = preferences(count, generator)
        return Assignment.begin(self.bank.take(index), wanted, self._begins(index, generator))

    def _begins(self, index: Ints, generator: np.random.Generator) -> Ints:
        """Half where searches begin, half a plan of the instance."""
        found = self.bank.starts[index]
        for row, n in enumerate(index):
            if generator.random() < 0.5:
                pool = self.pools[int(n)]
                found[row] = pool[int(generator.integers(len(pool)))]
        return found

    def _others(self, bank: Bank, generator: np.random.Generator) -> Ints:
        """Random alternatives that are there."""
        last = bank.static.last * bank.static.exists[:, :, 0]
        return np.floor(generator.random(last.shape) * (last + 1)).astype(np.int64)


def _rows(found: Sequence[Sequence[int]], length: int) -> Ints:
    rows = np.zeros((len(found), length), np.int64)
    for n, row in enumerate(found):
        rows[n, : len(row)] = row
    return rows
