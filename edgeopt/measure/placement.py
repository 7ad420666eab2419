"""Where nodes ran: on the provider that was asked for, elsewhere, or hidden in an engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgeopt.core.measurement import Verdict
from edgeopt.measure.raw import RawRun

MARGIN = 0.05
"""By how much a candidate's share of time elsewhere may exceed the baseline's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """What ran outside of the provider.

    Args:
        count: Nodes that did.
        of: Nodes in all.
        share: Of the time; of the nodes where no time was recorded.
        operators: Theirs, at most five.
    """

    count: int
    of: int
    share: float
    operators: tuple[str, ...]


def fallback(nodes: Sequence[Mapping[str, Any]], provider: str) -> Fallback:
    """What of these nodes ran elsewhere."""
    elsewhere = [node for node in nodes if node["provider"] != provider]
    total = sum(float(node["time_s"]) for node in nodes)
    share = sum(float(node["time_s"]) for node in elsewhere) / total if total else 0.0
    if not total and nodes:
        share = len(elsewhere) / len(nodes)
    kinds = sorted({str(node["op"]) for node in elsewhere})
    return Fallback(count=len(elsewhere), of=len(nodes), share=share, operators=tuple(kinds[:5]))


def placed(raw: RawRun, provider: str) -> Verdict:
    """A candidate must not lose more time to other providers than the baseline does.

    What the provider does not take in the baseline either is no reason against a candidate. A
    provider that hides its nodes (compiles them into an engine) accuses nobody.
    """
    found = fallback(raw.nodes, provider)
    if not found.count:
        return Verdict()
    theirs = fallback(raw.baseline_nodes, provider).share
    everything = found.count == found.of
    if not everything and found.share <= theirs + MARGIN:
        return Verdict()
    reason = (
        f"fallback: {found.count} of {found.of} nodes ({found.share:.0%} of the time; "
        f"{', '.join(found.operators)}) ran outside of {provider}, {theirs:.0%} of the baseline's"
    )
    return Verdict(status="invalid" if everything else "suspect", reasons=(reason,))


def placement_text(raw: RawRun, provider: str) -> str:
    """Where nodes ran, in words."""
    found = fallback(raw.nodes, provider)
    compiled = raw.profile is not None and raw.profile.get("compiled")
    if not found.of:
        return "unknown: the provider does not tell its nodes"
    if not found.count and (compiled or found.of == 1):
        inside = "which hides the nodes inside" if compiled else "as one node"
        return f"all of it on {provider}, {inside}"
    if not found.count:
        return f"all {found.of} nodes on {provider}"
    inside = found.of - found.count
    return f"{inside} of {found.of} nodes on {provider}, {found.share:.0%} of the time elsewhere"
