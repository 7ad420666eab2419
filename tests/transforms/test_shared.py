"""An iterator that many read and nobody makes twice."""

import itertools

from edgeopt.transforms.shared import Shared


def test_readers_begin_at_the_start_and_make_what_they_reach() -> None:
    """Interleaved, and over the end."""
    made: list[int] = []

    def source():
        for number in range(4):
            made.append(number)
            yield number

    shared = Shared(source())
    assert made == []
    one, other = iter(shared), iter(shared)
    assert list(itertools.islice(one, 2)) == [0, 1]
    assert made == [0, 1]
    assert list(other) == [0, 1, 2, 3]
    assert list(one) == [2, 3]
    assert list(shared) == made == [0, 1, 2, 3]
