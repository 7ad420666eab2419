"""Plans to imitate: integer programs and local search on what counts, which a pupil never sees."""

from collections.abc import Sequence

import numpy as np

from edgeopt.search.policy.assignment import Assignment, Bank, utility
from edgeopt.search.policy.generated import Pair
from edgeopt.search.policy.source import table_of
from edgeopt.search.policy.tables import Edits, Floats, Ints, changes
from edgeopt.search.program import best
from edgeopt.search.table import Table

_BUDGETS = (1.0, 0.5, 0.2, 3.0)
_SIZES = (0.0, 0.6, 0.3, 0.0)
_CLIMB = 40


def plans(pair: Pair, generator: np.random.Generator, count: int = 3) -> list[tuple[int, ...]]:
    """Solutions of integer programs for some of the budgets and weights of the size."""
    true = table_of(pair.true)
    found: list[tuple[int, ...]] = [pair.start]
    order: list[int] = generator.permutation(len(_BUDGETS)).tolist()
    for number in order[:count]:
        weight = _SIZES[number]
        cost = tuple(
            tuple(c + weight * float(s) for c, s in zip(costs, sizes, strict=False))
            for costs, sizes in zip(true.cost, pair.true.size, strict=True)
        )
        codes = best(Table(cost, true.damage, true.edges), _BUDGETS[number], ())
        if codes is not None:
            found.append(codes)
    return list(dict.fromkeys(found))


def targets(bank: Bank, pools: Sequence[Ints], preference: Floats) -> Ints:
    """For each instance and preference [B, 3] the best of its pool, improved by local search."""
    most = max(len(pool) for pool in pools)
    padded = np.stack([pool[np.arange(most) % len(pool)] for pool in pools])
    values = np.stack([bank.worth.values(padded[:, n]) for n in range(most)], axis=1)
    pick = utility(values, preference[:, None, :]).argmax(axis=1)
    return climbed(bank, padded[np.arange(len(pools)), pick], preference)


def climbed(bank: Bank, codes: Ints, preference: Floats, most: int = _CLIMB) -> Ints:
    """The best edit again and again, until none gains."""
    state = Assignment.begin(bank, preference, codes, most + 1)
    for _ in range(most):
        now = bank.worth.values(state.codes)
        changed, _ = changes(bank.worth, bank.edits, state.codes)
        then = utility(now[:, None, :] + changed, preference[:, None, :])
        gained = then - utility(now, preference)[:, None]
        gained = np.where(state.observe().valid > 0, gained, 0.0)
        action = np.where(gained.max(axis=1) > 1e-6, gained.argmax(axis=1), 0)
        state, _ = state.step(action)
        if state.done.all():
            break
    return state.codes


def nearer(edits: Edits, codes: Ints, target: Ints) -> Floats:
    """Shares [B, C] of the candidates that come nearest to a target: STOP where it is reached.

    All edits with the largest decrease of the number of differing choices count alike.
    """
    rows = np.arange(len(codes))[:, None]
    apart = (codes != target).astype(np.int64)
    goal = (edits.code == target[rows, edits.choice]).astype(np.int64)
    single = np.where(edits.single, apart[rows, edits.choice] - (1 - goal), -9)
    sets = np.where(edits.macro >= 0, edits.macro, codes[:, None, :])
    macro = apart.sum(axis=1)[:, None] - (sets != target[:, None, :]).sum(axis=2)
    macro = np.where(edits.kind >= 0, macro, -9)
    stop = (apart.sum(axis=1, keepdims=True) == 0).astype(np.int64)
    gain = np.concatenate([stop, single, macro], axis=1)
    good = (gain == gain.max(axis=1, keepdims=True)) & (gain > 0)
    return good / good.sum(axis=1, keepdims=True)
