"""What a policy could bring to the portfolio, and what one brings to models it has never seen.

    python benchmarks/policy_transfer.py --out FOLDER [--seeds 3] [--most 40]

Searches of the portfolio on every simulator are watched: what a policy would see at each turn, and
which plans are the best there for a drawn preference (a local search that asks the simulator as
often as it likes). For each model a policy imitates these on all *other* models. Then, each with
two places of a batch reserved:

    portfolio, oracle        proposes the best plans of this model's simulator: what is to be gained
    portfolio, transferred   the policy that has never seen this model
    portfolio, untrained     the same with random weights

against the portfolio without it, in paired seeds. Simulated. FOLDER keeps everything: interrupted,
the same command goes on.
"""

import argparse
import json
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import search as searches
from ablations import SOURCES
from recorded import Recording, SimulatedEstimator, Simulator, Space

from edgeopt.core.front import non_dominated
from edgeopt.search.policy import source
from edgeopt.search.policy.assignment import Assignment, bank_of, preferences, utility
from edgeopt.search.policy.course import Course, _rows
from edgeopt.search.policy.learner import Learner, Settings
from edgeopt.search.policy.network import fresh
from edgeopt.search.policy.rollout import rolled
from edgeopt.search.proposers import neighbours
from edgeopt.search.strategies.portfolio import Portfolio

MODELS = (
    *("digits", "minilm-l3", "oww-embedding", "oww-embedding-extended"),
    *("ppocr-cls", "segmentation", "silero-vad-sequence"),
)
TOGETHER = "-extended"
"""Two runtime settings of one model are held out together."""
KEPT, ROUNDS, BOUND = 60, 25, 0.05
WATCHED, DRAWN_BOUNDS, PREFERENCES = 60, 5, 6
LESSONS, STATES = 500, 48
RESERVED, UNTIL = 2, 40
POINTS = (20, 30, 40)
Codes = tuple[int, ...]
Floats = npt.NDArray[np.float64]
Proposes = Callable[[Any, int], list[Codes]]


def values(simulator: Simulator, plans: Sequence[Codes]) -> Floats:
    """Latency, size and loss [plans, 3] of plans; a gain is no loss."""
    found = np.array([simulator.true(plan) for plan in plans])
    found[:, 2] = np.maximum(found[:, 2], 0.0)
    return found


def best_plans(recording: Recording) -> list[Codes]:
    """Plans that no other dominates, as far as a local search finds them; spread over the front."""
    simulator = Simulator(recording)
    space = Space(recording, simulator)
    plans = list(dict.fromkeys(space.codes(c.recipe) for _, c in space.guesses()))
    for _ in range(ROUNDS):
        near = {new for plan in plans for new in neighbours(plan, recording.choices)}
        every = list(dict.fromkeys([*plans, *sorted(near)]))
        known = values(simulator, every)
        able = np.flatnonzero((known[:, 2] <= BOUND) & (known[:, :2] <= 1.2).all(axis=1))
        front = able[np.asarray(non_dominated(known[able]))]
        thinned = [every[i] for i in _spread(front, known)]
        if set(thinned) == set(plans):
            break
        plans = thinned
    return plans


def _spread(front: npt.NDArray[np.int64], known: Floats) -> list[int]:
    """At most `KEPT` of a front, each as far from the others as can be."""
    if len(front) <= KEPT:
        return [int(i) for i in front]
    scaled = known[front] / (np.ptp(known[front], axis=0) + 1e-9)
    chosen = [int(column.argmin()) for column in scaled.T]
    apart = ((scaled[:, None] - scaled[chosen]) ** 2).sum(axis=2).min(axis=1)
    while len(set(chosen)) < KEPT and apart.max() > 0:
        chosen.append(int(apart.argmax()))
        apart = np.minimum(apart, ((scaled - scaled[chosen[-1]]) ** 2).sum(axis=1))
    return [int(front[i]) for i in dict.fromkeys(chosen)]


class Watched(Portfolio):
    """Keeps what a policy would have seen."""

    views: list[tuple[Any, tuple[Codes, ...], tuple[Codes, ...]]]

    def _pool(self, view: Any) -> Any:
        told = tuple(view.archive.told)
        self.views.append((source.instance_of(view), tuple(source._begins(view)), told))
        return super()._pool(view)


def watched(recording: Recording, number: int) -> dict[str, Any]:
    """One search under a drawn bound: its views, and all plans that it measured."""
    generator = np.random.default_rng([len(recording.name), number])
    allowed = float(np.clip(generator.lognormal(np.log(0.01), 0.7), 0.003, 0.04))
    simulator = Simulator(recording, allowed)
    space = Space(recording, simulator)
    estimator = SimulatedEstimator(recording, space)
    strategy = Watched(space, number, simulator.objectives, estimator, SOURCES)
    strategy.views = []
    asked, count = [candidate for _, candidate in space.guesses()], 0
    while asked and count < WATCHED:
        rows = [space.codes(candidate.recipe) for candidate in asked]
        pairs = zip(asked, rows, strict=True)
        strategy.tell(
            [simulator.trial(count + n, one, row, number) for n, (one, row) in enumerate(pairs)]
        )
        count += len(asked)
        asked = strategy.ask(5)
    told = strategy.views[-1][2] if strategy.views else ()
    return {"allowed": allowed, "views": strategy.views, "told": told}


def lessons(known: Mapping[str, Any], names: Sequence[str]) -> Course:
    """States of the watched searches of some models, and the best plan for each preference."""
    generator = np.random.default_rng(7)
    shown, starts, pools, wanted, targets = [], [], [], [], []
    for name in names:
        simulator = Simulator(known[name]["recording"])
        for run in known[name]["runs"]:
            plans = list(dict.fromkeys([*known[name]["plans"], *run["told"]]))
            real = values(simulator, plans)
            gains = np.stack([real[:, 0] - 1, real[:, 2] / run["allowed"], real[:, 1] - 1], axis=1)
            for instance, begins, _ in run["views"]:
                drawn = preferences(PREFERENCES, generator)
                best = utility(gains[None], drawn[:, None, :]).argmax(axis=1)
                shown.append(instance)
                starts.append(begins[0])
                pools.append(begins)
                wanted.append(drawn)
                targets.append([plans[i] for i in best])
    bank = bank_of(shown, starts)
    width = bank.starts.shape[1]
    codes = np.stack([_rows(rows, width) for rows in targets])
    return Course(bank, tuple(_rows(pool, width) for pool in pools), np.array(wanted), codes)


def imitated(known: Mapping[str, Any], names: Sequence[str], path: Path) -> Any:
    """Weights that imitate on some models; read where they are there."""
    if path.exists():
        return pickle.loads(path.read_bytes())
    course = lessons(known, names)
    learner = Learner(fresh(0), Settings(seed=0, batch=STATES, lessons=LESSONS, rounds=0))
    losses = [learner.imitate(course) for _ in range(LESSONS)]
    print(
        f"{path.stem}: loss {np.mean(losses[:50]):.2f} -> {np.mean(losses[-50:]):.2f}", flush=True
    )
    found = learner.network.arrays()
    path.write_bytes(pickle.dumps(found))
    return found


def ends_of(weights: Any) -> Proposes:
    """Where rollouts of a policy end: half of them greedy."""

    def propose(view: Any, count: int) -> list[Codes]:
        begins = source._begins(view)
        bank = bank_of([source.instance_of(view)], [begins[0]])
        wanted = source._wanted(max(count, source._PLANS), view.generator)
        starts = source._starts(begins, wanted, bank.shown.values(np.array(begins, np.int64)))
        greedy = np.arange(len(wanted)) % 2 == 0
        state = Assignment.begin(bank, wanted, starts, source._STEPS)
        end = rolled(state, source.chooser(weights, view.generator, greedy)).end
        return list(dict.fromkeys(tuple(int(code) for code in row) for row in end.codes))

    return propose


class Reserved(Portfolio):
    """A few places of every batch are the policy's until some trials are known."""

    def _picked(self, selector: Any, count: int, origin: Any, quota: Any) -> Sequence[int]:
        early = len(self._archive.told) < UNTIL
        mine = selector.pick(RESERVED, origin, {"policy": RESERVED}) if early else []
        rest = selector.pick(count, origin, quota)
        return [*mine, *(index for index in rest if index not in set(mine))]


def beside(proposes: Callable[[str], Proposes]) -> Callable[..., Any]:
    """The portfolio with a policy that the model's name chooses."""

    def make(space: Any, *, seed: int, objectives: Any, estimator: Any = None) -> Any:
        sources = {"policy": proposes(space._recording.name), **SOURCES}
        return Reserved(space, seed, objectives, estimator, sources)

    return make


def known_of(folder: Path, name: str, recordings: Path) -> dict[str, Any]:
    """The recording of a model, its best plans, and what searches on it saw."""
    recording, path = Recording(recordings / f"{name}.json.gz"), folder / f"{name}.pkl"
    if path.exists():
        return {"recording": recording, **pickle.loads(path.read_bytes())}
    start = time.process_time()
    runs = [watched(recording, 1000 + number) for number in range(DRAWN_BOUNDS)]
    found = {"plans": best_plans(recording), "runs": runs}
    path.write_bytes(pickle.dumps(found))
    spent = time.process_time() - start
    print(f"{name}: {len(found['plans'])} plans, {spent:.0f} s of processor time", flush=True)
    return {"recording": recording, **found}


def main() -> None:
    """Watch, imitate, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recordings", type=Path, default=Path(__file__).parent / "recordings")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most", type=int, default=40)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    known = {name: known_of(given.out, name, given.recordings) for name in MODELS}
    weights: dict[str, Any] = {}
    for name in MODELS:
        group = name.removesuffix(TOGETHER)
        others = [one for one in MODELS if one.removesuffix(TOGETHER) != group]
        weights[name] = imitated(known, others, given.out / f"without-{group}.weights")
    variants: dict[str, Callable[..., Any]] = {
        "portfolio, oracle": beside(lambda name: lambda view, count: known[name]["plans"]),
        "portfolio, transferred": beside(lambda name: ends_of(weights[name])),
        "portfolio, untrained": beside(lambda name: ends_of(fresh(0))),
    }
    searches.VARIANTS = {**searches.VARIANTS, **variants}
    lines = compared(given, known, ["portfolio", *variants])
    for points in POINTS:
        key = f"hypervolume_{points}"
        against = searches.table_of(lines, "portfolio", key)
        print(f"\n{key.replace('_', ' at ')} evaluations, simulated; against portfolio")
        for name in variants:
            row = searches.compared(searches.table_of(lines, name, key), against, "hypervolume")
            if row is not None:
                print(searches.said(name, row))


def compared(
    given: argparse.Namespace, known: Mapping[str, Any], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Every cell, each once; on disk."""
    path = given.out / "runs.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(x["model"], x["strategy"], x["seed"]) for x in lines if x["most"] >= given.most}
    for seed in range(given.seeds):
        for model in known:
            for name in names:
                if (model, name, seed) not in done:
                    found = searches.curve(known[model]["recording"], name, seed, given.most)
                    lines.append(found)
                    with path.open("a") as file:
                        file.write(json.dumps(found) + "\n")
    return lines


if __name__ == "__main__":
    main()
