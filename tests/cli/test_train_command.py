"""`edgeopt train --method ppo` from the command line: interrupted, continued, the same weights."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from edgeopt.search.policy.weights import POLICY, load

pytest.importorskip("torch", reason="training needs torch: pip install 'edgeopt[rl]'")
pytest.importorskip("sb3_contrib", reason="needs sb3-contrib: pip install 'edgeopt[rl]'")
pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'edgeopt[rl]'")

STEPS = 1024
"""Two rollouts."""


TRAIN = ["train", "--method", "ppo", "--instances", 2, "--steps", STEPS, "--json"]


def interrupt_when_it_learns(folder: Path) -> threading.Thread:
    """Ctrl-C once, while the first rollout is under way."""

    def wait() -> None:
        end = time.monotonic() + 300.0
        while not any(folder.glob("tensorboard/*")) and time.monotonic() < end:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_an_interrupted_training_is_continued_by_the_same_command(edgeopt_here, tmp_path: Path):
    """It says that it was stopped, goes on, and ends with the weights of one that was not."""
    whole = edgeopt_here(*TRAIN, "--out", "whole")
    assert whole.code == 0, whole.err
    thread = interrupt_when_it_learns(tmp_path / "part")
    stopped = edgeopt_here(*TRAIN, "--out", "part")
    thread.join()
    assert "press Ctrl-C again" in stopped.err
    assert json.loads(stopped.out)["finished"] is False
    policy = Path("part") / POLICY
    done = int(load(tmp_path / policy).origin["ppo_steps"])
    assert done < STEPS
    again = edgeopt_here(*TRAIN, "--out", "part")
    assert again.code == 0, again.err
    assert f"going on after step {done}" in again.err
    told = {"schema_version": 1, "policy": str(policy), "strategy": "rl", "finished": True}
    assert json.loads(again.out) == told
    first, second = load(tmp_path / "whole" / POLICY), load(tmp_path / policy)
    assert first.origin["ppo_steps"] == second.origin["ppo_steps"] == str(STEPS)
    for name, values in first.weights.items():
        assert np.array_equal(values, second.weights[name]), name
    refused = edgeopt_here(*TRAIN, "--out", "part", "--seed", 1)
    assert refused.code == 2
    assert "of other instances" in refused.err
    assert "--fresh" in refused.err
