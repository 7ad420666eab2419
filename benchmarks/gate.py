"""How often the gate is wrong: a model against itself, and against itself slowed down.

    python benchmarks/gate.py [--runs 2000] [--slowdown 0.1] [--allowed 0.05]
    python benchmarks/gate.py --real MODEL.onnx --data DATA.npz [--runs 20] [--device local]

Without --real the device is simulated; what follows a measurement is the gate's own code. Every
process has a luck of its own (two sessions of one file differ for their whole life), the machine
drifts slowly through all of them and stalls now and then, and neighbouring runs are alike (an
autoregressive process).

With --real everything is: `edgeopt gate check` with the file as base model, first on the same net
under another digest, then on one that does the given share more work and computes the same.
"""

import argparse
import datetime
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeopt.api.gate_measured import decided
from edgeopt.api.gate_question import Question
from edgeopt.core.measurement import Value, Verdict
from edgeopt.core.model import Model
from edgeopt.core.samples import Samples
from edgeopt.gate.budget import METRICS, Budget
from edgeopt.gate.verdict import UNDECIDED, judge
from edgeopt.measure.runner import Outcome

TODAY = datetime.date(2027, 1, 31)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What a board does to times, as shares of them.

    Args:
        luck: Of a process with one model: memory placement.
        drift: Step of the machine's own walk from block to block, felt by both models alike.
        alike: Correlation of a run with the one before it.
        spread: Of single runs.
        stall: Chance that a block pair is disturbed on one side only.
        stall_share: By how much.
    """

    luck: float = 0.02
    drift: float = 0.01
    alike: float = 0.7
    spread: float = 0.03
    stall: float = 0.03
    stall_share: float = 0.3


def drawn(
    generator: np.random.Generator, slowdown: float, noise: Noise, rounds: int = 3, pairs: int = 3
) -> Samples:
    """One measurement of protocol `normal` on a simulated device."""
    mine: list[tuple[float, ...]] = []
    theirs: list[tuple[float, ...]] = []
    numbers: list[int] = []
    state = 0.0
    for number in range(rounds):
        lucks = generator.normal(0, noise.luck, 2)
        for _ in range(pairs):
            for side, luck, slow in ((mine, lucks[0], slowdown), (theirs, lucks[1], 0.0)):
                state += float(generator.normal(0, noise.drift))
                stalled = noise.stall_share * (generator.random() < noise.stall)
                runs = _alike(generator, 20, noise)
                side.append(tuple(0.01 * (1 + slow) * np.exp(luck + state + stalled + runs)))
            numbers.append(number)
    return Samples(unit="s", blocks=tuple(mine), baseline=tuple(theirs), rounds=tuple(numbers))


def _alike(generator: np.random.Generator, count: int, noise: Noise) -> np.ndarray:
    found = np.empty(count)
    last = 0.0
    steps = generator.normal(0, noise.spread * (1 - noise.alike**2) ** 0.5, count)
    for index, step in enumerate(steps):
        last = noise.alike * last + step
        found[index] = last
    return found


def simulated(seed: int, slowdown: float, allowed: float, noise: Noise) -> str:
    """The status that one gate run ends with."""
    generator = np.random.default_rng(seed)
    budget = Budget(id="latency", metric=METRICS["latency.p50"], device="simulated", change=allowed)

    def once() -> Outcome:
        samples = drawn(generator, slowdown, noise)
        value = Value(value=samples.median, unit="s", samples=samples)
        return Outcome(
            values={"latency": value},
            absent={},
            verdict=Verdict(),
            environment={},
            profile=None,
            device_s=0.0,
        )

    return _status(budget, once)


def _status(budget: Budget, once: Callable[[], Outcome]) -> str:
    question = Question(
        config=Path("edgeopt.toml"),
        device=budget.device,
        model=_model("mine"),
        base=_model("base"),
        budgets=(budget,),
        data=None,
        protocol="normal",
        folder=Path(),
        time_s=0.0,
    )
    found = decided(
        question,
        once,
        lambda evidence: judge(budget, evidence[budget.id], today=TODAY).status in UNDECIDED,
        lambda: False,
    )
    return judge(budget, found[budget.id], today=TODAY).status


def _model(digest: str) -> Model:
    return Model(path=Path(digest), digest=digest, opset=17, inputs=(), outputs=(), size_bytes=0)


def main() -> None:
    """Count verdicts of both kinds of runs."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=0, help="of each kind: 2000, or 20 real ones")
    options.add_argument("--slowdown", type=float, default=0.10)
    options.add_argument("--allowed", type=float, default=0.05)
    options.add_argument("--real", type=Path, default=None, metavar="MODEL")
    options.add_argument("--data", default="")
    options.add_argument("--device", default="local")
    options.add_argument("--time", type=float, default=300.0, help="seconds of one real run")
    options.add_argument("--protocol", default="normal")
    given = options.parse_args()
    if given.real is not None:
        _real(given)
        return
    runs = given.runs or 2000
    for name, slow in (("itself", 0.0), (f"{given.slowdown:.0%} slower", given.slowdown)):
        statuses = Counter(simulated(seed, slow, given.allowed, Noise()) for seed in range(runs))
        told = ", ".join(f"{status} {n / runs:.2%}" for status, n in statuses.most_common())
        print(f"{runs} runs against {name}, {given.allowed:.0%} allowed: {told}", flush=True)


def _real(given: argparse.Namespace) -> None:
    import gate_real  # what a simulation needs not: onnx, and the folder beside this file

    gate_real.run(
        gate_real.Real(
            model=given.real,
            data=given.data,
            device=given.device,
            runs=given.runs or 20,
            slowdown=given.slowdown,
            allowed=given.allowed,
            time_s=given.time,
            protocol=given.protocol,
        )
    )


if __name__ == "__main__":
    main()
