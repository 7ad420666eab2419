"""Processors as a setting of a session: the calling thread and those that the runtime makes."""

import os
from pathlib import Path
from typing import Any

import pytest

from edgeopt.targets.local import LocalTarget
from edgeopt.testing.target_exam import SETTINGS, bench_job, material
from tests.device_agent.in_agent import apart, in_agent

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="this system has no processor masks"
)
MINE = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def test_a_mask_is_set_and_taken_back() -> None:
    """Another setting without one gives back all that the process was given."""
    program = f"""
import os, affinity
answer = []
for settings in ({{"affinity": [{MINE[-1]}]}}, {{}}):
    count = affinity.apply(settings)
    answer.append([count, sorted(os.sched_getaffinity(0)), sorted(affinity.initial())])
"""
    assert in_agent(program) == [[1, [MINE[-1]], MINE], [len(MINE), MINE, MINE]]


@pytest.mark.parametrize(
    ("value", "code"), [([99999], "load_failed"), ("0", "bad_request"), ([True], "bad_request")]
)
def test_a_processor_that_is_not_there(value: Any, code: str) -> None:
    """It is told what there is; a wrong type is a defect of the host."""
    program = f"""
import affinity
from failures import JobError
try:
    affinity.apply({{"affinity": {value!r}}})
    answer = None
except JobError as error:
    answer = [error.code, error.text]
"""
    found, text = in_agent(program)
    assert found == code
    if code == "load_failed":
        assert text == f"processor 99999 is not there: this process may use {_words()}"


def _words() -> str:
    return ", ".join(map(str, MINE))


def test_two_sides_on_their_own_processors(tmp_path: Path) -> None:
    """Each side says how many it had; a side without a setting has all."""
    model, feeds = material(tmp_path)
    pinned = {**SETTINGS, "threads": 2, "affinity": [MINE[0]]}
    job = bench_job(str(model), str(feeds), settings=pinned)
    with LocalTarget(environment=apart(tmp_path)) as target:
        reply = target.request("bench", deadline_s=120, **job)
        missing = bench_job(str(model), str(feeds), settings={**pinned, "affinity": [99999]})
        refused = target.request("bench", deadline_s=120, **missing)
    assert (reply["candidate"]["processors"], reply["baseline"]["processors"]) == (1, len(MINE))
    assert reply["processors"] >= 1
    assert refused["error"]["code"] == "load_failed"
    assert refused["error"]["phase"] == "load candidate"
