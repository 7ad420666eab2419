"""How many steps a second `EdgeOpt-v0` makes on one core, and how that grows with the graph.

    python benchmarks/env.py [--sizes 50,150,450] [--seconds 2] [--seed 0]

Assignment steps: a chain of layers, each a prune and a quantize choice (`Assigned` over the toy
space: more choices a node than real models have), costs by table, nothing built. Rewrite steps: a
generated DenseNet whose sites the rule engine rewrites and takes back. Each step is the
environment's whole step: move, costs, mask and observation; actions are drawn from the mask, and
drawing counts too. Times are CPU seconds of one thread. Targets at 150 nodes: 1,000 and 150.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from matching import RULES, densenet

from edgeopt import envs
from edgeopt.envs.edgeopt_v0 import EdgeOptEnv
from edgeopt.search.assigned import Assigned, PlanCosts
from edgeopt.search.codes import draw
from edgeopt.search.table import Table
from edgeopt.testing.toy_space import ToySpace
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.rewriting import Rewriting

WARM = 30


def assignment(nodes: int, seed: int) -> tuple[EdgeOptEnv, int]:
    """An environment over plans of a chain, and its nodes."""
    space = ToySpace(sites=nodes // 2, rewrites=0)
    plans = Assigned(space)
    generator = np.random.default_rng(seed)
    rows = [[0.0, *(-generator.random(len(c) - 1) / nodes)] for c in space.choices]
    cost = tuple(tuple(map(float, row)) for row in rows)
    hurt = tuple(tuple(-value for value in row) for row in cost)
    first = nodes // 2
    pairs = {(i, i + 1): 0.01 for i in range(first, len(space.choices) - 1)}
    plans.use(Table(cost, hurt, pairs))
    start = plans.decode(draw(space.choices, generator))
    assert plans.codes(start), "a plan has codes"
    return envs.make(plans, PlanCosts(plans), max_actions=256), nodes


def rewriting(nodes: int, seed: int) -> tuple[EdgeOptEnv, int]:
    """An environment over rewrites of a DenseNet, and its nodes."""
    graph = opened(densenet(nodes))
    count = sum(1 for _ in graph.graph)
    space = Rewriting(graph, RULES, baseline="sha256:" + "0" * 64)
    return envs.make(space, envs.StaticCostEvaluator(space), max_actions=256), count


def rate(env: EdgeOptEnv, seconds: float, seed: int) -> tuple[float, int]:
    """Steps a CPU second, and how many were made."""
    generator = np.random.default_rng(seed)
    env.reset(seed=seed)
    made, spent, start = 0, 0.0, time.thread_time()
    while spent < seconds:
        legal = np.flatnonzero(env.action_masks())[1:]
        ended = not len(legal)
        if not ended:
            _, _, terminated, truncated, _ = env.step(generator.choice(legal))
            ended = terminated or truncated
            made += 1
        if made == WARM:
            made, start = WARM + 1, time.thread_time()
        if ended:
            env.reset(seed=made)
        spent = time.thread_time() - start
    return (made - WARM) / spent, made - WARM


def main() -> None:
    """One line a kind and size, then how a step's cost grows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="50,150,450")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    kinds: dict[str, Callable[[int, int], tuple[EdgeOptEnv, int]]] = {
        "assignment": assignment,
        "rewrite": rewriting,
    }
    for name, make in kinds.items():
        found: list[tuple[int, float]] = []
        for size in map(int, given.sizes.split(",")):
            env, nodes = make(size, given.seed)
            steps, made = rate(env, given.seconds, given.seed)
            found.append((nodes, 1e3 / steps))
            print(
                f"{name:<11}{nodes:6d} nodes {steps:8.0f} steps a second ({made} steps)", flush=True
            )
        (few, fast), (many, slow) = found[0], found[-1]
        print(
            f"{name:<11} a step costs {slow / fast:.1f} times at {many / few:.1f} times the nodes"
        )


if __name__ == "__main__":
    main()
