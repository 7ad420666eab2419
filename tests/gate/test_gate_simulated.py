"""Whole gate runs on a simulated device: noise alone fails nothing, a slowdown never passes."""

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "gate.py"


@pytest.fixture(scope="module")
def benchmark():
    """The benchmark's simulation, with the gate's own decisions."""
    spec = importlib.util.spec_from_file_location("gate_benchmark", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_a_model_against_itself(benchmark):
    """At most 1 % fail; the benchmark runs thousands."""
    found = Counter(benchmark.simulated(seed, 0.0, 0.05, benchmark.Noise()) for seed in range(60))
    assert found["fail"] == 0
    assert found["pass"] >= 55


def test_ten_per_cent_slower(benchmark):
    """None passes, nearly all fail."""
    found = Counter(benchmark.simulated(seed, 0.1, 0.05, benchmark.Noise()) for seed in range(60))
    assert found["pass"] == 0
    assert found["fail"] >= 57


def test_on_a_very_noisy_board_it_is_undecided(benchmark):
    """Five times the noise: neither is claimed often, and never wrongly."""
    loud = benchmark.Noise(luck=0.1, drift=0.05, spread=0.15, stall=0.15)
    itself = Counter(benchmark.simulated(seed, 0.0, 0.03, loud) for seed in range(15))
    slower = Counter(benchmark.simulated(seed, 0.1, 0.03, loud) for seed in range(15))
    assert itself["fail"] == 0
    assert slower["pass"] == 0
    assert itself["inconclusive"] + slower["inconclusive"] > 0
