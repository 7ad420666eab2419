"""All strategies at equal evaluations, on simulators fitted to recorded trials. Simulated.

    python benchmarks/search.py run --out RUNS.jsonl [--model NAME] [--strategy NAME] [--seeds 10]
    python benchmarks/search.py show RUNS.jsonl [--json FILE]

`run` adds lines to a file and leaves out what is there already, so that it can be stopped and
started. Every strategy is first told the first guesses, as in a study, and they count. Quality is
by true values of what looks best by measured ones: the hypervolume of the feasible front (latency
and size below 1.1 of the given model's, at most one point of accuracy lost), and the latency of
the fastest feasible candidate. `show` prints interquartile means over models and seeds with
stratified bootstrap intervals, differences and probabilities of improvement against a reference.
"""

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ablations import ABLATIONS
from policies import POLICIES
from recorded import Recording, SimulatedEstimator, Simulator, Space

from edgeopt.core.candidate import Candidate
from edgeopt.core.front import front_of
from edgeopt.core.indicators import hypervolume
from edgeopt.core.trial import Trial
from edgeopt.plugins import STRATEGIES

Floats = npt.NDArray[np.float64]
BUDGETS = (20, 40, 120, 300)
"""The first is what an hour leaves where each build takes 180 s."""
POINTS = (10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120, 150, 200, 250, 300)
"""Where a hypervolume curve is read."""
BATCH = 10
NAMES = ("random", "nsga2", "local", "ladder", "ilp", "planner", "rl_group", "rl", "portfolio")
VARIANTS = {**ABLATIONS, **POLICIES}
FEWEST = 300
"""Recorded rows that a simulator stands on, at least."""
REFERENCE = 1.1
RESAMPLES = 2000


def curve(recording: Recording, name: str, seed: int, most: int) -> dict[str, Any]:
    """Both measures at each budget, and how well was predicted."""
    simulator = Simulator(recording)
    space = Space(recording, simulator)
    factory = VARIANTS.get(name) or STRATEGIES.load(name)
    strategy = factory(
        space,
        seed=seed,
        objectives=simulator.objectives,
        estimator=SimulatedEstimator(recording, space),
    )
    measured = partial(_measured, simulator, space, seed)
    trials = measured([candidate for _, candidate in space.guesses()], 0)
    strategy.tell(trials)
    start = time.process_time()
    found: dict[str, Any] = {"model": recording.name, "strategy": name, "seed": seed, "most": most}
    for budget in (each for each in POINTS if each <= most):
        while len(trials) < budget:
            asked = strategy.ask(min(BATCH, budget - len(trials)))
            if not asked:
                break
            told = measured(asked, len(trials))
            strategy.tell(told)
            trials += told
        found[f"hypervolume_{budget}"] = round(volume(simulator, space, trials), 5)
        found[f"fastest_{budget}"] = round(fastest(simulator, space, trials), 5)
    found["cpu_s"] = round(time.process_time() - start, 1)
    for accord in getattr(strategy, "accords", ()):
        found[f"rank_{accord.metric}"] = accord.rank_correlation
        found[f"within_{accord.metric}"] = accord.within
    return found


def _measured(
    simulator: Simulator, space: Space, seed: int, asked: Sequence[Candidate], first: int
) -> list[Trial]:
    return [
        simulator.trial(first + n, each, space.codes(each.recipe), seed)
        for n, each in enumerate(asked)
    ]


def volume(simulator: Simulator, space: Space, trials: Sequence[Trial]) -> float:
    """Of the front by measured values, by its true ones; a share of the box below the reference."""
    members = front_of(trials, simulator.objectives, "simulated").members
    true = [simulator.true(space.codes(member.candidate.recipe)) for member in members]
    rows = [[latency, size, max(drop, 0.0)] for latency, size, drop in true]
    # A drop up to half a point above the bound counts as at it: samples cannot tell it apart.
    for row in rows:
        if simulator.allowed < row[2] <= 1.5 * simulator.allowed:
            row[2] = simulator.allowed
    reference = np.array([REFERENCE, REFERENCE, simulator.allowed * 1.25])
    return hypervolume(np.array(rows).reshape(-1, 3), reference) / float(reference.prod())


def fastest(simulator: Simulator, space: Space, trials: Sequence[Trial]) -> float:
    """True latency of the fastest by measured values, over the given model's."""
    members = front_of(trials, simulator.objectives, "simulated").members
    if not members:
        return 1.0
    return simulator.true(space.codes(members[0].candidate.recipe))[0]


def cells(given: argparse.Namespace) -> Iterator[tuple[Recording, str, int]]:
    """What is to be run, all strategies of a seed before the next seed."""
    recordings = [Recording(path) for path in sorted(given.recordings.glob("*.json.gz"))]
    enough = [one for one in recordings if len(one.rows) >= FEWEST]
    chosen = [one for one in enough if not given.model or one.name in given.model]
    names = given.strategy or [*NAMES, *VARIANTS]
    for seed, recording, name in itertools.product(range(given.seeds), chosen, names):
        yield recording, name, seed


def run(given: argparse.Namespace) -> None:
    """Every cell that is not in the file yet."""
    done: set[tuple[Any, ...]] = set()
    if given.out.exists():
        lines = map(json.loads, given.out.read_text().splitlines())
        done = {(x["model"], x["strategy"], x["seed"]) for x in lines if x["most"] >= given.most}
    for recording, name, seed in cells(given):
        if (recording.name, name, seed) not in done:
            found = curve(recording, name, seed, given.most)
            with given.out.open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(found, flush=True)


def simulators(folder: Path) -> list[str]:
    """How far each simulator can be trusted."""
    lines = ["simulator            rows  choices  error on held-out rows (and spread of the rows)"]
    for path in sorted(folder.glob("*.json.gz")):
        one = Recording(path)
        if len(one.rows) < FEWEST:
            lines.append(f"{one.name:<20} {len(one.rows):>4}  too few: not simulated")
            continue
        right, blind = one.kept()
        parts = [f"bound said rightly {right:.2f} ({blind:.2f})"]
        for name, values in one.values().items():
            error = float(np.sqrt(np.mean(one.errors[name] ** 2)))
            parts.append(f"{name} {error:.3f} ({float(np.std(values)):.3f})")
        lines.append(f"{one.name:<20} {len(one.rows):>4} {len(one.choices):>8}  {', '.join(parts)}")
    return lines


def trimmed(values: Floats) -> float:
    """The interquartile mean: of all values but the lowest and highest quarter."""
    ordered = np.sort(values.ravel())
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def resampled(table: Floats, statistic: Callable[[Floats], float]) -> tuple[float, float]:
    """95 % over seeds drawn again within each model: a table [models, seeds]."""
    generator = np.random.default_rng(0)
    models, seeds = table.shape[:2]
    found: list[float] = []
    for _ in range(RESAMPLES):
        picks = generator.integers(seeds, size=(models, seeds))
        found.append(statistic(np.take_along_axis(table, picks, axis=1)))
    low, high = np.quantile(found, (0.025, 0.975))
    return float(low), float(high)


def ahead(differences: Floats) -> float:
    """Probability of improvement: pairs ahead, equal ones by half."""
    return float(np.mean(differences > 0) + 0.5 * np.mean(differences == 0))


def table_of(lines: Sequence[Mapping[str, Any]], name: str, key: str) -> dict[str, list[float]]:
    """Values in the order of the seeds, by model."""
    found: dict[str, list[float]] = {}
    for line in sorted(lines, key=lambda x: (x["model"], x["seed"])):
        if line["strategy"] == name and key in line:
            found.setdefault(line["model"], []).append(float(line[key]))
    return found


def show(given: argparse.Namespace) -> None:
    """Everything that came out."""
    print("\n".join(simulators(given.recordings)))
    lines = [json.loads(line) for line in given.runs.read_text().splitlines()]
    names = [n for n in (*NAMES, *VARIANTS) if any(x["strategy"] == n for x in lines)]
    rows: list[dict[str, Any]] = []
    for measure, budget in itertools.product(("hypervolume", "fastest"), BUDGETS):
        key = f"{measure}_{budget}"
        against = table_of(lines, given.against, key)
        if not against:
            continue
        print(f"\n{measure} at {budget} evaluations, simulated; against {given.against}")
        for name in names:
            row = compared(table_of(lines, name, key), against, measure)
            if row is not None:
                rows.append({"strategy": name, "measure": measure, "budget": budget, **row})
                print(said(name, row))
    print("\n".join(curves(lines, names)))
    watched(lines)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


def curves(lines: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """Interquartile means of the hypervolume over evaluations."""
    read = [n for n in POINTS if any(f"hypervolume_{n}" in line for line in lines)]
    told = [
        "\nhypervolume over evaluations, simulated",
        " " * 28 + "".join(f"{n:>7}" for n in read),
    ]
    for name in names:
        tables = [table_of(lines, name, f"hypervolume_{n}") for n in read]
        means = [trimmed(np.concatenate([*t.values()])) if t else math.nan for t in tables]
        told.append(f"{name:<28}" + "".join(f"{mean:7.3f}" for mean in means))
    return told


def compared(
    mine: Mapping[str, list[float]], against: Mapping[str, list[float]], measure: str
) -> dict[str, Any] | None:
    """Interquartile mean, and the paired difference in per cent of the other's."""
    models = [model for model in against if model in mine]
    if not models:
        return None
    seeds = min(min(len(mine[m]), len(against[m])) for m in models)
    first = np.array([mine[m][:seeds] for m in models])
    second = np.array([against[m][:seeds] for m in models])
    sign = 1.0 if measure == "hypervolume" else -1.0
    change = sign * 100 * (first / second - 1)
    return {
        "models": len(models),
        "seeds": seeds,
        "iqm": trimmed(first),
        "iqm_95": resampled(first, trimmed),
        "gain": trimmed(change),
        "gain_95": resampled(change, trimmed),
        "ahead": ahead(change),
        "ahead_95": resampled(change, ahead),
        "by_model": {m: float(np.mean(first[n])) for n, m in enumerate(models)},
    }


def said(name: str, row: Mapping[str, Any]) -> str:
    """One line."""
    low, high = row["iqm_95"]
    worst, best = row["gain_95"]
    some, most = row["ahead_95"]
    each = "  ".join(f"{model} {value:.3f}" for model, value in row["by_model"].items())
    return (
        f"{name:<28} {row['iqm']:.4f} [{low:.4f}, {high:.4f}]  {row['gain']:+6.2f} %"
        f" [{worst:+.2f}, {best:+.2f}]  ahead {row['ahead']:.2f} [{some:.2f}, {most:.2f}]"
        f"  ({row['models']} models x {row['seeds']} seeds)  {each}"
    )


def watched(lines: Sequence[Mapping[str, Any]]) -> None:
    """How well was predicted before each measurement."""
    print("\npredicted before measured: median rank correlation, and share inside 90 %")
    for name in dict.fromkeys(line["strategy"] for line in lines):
        words: list[str] = []
        for metric in ("latency", "size", "accuracy"):
            ranks = [
                line[f"rank_{metric}"]
                for line in lines
                if line["strategy"] == name and line.get(f"rank_{metric}") is not None
            ]
            inside = [
                line[f"within_{metric}"]
                for line in lines
                if line["strategy"] == name and f"within_{metric}" in line
            ]
            if ranks:
                words.append(f"{metric} {np.median(ranks):.2f} ({np.median(inside):.2f})")
        if words:
            print(f"{name:<28} {', '.join(words)}")
    spent = {
        name: np.median([x["cpu_s"] / x["most"] for x in lines if x["strategy"] == name])
        for name in dict.fromkeys(line["strategy"] for line in lines)
    }
    print("CPU seconds an evaluation: " + ", ".join(f"{n} {s:.2f}" for n, s in spent.items()))
    assert all(math.isfinite(s) for s in spent.values())


def main() -> None:
    """Run or show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = Path(__file__).parent / "recordings"
    parser.add_argument("--recordings", type=Path, default=folder)
    verbs = parser.add_subparsers(required=True)
    running = verbs.add_parser("run")
    running.add_argument("--out", type=Path, required=True)
    running.add_argument("--model", action="append")
    running.add_argument("--strategy", action="append")
    running.add_argument("--seeds", type=int, default=10)
    running.add_argument("--most", type=int, default=BUDGETS[-1])
    running.set_defaults(do=run)
    showing = verbs.add_parser("show")
    showing.add_argument("runs", type=Path)
    showing.add_argument("--against", default="nsga2")
    showing.add_argument("--json", type=Path)
    showing.set_defaults(do=show)
    given = parser.parse_args()
    given.do(given)


if __name__ == "__main__":
    main()
