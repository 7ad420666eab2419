"""Fallback by share of the time against the baseline, and providers that hide their nodes."""

from typing import Any

import pytest
from measure_rounds import bench, block

from edgeopt.measure.placement import placed, placement_text
from edgeopt.measure.raw import RawRun

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


def node(provider: str, time_s: float = 1.0, operator: str = "Conv") -> dict[str, Any]:
    return {"op": operator, "provider": provider, "time_s": time_s}


def raw(
    nodes: list[dict[str, Any]] | None, baseline: list[dict[str, Any]] | None = None, **more: Any
) -> RawRun:
    return RawRun(
        footprint={},
        rounds=[bench([block()] * 4, [block()] * 4)],
        profile=None if nodes is None else {"nodes": nodes, **more},
        baseline_profile=None if baseline is None else {"nodes": baseline},
    )


@pytest.mark.parametrize(
    ("elsewhere_s", "baseline_s", "status"),
    [(0.04, 0.0, "valid"), (0.30, 0.0, "suspect"), (0.30, 0.27, "valid"), (0.30, 0.10, "suspect")],
)
def test_fallback_counts_against_the_baselines(
    elsewhere_s: float, baseline_s: float, status: str
) -> None:
    """Five points more than the baseline loses are suspect; what it loses too is no reason."""

    def nodes(away_s: float) -> list[dict[str, Any]]:
        return [node(CUDA, 1 - away_s), *([node(CPU, away_s, "NonZero")] if away_s else [])]

    found = placed(raw(nodes(elsewhere_s), nodes(baseline_s)), CUDA)
    assert found.status == status
    if status == "suspect":
        assert "1 of 2 nodes (30% of the time; NonZero)" in found.reasons[0]


def test_everything_elsewhere_is_invalid() -> None:
    """Also where the baseline does no better: the provider that was asked for did nothing."""
    assert placed(raw([node(CPU)] * 3, [node(CPU)] * 3), CUDA).status == "invalid"


def test_nodes_without_times_count_by_number() -> None:
    """An old runtime that records no duration still tells where a node ran."""
    nodes = [node(CUDA, 0.0), node(CPU, 0.0)]
    assert placed(raw(nodes), CUDA).status == "suspect"


@pytest.mark.parametrize(
    ("nodes", "more", "text"),
    [
        (None, {}, "unknown: the provider does not tell its nodes"),
        ([], {"compiled": True}, "unknown: the provider does not tell its nodes"),
        ([node(CUDA)], {}, f"all of it on {CUDA}, as one node"),
        ([node(CUDA)] * 2, {"compiled": True}, f"all of it on {CUDA}, which hides the nodes"),
        ([node(CUDA)] * 2, {}, f"all 2 nodes on {CUDA}"),
        ([node(CUDA, 3.0), node(CPU)], {}, f"1 of 2 nodes on {CUDA}, 25% of the time elsewhere"),
    ],
)
def test_placement_in_words(
    nodes: list[dict[str, Any]] | None, more: dict[str, Any], text: str
) -> None:
    """A provider that hides its nodes is called unknown, and accuses nobody."""
    run = raw(nodes, **more)
    assert placement_text(run, CUDA).startswith(text)
    if nodes is None or len(nodes) < 2:
        assert placed(run, CUDA).status == "valid"
