"""The batched assignment problem: B plans at once, each for one preference.

A step sets one alternative (or several of one kind: a macro) or stops. What is seen comes from
the shown tables; what counts is the difference of a potential on the tables behind `worth`, which
are the same in a search and the simulated device's own in training. Every array of an observation
may have a first axis of 1 where all plans share it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from edgeopt.search.policy.observation import Observation, Seen, Static, observed, static_of
from edgeopt.search.policy.tables import (
    Edits,
    Floats,
    Instance,
    Ints,
    Tables,
    changes,
    edits_of,
    stacked,
)

STEPS = 24
STEP_COST = 0.0015
_EVEN = 0.1
_BEYOND = 2.0


def utility(values: Floats, preference: Floats) -> Floats:
    """Augmented Chebyshev of cost, damage and size, with a steep loss beyond what is allowed.

    Args:
        values: [..., 3]: relative changes of cost and size, damage over what is allowed.
        preference: [..., 3], of the same shape or one that fits it; the sum is 1.

    Returns:
        [...]: the greater the better.
    """
    ratios = values + np.array([1.0, 0.0, 1.0])
    weighted = preference * np.maximum(ratios, 0.0)
    beyond = np.log1p(np.maximum(values[..., 1] - 1.0, 0.0))
    whole = weighted.max(axis=-1) + _EVEN * weighted.sum(axis=-1) + _BEYOND * beyond
    return np.asarray(-whole, dtype=np.float64)


def preferences(count: int, generator: np.random.Generator, least: float = 0.04) -> Floats:
    """Weights [count, 3] of cost, damage and size, drawn towards the corners."""
    drawn = generator.dirichlet((0.9, 0.7, 0.6), size=count)
    return np.asarray(least + (1 - 3 * least) * drawn, dtype=np.float64)


@dataclass(frozen=True)
class Bank:
    """Instances, ready to be taken from.

    Args:
        shown, worth: What is seen, and what counts.
        edits, static: Candidates, and what no step changes.
        starts: Plans [N, L] with everything exact on.
        lengths: Choices of each [N].
    """

    shown: Tables
    worth: Tables
    edits: Edits
    static: Static
    starts: Ints
    lengths: Ints

    def take(self, index: Ints) -> "Bank":
        """Some instances, in that order."""
        return Bank(
            self.shown.take(index),
            self.worth.take(index),
            self.edits.take(index),
            self.static.take(index),
            self.starts[index],
            self.lengths[index],
        )


def bank_of(
    shown: Sequence[Instance], starts: Sequence[Sequence[int]], worth: Sequence[Instance] = ()
) -> Bank:
    """A bank of instances and their starts; `worth` is what counts, else what is shown."""
    tables, edits = stacked(shown), edits_of(shown)
    length = tables.cost.shape[1]
    codes = np.zeros((len(shown), length), np.int64)
    for n, start in enumerate(starts):
        codes[n, : len(start)] = start
    return Bank(
        shown=tables,
        worth=stacked(worth) if worth else tables,
        edits=edits,
        static=static_of(shown, tables, edits),
        starts=codes,
        lengths=np.array([len(one.counts) for one in shown], np.int64),
    )


@dataclass(frozen=True)
class Assignment:
    """Plans under way.

    Args:
        bank: One instance a plan, or one for all.
        preference: [B, 3].
        codes: [B, L].
        left: Steps that each may still take [B].
    """

    bank: Bank
    preference: Floats
    codes: Ints
    left: Ints

    @staticmethod
    def begin(bank: Bank, preference: Floats, codes: Ints, steps: int = STEPS) -> "Assignment":
        """All plans with all their steps."""
        return Assignment(bank, preference, codes, np.full(len(codes), steps, np.int64))

    @property
    def done(self) -> npt.NDArray[np.bool_]:
        """Which have stopped [B]."""
        return self.left <= 0

    def potential(self) -> Floats:
        """What counts [B]."""
        return utility(self.bank.worth.values(self.codes), self.preference)

    def observe(self) -> Observation:
        """What the policy sees."""
        values = self.bank.shown.values(self.codes)
        changed, border = changes(self.bank.shown, self.bank.edits, self.codes)
        now = utility(values, self.preference)
        then = values[:, None, :] + changed
        gained = utility(then, self.preference[:, None, :]) - now[:, None]
        seen = Seen(
            codes=self.codes,
            preference=self.preference,
            left=self.left / STEPS,
            values=values,
            utility=now,
            changed=changed,
            border=border,
            gained=gained,
        )
        return observed(self.bank.shown, self.bank.edits, self.bank.static, seen)

    def step(self, action: Ints) -> tuple["Assignment", Floats]:
        """After one candidate each [B]; plans that have stopped stay as they are.

        Returns:
            The next state, and the rewards [B]: the difference of the potential less the cost of
            a step. Their sum over an episode is that of its ends.
        """
        chosen = np.where(self.done, 0, action)
        codes = self.bank.edits.after(self.codes, chosen)
        left = np.where(chosen == 0, 0, self.left - 1)
        after = replace(self, codes=codes, left=left)
        cost = STEP_COST * (chosen > 0)
        return after, after.potential() - self.potential() - cost
