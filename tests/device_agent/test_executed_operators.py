"""The agent's profile and this machine's own reading of a model name the same operators."""

from pathlib import Path
from typing import Any

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.estimate.operators import operators_of
from edgeopt.graph.executed import executed
from edgeopt.measure.feeds import write_feeds
from edgeopt.targets.local import LocalTarget
from edgeopt.testing import graphs
from edgeopt.testing.target_exam import SETTINGS


def test_the_agent_and_this_machine_agree(tmp_path: Path) -> None:
    """Operators, attributes, types and shapes are equal: a table of one serves the other."""
    model = graphs.conv_chain()
    feeds = graphs.random_feeds(model)
    write_feeds(feeds, tmp_path / "feeds.npz")
    with LocalTarget() as target:
        reply: Any = target.request(
            "profile",
            deadline_s=60,
            model=target.put(graphs.write(model, tmp_path)),
            feeds=str(tmp_path / "feeds.npz"),
            settings=dict(SETTINGS),
            runs=2,
        )
    here = operators_of(
        executed(
            model,
            RuntimeSettings(optimization=str(SETTINGS.get("optimization", "all"))),
            feeds[0],
            runs=2,
        )
    )
    there = operators_of(reply["nodes"])
    assert [operator.key for operator, _ in there] == [operator.key for operator, _ in here]
    assert here
    assert any(operator.attributes for operator, _ in here)
    assert sum(operator.macs for operator, _ in here) > 0
