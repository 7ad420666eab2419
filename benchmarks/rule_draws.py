"""Exact transforms on random models: every site that one finds is rewritten and compared.

    python benchmarks/rule_draws.py [--patterns 270] [--mutants 400] [--nets 400] [--seed 0]
                                    [--only RULE ...] [--out FILE]

Three kinds of random models, each from its own seed: a model of a rule's pattern (rules of the rule
language; more where they seldom fire, up to ten times as many), a mutant of one of the rule's
goldens (all exact transforms, every tenth mutant with all of them in turn), and a random net of
layers, branches and shuffles some of whose channels are zero (all of them). Outputs are compared
with the runtime without optimizations, undoing must leave the same bytes. Prints models and
compared sites by rule, and whatever is wrong with its seed; exit status 1 where something is.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from edgeopt.testing.random_prunable import network
from edgeopt.testing.rule_exam import prove
from edgeopt.testing.rule_mutants import draw_mutant, drawable, golden_models, prove_mutant
from edgeopt.testing.rule_sketch import FromSeed
from edgeopt.testing.transform_exam import ExamFailed
from edgeopt.testing.withered import withered
from edgeopt.transforms.rules.catalogue import rules_on_shelves
from edgeopt.transforms.rules.form import Rule

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
LEAST_SITES, MOST_TIMES, ALL_RULES_EACH = 30, 10, 10


@dataclass
class Tally:
    """What the draws came to.

    Args:
        draws: Models that were drawn, valid or not, by rule and kind.
        models: Of these the valid ones.
        sites: Compared sites by rule.
        wrong: Sentences.
    """

    draws: Counter[str] = field(default_factory=Counter[str])
    models: Counter[str] = field(default_factory=Counter[str])
    sites: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])

    def add(self, key: str, seed: int, prove_one: Callable[[], Counter[str] | None]) -> int:
        """One draw; returns how many sites were compared."""
        self.draws[key] += 1
        try:
            found = prove_one()
        except ExamFailed as failure:
            self.wrong.append(f"{key}, seed {seed}: {failure}")
            print(f"WRONG {self.wrong[-1]}", flush=True)
            return 0
        if found is None:
            return 0
        self.models[key] += 1
        self.sites += found
        return sum(found.values())


def draw_patterns(tally: Tally, least: int, seed: int, only: set[str]) -> None:
    """Models of every pattern, with seeds from the given one on for each rule."""
    for rule in rules_on_shelves():
        if only and rule.name not in only:
            continue

        found, number = 0, seed
        while number < seed + least or (found < LEAST_SITES and number < seed + MOST_TIMES * least):
            found += tally.add(
                f"pattern {rule.name}", number, lambda r=rule, n=number: of_pattern(r, n)
            )
            number += 1
        print(f"{rule.name:28} patterns, seeds {seed}-{number - 1}: {found} sites", flush=True)


def of_pattern(rule: Rule, seed: int) -> Counter[str] | None:
    """Compared sites of one random model of a rule's pattern; None where it is not valid."""
    proof = prove(rule, FromSeed(seed))
    return Counter({rule.name: proof.sites}) if proof.models else None


def draw_mutants(tally: Tally, count: int, seed: int, only: set[str]) -> None:
    """Mutants of every transform's goldens."""
    names = drawable()
    for name in names if not only else [name for name in names if name in only]:
        models, found = golden_models(GOLDEN, name), 0
        for number in range(seed, seed + count):
            asked = names if number % ALL_RULES_EACH == 0 and not only else (name,)
            found += tally.add(
                f"mutant {name}",
                number,
                lambda n=number, a=asked, m=models: prove_mutant(draw_mutant(m, n), a),
            )
        print(f"{name:28} mutants, seeds {seed}-{seed + count - 1}: {found} sites", flush=True)


def draw_nets(tally: Tally, count: int, seed: int) -> None:
    """Random nets with zero channels, under every transform."""
    names = drawable()
    for number in range(seed, seed + count):
        draw = random.Random(number)
        model = withered(network(draw), draw)
        tally.add("net", number, lambda m=model: prove_mutant(m, names))
    print(f"nets, seeds {seed}-{seed + count - 1}", flush=True)


def main() -> None:
    """Draw, and say what it came to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--patterns", type=int, default=270, help="at least so many a rule")
    parser.add_argument("--mutants", type=int, default=400, help="so many a rule")
    parser.add_argument("--nets", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=(), help="rules; no nets then")
    parser.add_argument("--out", type=Path, help="a JSON file of the counts")
    asked = parser.parse_args()
    tally, only = Tally(), set(asked.only)
    draw_patterns(tally, asked.patterns, asked.seed, only)
    draw_mutants(tally, asked.mutants, asked.seed, only)
    if not only:
        draw_nets(tally, asked.nets, asked.seed)
    for name in drawable():
        print(f"{name:28} {tally.sites[name]:6} sites")
    drawn, valid, sites = (sum(c.values()) for c in (tally.draws, tally.models, tally.sites))
    never = [name for name in drawable() if not tally.sites[name]]
    print(
        f"{drawn} draws from seed {asked.seed}: {valid} models, {sites} sites of {len(drawable())}"
        f" transforms compared, {len(tally.wrong)} wrong; never drawn: {', '.join(never) or 'none'}"
    )
    if asked.out:
        counts = {
            "seed": asked.seed,
            "draws": dict(sorted(tally.draws.items())),
            "models": dict(sorted(tally.models.items())),
            "sites": dict(sorted(tally.sites.items())),
            "wrong": tally.wrong,
        }
        asked.out.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    if tally.wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
