"""One raw run: the agent's replies, and typed access to what metrics and verdicts read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Side = Literal["candidate", "baseline"]
SIDES: tuple[Side, ...] = ("candidate", "baseline")


def _blocks(reply: Mapping[str, Any], *sides: Side) -> list[Mapping[str, Any]]:
    return [block for side in sides for block in reply[side]["blocks"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRun:
    """Everything the device said about one candidate.

    Args:
        footprint: Reply of `footprint`.
        rounds: Replies of `bench`, one a fresh process.
        profile: Reply of `profile`; None where it was not asked or failed.
        baseline_profile: The baseline's under the candidate's settings; asked only where nodes of
            the candidate ran on another provider.
        pace: Reply of `pace`; None where no rate was given.
        waited: Reply of `idle` before all of it; None where nothing was waited for.
        cooled: Replies of `idle` between rounds.
    """

    footprint: Mapping[str, Any]
    rounds: Sequence[Mapping[str, Any]]
    profile: Mapping[str, Any] | None = None
    baseline_profile: Mapping[str, Any] | None = None
    pace: Mapping[str, Any] | None = None
    waited: Mapping[str, Any] | None = None
    cooled: Sequence[Mapping[str, Any]] = ()

    def blocks(self, side: Side) -> list[Mapping[str, Any]]:
        """All blocks of one side, round after round."""
        return [block for each in self.rounds for block in _blocks(each, side)]

    def all_blocks(self) -> list[Mapping[str, Any]]:
        """The blocks of both sides."""
        return self.blocks("candidate") + self.blocks("baseline")

    def watched_blocks(self) -> list[Mapping[str, Any]]:
        """All blocks, those at the user's rate included."""
        paced = [] if self.pace is None else [*_blocks(self.pace, *SIDES)]
        return self.all_blocks() + paced

    def times(self, side: Side) -> tuple[tuple[float, ...], ...]:
        """Raw seconds by block."""
        return tuple(tuple(map(float, block["times_s"])) for block in self.blocks(side))

    @property
    def round_numbers(self) -> tuple[int, ...]:
        """For each candidate block the round it ran in."""
        return tuple(
            number for number, each in enumerate(self.rounds) for _ in each["candidate"]["blocks"]
        )

    def fresh(self, key: str) -> tuple[float, ...]:
        """`load_s` or `first_run_s` of the candidate, one a process that opened it first.

        The second session of a process finds the runtime's own set-up done: on a small model its
        load takes a fifth of the first one's, so such rounds do not count.
        """
        found = [self.footprint[key]]
        found += [
            each["candidate"][key]
            for each in self.rounds
            if key in each["candidate"] and each["candidate"].get("opened") == 0
        ]
        return tuple(map(float, found))

    @property
    def batched(self) -> bool:
        """Whether the candidate's values are means over several runs."""
        return any(each["candidate"]["batch"] > 1 for each in self.rounds)

    @property
    def nodes(self) -> Sequence[Mapping[str, Any]]:
        """The nodes that the runtime executed; empty where they were not asked for."""
        return () if self.profile is None else self.profile["nodes"]

    @property
    def baseline_nodes(self) -> Sequence[Mapping[str, Any]]:
        """The baseline's nodes under the candidate's settings; empty where not asked for."""
        return () if self.baseline_profile is None else self.baseline_profile["nodes"]
