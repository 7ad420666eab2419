"""Whose candidates come next: what a person would try first, then every strategy in turn."""

from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

from edgeopt.core.candidate import Candidate

S = TypeVar("S")
Batches = Iterator[Sequence[Candidate]]
ALONE = 12
"""Candidates of the first strategy before the others have a turn. Counted and not timed, so that a
resumed search asks the same."""
BEHIND = 5
"""The given model and the ways to have everything in integers."""


def turns(
    strategies: Sequence[tuple[str, S, Batches]],
    alone: int = ALONE,
    early: Collection[str] = (),
    behind: int = BEHIND,
) -> Iterator[tuple[str, S, Sequence[Candidate]]]:
    """Batches with the strategy they are of, until nobody has ideas.

    The first strategy has its first candidates alone, then all take turns, a batch each, the
    others first: what comes late among first guesses takes minutes to make on some models, and
    must not use up the search. An empty batch is of one who waits for what others find: its turn
    comes again while others have ideas.

    Args:
        strategies: By name, with their batches.
        alone: Candidates of the first one before the others have a turn.
        early: Those of the others that have one behind every batch of the first one, since they
            take up at once what it found,
        behind: once it had so many candidates: of several ways to quantize one may need nothing.
    """
    first, *others = strategies
    asked = 0
    while asked < alone and (batch := next(first[2], None)) is not None:
        asked += len(batch)
        yield first[0], first[1], batch
        for name, strategy, batches in others if asked >= behind else ():
            if name in early and (more := next(batches, None)):
                yield name, strategy, more
    open_ = [*others, first]
    found = True
    while found:
        found = False
        for turn in list(open_):
            name, strategy, batches = turn
            batch = next(batches, None)
            if batch is None:
                open_.remove(turn)
            elif batch:
                found = True
                yield name, strategy, batch
