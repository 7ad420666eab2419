"""Pre-training of the shipped policies: generated models, and recorded ones on random devices.

    python benchmarks/policy.py --out FOLDER [--seed 0]                   imitation, then groups
    python benchmarks/policy.py --out FOLDER --portfolio 3                imitates the portfolio too
    python benchmarks/policy.py --out FOLDER --ppo IMITATED.safetensors   MaskablePPO on from it

Models named in TRAINING give their choices, work, borders and damages; prices of work and how much
a damage costs are drawn for every instance. All other recordings are held out. Everything that a
policy is trained on is simulated. With `--portfolio` what so many searches of the portfolio find on
the simulators of the models in TRAINING is imitated too, where it is the best for an instance.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from recorded import Recording, SimulatedEstimator, Simulator, Space

from edgeopt.core.front import front_of
from edgeopt.estimate.work import PRICES_US
from edgeopt.plugins import STRATEGIES
from edgeopt.search.policy.course import Course
from edgeopt.search.policy.generated import Pair, blurred, generated, scaled
from edgeopt.search.policy.learner import Settings
from edgeopt.search.policy.network import fresh
from edgeopt.search.policy.source import family_of
from edgeopt.search.policy.tables import Instance
from edgeopt.search.policy.training import Training
from edgeopt.search.policy.weights import load

Floats = npt.NDArray[np.float64]
TRAINING = ("minilm-l3", "silero-vad-sequence")
RIDGE = 1.0


def on_a_random_device(recording: Recording, generator: np.random.Generator) -> Pair:
    """A recorded model with prices and an exponent of damage that are drawn."""
    known = recording.known
    prices = np.array([PRICES_US[name] for name in known["features"]])
    prices = prices * generator.lognormal(0.0, 0.7, len(prices))
    given = float(prices @ np.array(known["work_given"]))
    counts = np.array([len(choice) for choice in recording.choices])
    shape = (len(counts), int(counts.max()))
    cost, damage, size = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    hurts = np.array(known["damage"]) ** generator.uniform(0.4, 1.0)
    weights, at, column = _sizes(recording), 0, 0
    for i, count in enumerate(counts):
        alone = [float(prices @ np.array(work)) / given for work in known["work_alone"][i]]
        cost[i, :count] = np.array(alone) - alone[0]
        damage[i, 1:count] = hurts[at + 1 : at + count]
        size[i, 1:count] = weights[column : column + count - 1]
        at, column = at + int(count), column + int(count) - 1
    cost *= generator.lognormal(0.0, 0.25, shape)
    damage *= generator.lognormal(0.0, 0.4, shape)
    start = float(prices @ np.array(known["work_start"])) / given
    ones = [float(prices @ np.array(work[1])) / given for work in known["work_alone"]]
    edges = {
        (i, j): float(prices @ np.array(work)) / given + start - ones[i] - ones[j]
        for i, j, work in known["pairs"]
    }
    true = Instance(
        cost=cost,
        damage=scaled(damage, generator),
        size=size,
        edges=edges,
        counts=counts,
        families=np.array([family_of(choice.family) for choice in recording.choices]),
    )
    return blurred(true, tuple(known["start"]), generator)


def _sizes(recording: Recording) -> Floats:
    """What each alternative adds to the size, by ridge on what was recorded."""
    rows = recording.columns([row["codes"] for row in recording.rows])
    values = np.exp(recording.values()["size"]) - 1.0
    pull = RIDGE * np.eye(rows.shape[1])
    return np.asarray(np.linalg.solve(rows.T @ rows + pull, rows.T @ values))


def solutions(recording: Recording, searches: int, most: int) -> tuple[tuple[int, ...], ...]:
    """Plans on the fronts that the portfolio finds on a model's simulator, each once."""
    found: dict[tuple[int, ...], None] = {}
    for seed in range(searches):
        simulator = Simulator(recording)
        space = Space(recording, simulator)
        strategy = STRATEGIES.load("portfolio")(
            space,
            seed=seed,
            objectives=simulator.objectives,
            estimator=SimulatedEstimator(recording, space),
        )
        asked = [candidate for _, candidate in space.guesses()]
        trials = []
        while asked and len(trials) < most:
            codes = [space.codes(candidate.recipe) for candidate in asked]
            told = [
                simulator.trial(len(trials) + n, one, row, seed)
                for n, (one, row) in enumerate(zip(asked, codes, strict=True))
            ]
            strategy.tell(told)
            trials += told
            asked = strategy.ask(10)
        members = front_of(trials, simulator.objectives, "simulated").members
        found |= dict.fromkeys(space.codes(each.candidate.recipe) for each in members)
    return tuple(found)


def say(line: str) -> None:
    """Progress."""
    print(line, flush=True)


def main() -> None:
    """Train and say so."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recordings", type=Path, default=Path(__file__).parent / "recordings")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ppo", type=Path, help="weights that PPO begins with")
    parser.add_argument("--steps", type=int, default=12_000, help="of PPO")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--generated", type=int, default=120)
    parser.add_argument("--recorded", type=int, default=40)
    parser.add_argument("--lessons", type=int, default=1200)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--portfolio", type=int, default=0, help="searches a recorded model")
    parser.add_argument("--evaluations", type=int, default=80, help="of each of them")
    given = parser.parse_args()
    generator = np.random.default_rng([given.seed, 7])
    pairs = [generated(generator) for _ in range(given.generated)]
    for name in TRAINING:
        recording = Recording(given.recordings / f"{name}.json.gz")
        found = solutions(recording, given.portfolio, given.evaluations)
        print(f"{name}: {len(found)} plans of {given.portfolio} searches", flush=True)
        drawn = [on_a_random_device(recording, generator) for _ in range(given.recorded)]
        pairs += [replace(pair, found=found) for pair in drawn]
    course = Course.of(pairs, generator)
    print(f"{len(pairs)} instances, {course.targets.shape[1]} preferences each", flush=True)
    if given.ppo:
        from edgeopt.search.policy.ppo import PpoSettings, trained

        ppo = PpoSettings(seed=given.seed, steps=given.steps)
        trained(given.out, ppo, load(given.ppo), course, say, lambda: False)
        return
    settings = Settings(seed=given.seed, batch=64, lessons=given.lessons, rounds=given.rounds)
    origin = {
        "script": "benchmarks/policy.py",
        "instances": f"{given.generated} generated, {given.recorded} of each of {TRAINING}",
        "imitated": f"integer programs, local search, {given.portfolio} searches of the portfolio",
    }
    training = Training(given.out, settings, fresh(given.seed), origin, say)
    training.run(course, lambda: False)


if __name__ == "__main__":
    main()
