"""Whose candidates are measured next."""

from collections.abc import Iterator, Sequence

from edgeopt.api.turns import turns
from edgeopt.core.action import Recipe
from edgeopt.core.candidate import Candidate

GIVEN = Candidate(recipe=Recipe(baseline="sha256:" + "0" * 64))


def _batches(*sizes: int) -> Iterator[Sequence[Candidate]]:
    return iter([(GIVEN,) * size for size in sizes])


def _told(*strategies: tuple[str, Iterator[Sequence[Candidate]]], alone: int) -> str:
    found = turns([(name, None, batches) for name, batches in strategies], alone)
    return " ".join(f"{name}{len(batch)}" for name, _, batch in found)


def test_first_guesses_then_in_turn() -> None:
    """So many of the first, then a batch each, until nobody has ideas."""
    told = _told(("s", _batches(3, 3, 1, 1, 1)), ("p", _batches(5, 5)), alone=5)
    assert told == "s3 s3 p5 s1 p5 s1 s1"


def test_a_first_strategy_with_few_ideas() -> None:
    """The others go on where it has ended, alone or with others."""
    told = _told(("s", _batches(2)), ("p", _batches(5, 5)), ("r", _batches(1)), alone=5)
    assert told == "s2 p5 r1 p5"


def test_what_is_made_late_is_made_after_the_others_had_a_turn() -> None:
    """A guess behind the first ones is not even made before."""
    made: list[str] = []

    def costly() -> Iterator[Sequence[Candidate]]:
        for name in ("cheap", "costly"):
            made.append(name)
            yield (GIVEN,)

    found = turns([("s", None, costly()), ("p", None, _batches(5))], 1)
    next(found)
    next(found)
    assert made == ["cheap"]


def test_who_waits_has_another_turn_while_others_have_ideas() -> None:
    """An empty batch takes nobody out, and nobody waits when all others have ended."""
    told = _told(
        ("s", _batches(2)), ("w", _batches(0, 0, 3, 0, 0, 0)), ("p", _batches(5, 5)), alone=2
    )
    assert told == "s2 p5 p5 w3"


def test_who_waits_alone_ends_the_search() -> None:
    """Nobody else will find anything any more."""
    assert _told(("s", _batches(2)), ("w", _batches(0, 0, 3)), alone=2) == "s2"


def test_who_takes_up_what_was_found_has_a_turn_behind_every_first_guess() -> None:
    """From the second on, before the first ones are through; who has nothing takes no turn."""
    told = _told_early(("s", _batches(1, 1, 1, 2)), ("r", _batches(0, 1, 0)), ("p", _batches(5)))
    assert told == "s1 s1 s1 r1 s2 p5"


def _told_early(*strategies: tuple[str, Iterator[Sequence[Candidate]]]) -> str:
    found = turns([(name, None, batches) for name, batches in strategies], 5, early={"r"}, behind=2)
    return " ".join(f"{name}{len(batch)}" for name, _, batch in found)
