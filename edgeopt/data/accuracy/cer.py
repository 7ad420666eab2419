"""One minus the character error rate: insertions, deletions and substitutions over all lengths."""

from edgeopt.data.error_rate import ErrorRate


class Cer(ErrorRate):
    """Characters read right; see `ErrorRate` for the options."""

    __slots__ = ()


PLUGIN = Cer
