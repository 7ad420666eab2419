"""One raw run: the agent's replies, and typed access to what metrics and verdicts read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Side = Literal["candidate", "baseline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRun:
    """Everything the device said about one candidate.

    Args:
        footprint: Reply of `footprint`.
        rounds: Replies of `bench`, one a fresh process.
        profile: Reply of `profile`; None where it was not asked or failed.
    """

    footprint: Mapping[str, Any]
    rounds: Sequence[Mapping[str, Any]]
    profile: Mapping[str, Any] | None = None

    def blocks(self, side: Side) -> list[Mapping[str, Any]]:
        """All blocks of one side, round after round."""
        return [block for each in self.rounds for block in each[side]["blocks"]]

    def all_blocks(self) -> list[Mapping[str, Any]]:
        """The blocks of both sides."""
        return self.blocks("candidate") + self.blocks("baseline")

    def times(self, side: Side) -> tuple[tuple[float, ...], ...]:
        """Raw seconds by block."""
        return tuple(tuple(map(float, block["times_s"])) for block in self.blocks(side))

    @property
    def round_numbers(self) -> tuple[int, ...]:
        """For each candidate block the round it ran in."""
        return tuple(
            number for number, each in enumerate(self.rounds) for _ in each["candidate"]["blocks"]
        )

    @property
    def batched(self) -> bool:
        """Whether the candidate's values are means over several runs."""
        return any(each["candidate"]["batch"] > 1 for each in self.rounds)

    @property
    def nodes(self) -> Sequence[Mapping[str, Any]]:
        """The nodes that the runtime executed; empty where they were not asked for."""
        return () if self.profile is None else self.profile["nodes"]
