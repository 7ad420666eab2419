"""One minus the word error rate: insertions, deletions and substitutions of words."""

from collections.abc import Sequence

from edgeopt.data.error_rate import ErrorRate


class Wer(ErrorRate):
    """Words read right, split at white space; see `ErrorRate` for the options."""

    __slots__ = ()

    def units(self, text: str) -> Sequence[str]:
        """Words."""
        return text.split()


PLUGIN = Wer
