"""The exam of a rule that is written in the rule language: its proof on random shapes.

    prove(rule, FromSeed(7))        one draw
    prove_rule(rule, draws=200)     many; returns how many models, sites and refusals there were

A draw makes a random model from one of the rule's patterns (see `rule_operators`), puts it among
other nodes, and rewrites at every site that the rule finds there. Outputs are compared by the
runtime with its optimizations off; undone, the model has the bytes that it had before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.graph.runtime import RuntimeFailure, Session
from edgeopt.graph.write import to_bytes
from edgeopt.testing.rule_operators import Walker
from edgeopt.testing.rule_sketch import Draw, FromSeed, Made, Sketch, Undrawable
from edgeopt.testing.transform_exam import ExamFailed, opened
from edgeopt.transforms.rules.engine import Engine
from edgeopt.transforms.rules.form import Rule

RELATIVE: Mapping[str, float] = {"float32": 3e-5, "float16": 2e-2, "float64": 1e-9}
"""Allowed error beside the largest output, by type: sums in another order, rounded weights."""
OPSETS = (13, 17, 18, 21)
_PLAIN = RuntimeSettings(optimization="off")
_DTYPES = ("float32",) * 6 + ("float16", "float64")
_AROUND = ("Relu", "Neg", "Sigmoid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What draws of a rule came to.

    Args:
        models: Valid models that the runtime takes.
        sites: Sites in them, each rewritten and compared.
        refused: Sites at which the replacement turned out not to fit.
    """

    models: int = 0
    sites: int = 0
    refused: int = 0

    def __add__(self, other: "Proof") -> "Proof":
        return Proof(
            models=self.models + other.models,
            sites=self.sites + other.sites,
            refused=self.refused + other.refused,
        )


def prove_rule(rule: Rule, *, draws: int, seed: int = 0) -> Proof:
    """The exam on that many draws, with the seeds from the given one on.

    Raises:
        ExamFailed: As `prove`; the message names the seed.
    """
    total = Proof()
    for number in range(seed, seed + draws):
        try:
            total += prove(rule, FromSeed(number))
        except ExamFailed as failure:
            raise ExamFailed(f"seed {number}: {failure}") from failure
    return total


def prove(rule: Rule, draw: Draw) -> Proof:
    """One random model, rewritten at every site that the rule finds in it.

    Raises:
        ExamFailed: Outputs differ, the runtime does not take the rewritten model, or undoing
            leaves other bytes.
    """
    try:
        model, feeds = drawn(rule, draw)
        expected = outputs_of(model.SerializeToString(), feeds)
    except (Undrawable, RuntimeFailure):
        return Proof()
    return prove_on(rule, model, feeds, expected)


def prove_on(
    rule: Rule, model: onnx.ModelProto, feeds: Sequence[Feed], expected: "Outputs"
) -> Proof:
    """Every site of a rule in a model.

    Raises:
        ExamFailed: As `prove`.
    """
    graph = opened(model)
    start = to_bytes(graph)
    engine = Engine(graph, [rule])
    digest = engine.digest()
    sites, refused = engine.sites(), 0
    for site in sites:
        where = f"{site.action.text} in {onnx.printer.to_text(model.graph)}"
        if engine.apply(site) is not None:
            refused += 1
        else:
            compare(expected, _rewritten(to_bytes(graph), feeds, where), where)
            engine.undo()
        if to_bytes(graph) != start or engine.digest() != digest:
            raise ExamFailed(f"undoing leaves another model: {where}")
        sites = engine.sites()
    return Proof(models=1, sites=len(sites), refused=refused)


def drawn(rule: Rule, draw: Draw) -> tuple[onnx.ModelProto, Sequence[Feed]]:
    """A random model around one of a rule's patterns, and feeds for it.

    Raises:
        Undrawable: These decisions lead to none.
    """
    arity = draw.pick(rule.arities[:3]) if rule.variadic else 0
    pattern = draw.pick(rule.patterns(arity))
    opset = max(rule.opset, draw.pick(OPSETS))
    sketch = Sketch(draw, opset, draw.pick(_DTYPES))
    walker = Walker(sketch)
    hint = _shape(draw)
    given = [walker.value(root, hint) for root in pattern.roots]
    roots = [each for each in given if each is not None]
    ends: list[Made] = []
    for root in roots:
        around = root.dtype == sketch.dtype and draw.integer(0, 1)
        ends.append(sketch.node(draw.pick(_AROUND), [root], {})[0] if around else root)
    if draw.integer(0, 7) == 0:
        ends.append(draw.pick(walker.made))
    return sketch.model(ends), [sketch.feed(), sketch.feed()]


def _shape(draw: Draw) -> tuple[int, ...]:
    rank = draw.pick((4, 4, 4, 3, 2, 5, 1))
    channels = draw.pick((1, 2, 3, 4, 6, 8))
    sizes = [draw.integer(1, 2), channels, *(draw.integer(1, 7) for _ in range(3))]
    return tuple(sizes[:rank])


Outputs = Sequence[Mapping[str, npt.NDArray[Any]]]


def outputs_of(model: bytes, feeds: Iterable[Feed]) -> Outputs:
    """Outputs without optimizations, so that the graph itself is what is compared.

    Raises:
        RuntimeFailure: The runtime does not take the model.
    """
    session = Session(model, _PLAIN)
    return [session.run(feed) for feed in feeds]


def _rewritten(model: bytes, feeds: Sequence[Feed], where: str) -> Outputs:
    try:
        return outputs_of(model, feeds)
    except RuntimeFailure as failure:
        raise ExamFailed(f"the runtime does not take it any more ({failure}): {where}") from failure


def compare(expected: Outputs, found: Outputs, where: str) -> None:
    """Ask that outputs agree up to the rounding of their type, NaN and infinities exactly.

    Raises:
        ExamFailed: They do not.
    """
    for one, other in zip(expected, found, strict=True):
        for name, array in one.items():
            made = other[name]
            if (made.dtype, made.shape) != (array.dtype, array.shape):
                raise ExamFailed(f"output {name!r} is {made.dtype}{list(made.shape)}: {where}")
            wide, own = array.astype(np.float64), made.astype(np.float64)
            finite = np.isfinite(wide)
            same = np.array_equal(finite, np.isfinite(own)) and np.array_equal(
                wide[~finite], own[~finite], equal_nan=True
            )
            if not same:
                raise ExamFailed(f"NaN or infinity of {name!r} stand elsewhere: {where}")
            scale = max(float(np.abs(wide[finite]).max(initial=0.0)), 1.0)
            error = float(np.abs(own[finite] - wide[finite]).max(initial=0.0))
            if error > RELATIVE.get(array.dtype.name, 0.0) * scale:
                raise ExamFailed(f"output {name!r} is off by {error:.3g}: {where}")
