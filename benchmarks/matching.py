"""What it costs to find the sites of all rules, the first time and after one rewrite.

    python benchmarks/matching.py [--models FOLDER] [--sizes 100,1000] [--draws 10000] [--seed 0]

Graphs are a DenseNet and a small transformer (generated with the structure of the real ones, so
that any length can be made) and, with --models, every .onnx in a folder, repeated side by side to
1,000 nodes or more. Times are CPU
seconds of this process, medians of several rounds. Work is counted as well, in calls of functions
of the first look: under load caches are shared, and seconds a node grow (2.2 times from 100 to
10,000 nodes, once) where calls do not.
With --draws, random models of every rule's pattern are rewritten at every site and compared with
the runtime, optimizations off: no wrong result is the claim, and the seeds are printed.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
import onnx_ir as ir

from edgeopt.graph.normalize import normalize
from edgeopt.graph.read import open_graph
from edgeopt.graph.write import to_bytes
from edgeopt.testing.graphs import Builder
from edgeopt.testing.rule_exam import Proof, prove
from edgeopt.testing.rule_sketch import FromSeed
from edgeopt.testing.transform_exam import ExamFailed, opened
from edgeopt.transforms.rules.catalogue import rules_on_shelves
from edgeopt.transforms.rules.engine import Engine

RULES = rules_on_shelves()
SIZES = (100, 300, 1000, 3000, 10_000)
ROUNDS = 5


def densenet(nodes: int) -> onnx.ModelProto:
    """Blocks of BatchNormalization, Relu, Conv and Concat, with transitions, of so many nodes."""
    b = Builder()
    value, channels, count, index = "x", 4, 0, 0
    while count < nodes:
        b.batchnorm(value, f"n{index}", channels)
        b.node("Relu", [f"n{index}"], f"r{index}")
        if channels >= 16:
            b.conv(f"r{index}", f"c{index}", (channels, 4), kernel=1)
            value = b.node("AveragePool", [f"c{index}"], f"p{index}", kernel_shape=[1, 1])
            channels, count = 4, count + 4
        else:
            b.conv(f"r{index}", f"a{index}", (channels, 4), kernel=1)
            b.batchnorm(f"a{index}", f"m{index}", 4)
            b.conv(f"m{index}", f"c{index}", (4, 4))
            value = b.node("Concat", [value, f"c{index}"], f"o{index}", axis=1)
            channels, count = channels + 4, count + 6
        index += 1
    shape = ("N", 4, 8, 8)
    return b.model([("x", "float32", shape)], [(value, "float32", ("N", channels, 8, 8))])


def transformer(nodes: int) -> onnx.ModelProto:
    """Blocks of attention and a spelled GELU, of so many nodes."""
    b = Builder()
    numbers = {"half": 0.5, "one": 1.0, "root": 2**0.5, "scale": 8.0}
    for name, number in numbers.items():
        b.constant(name, onnx.numpy_helper.to_array(onnx.helper.make_tensor("t", 1, [], [number])))
    value, count, index = "x", 0, 0
    while count < nodes:
        p = f"b{index}"
        for name in "qkv":
            product = b.node("MatMul", [value, b.weight(f"{p}w{name}", 8, 8)], f"{p}{name}m")
            b.node("Add", [product, b.weight(f"{p}b{name}", 8)], f"{p}{name}")
        b.node("Transpose", [f"{p}k"], f"{p}t", perm=[0, 2, 1])
        b.node("Div", [b.node("MatMul", [f"{p}q", f"{p}t"], f"{p}s"), "scale"], f"{p}d")
        b.node("MatMul", [b.node("Softmax", [f"{p}d"], f"{p}f"), f"{p}v"], f"{p}o")
        b.node("Add", [f"{p}o", value], f"{p}r")
        b.node("MatMul", [f"{p}r", b.weight(f"{p}w1", 8, 8)], f"{p}h")
        b.node("Erf", [b.node("Div", [f"{p}h", "root"], f"{p}e")], f"{p}g")
        b.node("Mul", [f"{p}h", b.node("Add", [f"{p}g", "one"], f"{p}i")], f"{p}j")
        value = b.node("Mul", [f"{p}j", "half"], f"{p}y")
        count, index = count + 18, index + 1
    shape = ("N", 4, 8)
    return b.model([("x", "float32", shape)], [(value, "float32", shape)])


def cpu_ms(work: Callable[[], object]) -> float:
    """CPU milliseconds of a piece of work."""
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


def measure(name: str, graph: ir.Model, seed: int) -> tuple[int, float, float]:
    """Print one line on a graph; returns nodes and milliseconds, first and after one rewrite."""
    nodes = sum(1 for _ in graph.graph.all_nodes())
    first = statistics.median(cpu_ms(lambda: Engine(graph, RULES)) for _ in range(ROUNDS))
    engine, start = Engine(graph, RULES), to_bytes(graph)
    digest = cpu_ms(engine.digest)
    pick, applied, undone, looked = random.Random(seed), list[float](), list[float](), list[int]()
    for site in pick.choices(engine.sites() or [None], k=40):
        before = engine.looked_at
        if site is not None and engine.sites():
            fresh = pick.choice(engine.sites())
            applied.append(cpu_ms(lambda site=fresh: engine.apply(site)))
            looked.append(engine.looked_at - before)
            if engine.done:
                undone.append(cpu_ms(engine.undo))
    if to_bytes(graph) != start:
        raise SystemExit(f"{name}: undoing left other bytes")
    apply_ms = statistics.median(applied) if applied else 0.0
    undo_ms = statistics.median(undone) if undone else 0.0
    rate = f"{1e3 / (apply_ms + undo_ms):6.0f}/s" if applied else "      -"
    print(
        f"{name:28} {nodes:6} nodes {len(engine):5} sites   first {first:7.1f} ms"
        f"   rewrite {apply_ms:5.2f} ms (looked at {max(looked, default=0):3})"
        f"   undo {undo_ms:5.2f} ms   {rate}   digest {digest:6.1f} ms",
        flush=True,
    )
    return nodes, first, apply_ms


def calls(work: Callable[[], object]) -> int:
    """How many functions a piece of work calls, those of C included."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        del frame, argument
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def growth(make: Callable[[int], onnx.ModelProto], sizes: Sequence[int], seed: int) -> None:
    """How the cost of the first look, and of a rewrite, grows with the number of nodes."""
    points, counts = list[tuple[int, float, float]](), list[tuple[float, int]]()
    for size in sizes:
        graph = opened(make(size))
        points.append(measure(make.__name__, graph, seed))
        counts.append((calls(lambda g=graph: Engine(g, RULES)) / points[-1][0], of_rewrite(graph)))
    (few, first, _), (many, last, _) = points[0], points[-1]
    factor = (last / first) / (many / few)
    print(
        f"{make.__name__}, from {few} to {many} nodes: time a node grows {factor:.2f} times;"
        f" calls a node {counts[0][0]:.0f} and {counts[-1][0]:.0f};"
        f" calls of one rewrite {counts[0][1]} and {counts[-1][1]}"
    )


def of_rewrite(graph: ir.Model) -> int:
    """How many calls the second of two rewrites makes: the first one fills caches."""
    engine, made = Engine(graph, RULES), 0
    for index in range(min(2, len(engine.sites()))):
        site = engine.sites()[index]
        made = calls(lambda site=site: engine.apply(site))
        if engine.done:
            engine.undo()
    return made


def repeated(path: Path, nodes: int) -> ir.Model:
    """A real model beside itself until there are at least so many nodes."""
    graph = normalize(open_graph(path))
    model = onnx.ModelProto.FromString(to_bytes(graph))
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    while len(whole.graph.node) < nodes:
        prefix = f"r{len(whole.graph.node)}/"
        copy = onnx.compose.add_prefix(model, prefix).graph
        whole.graph.node.extend(copy.node)
        whole.graph.initializer.extend(copy.initializer)
        whole.graph.value_info.extend(copy.value_info)
        whole.graph.input.extend(copy.input)
        whole.graph.output.extend(copy.output)
    return ir.from_proto(whole)


def draw(count: int, seed: int) -> bool:
    """Random models of every rule's pattern; prints each rule's proof, whether all held."""
    total, wrong, number = Proof(), 0, seed
    each = -(-count // len(RULES))
    for rule in RULES:
        proof = Proof()
        first = number
        for number in range(first, first + each):
            try:
                proof += prove(rule, FromSeed(number))
            except ExamFailed as failure:
                wrong += 1
                print(f"WRONG {rule.name} seed {number}: {failure}")
        number = first + each
        total += proof
        print(
            f"{rule.name:28} seeds {first}-{number - 1}: {proof.models} models,"
            f" {proof.sites} sites, {proof.refused} refused",
            flush=True,
        )
    print(
        f"{each * len(RULES)} draws of {len(RULES)} rules: {total.models} models,"
        f" {total.sites} sites compared, {wrong} wrong"
    )
    return not wrong


def main() -> None:
    """Measure, and draw where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", type=Path, help="a folder of .onnx files")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="nodes, generated")
    parser.add_argument("--draws", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(f"{len(RULES)} rules: {', '.join(rule.name for rule in RULES)}")
    measure("warm up", opened(densenet(100)), asked.seed)
    for make in (densenet, transformer):
        growth(make, [int(size) for size in asked.sizes.split(",")], asked.seed)
    for path in sorted(asked.models.glob("*.onnx")) if asked.models else ():
        measure(path.stem, repeated(path, 1000), asked.seed)
    if asked.draws and not draw(asked.draws, asked.seed):
        sys.exit(1)


if __name__ == "__main__":
    main()
