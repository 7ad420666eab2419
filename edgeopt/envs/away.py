"""What an environment makes of an evaluator that could not find something out.

The episode is truncated, and nothing follows from it for the action. A device that stays away is
not a matter of one episode, though: then the error is the caller's.
"""

from edgeopt.errors import DeviceError, EdgeOptError, InconclusiveError

UNKNOWN = (InconclusiveError, DeviceError)
"""What says nothing about the recipe that was asked for."""
TIMES = 3


class Away:
    """How often in a row the device was away."""

    def __init__(self) -> None:
        self._times = 0

    def answered(self) -> None:
        """The evaluator has found something out."""
        self._times = 0

    def why(self, error: EdgeOptError) -> str:
        """One sentence for `info["unknown"]`.

        Raises:
            DeviceError: The device was away for the third time in a row.
        """
        if isinstance(error, DeviceError):
            self._times += 1
            if self._times >= TIMES:
                raise error
        return str(error)
