"""What a report says of pruning: each cut's gain, or why nothing pruned is there."""

from dataclasses import replace
from typing import Any

import pytest
from report_factory import (
    candidate,
    context,
    layer_table,
    lowered_layers,
    measurement,
    study,
    trial,
    trials,
)

from edgeopt.core.action import Action
from edgeopt.core.layers import BuiltLayer, LayerTable
from edgeopt.core.lowered import Layer, Lowered
from edgeopt.core.measurement import Failure, Measurement
from edgeopt.core.trial import Trial
from edgeopt.report.document import document
from edgeopt.report.formats import rendered
from edgeopt.report.terminal import terminal

CUT = candidate("a", transform="channels_greedy")


def _given() -> Trial:
    first = trials()[0]
    seen = replace(measurement(1.0, 1_200_000, 0.945), lowered=lowered_layers())
    return replace(first, outcome=seen)


def _cut(outcome: Measurement | Failure, number: int = 1) -> Trial:
    return replace(trial(number, outcome), candidate=CUT)


def _table(width: int = 8) -> LayerTable:
    """The factory's, whose first convolution and what reads it have lost channels."""
    text = CUT.recipe.actions[0].bare().text

    def narrower(layer: BuiltLayer) -> BuiltLayer:
        if layer.operator != "Conv" or layer.macs is None:
            return layer
        own = width if layer.value == "a" else layer.width
        return replace(layer, width=own, macs=layer.macs * width // 16, actions=(text,))

    return replace(layer_table(), layers=tuple(map(narrower, layer_table().layers)))


def _ran(first_s: float, second_s: float, *, kernel: str = "", beside_s: float = 1e-4) -> Lowered:
    times = (first_s, beside_s, second_s, None)

    def timed(layer: Layer, time_s: float | None) -> Layer:
        operator = kernel if kernel and layer.name == "a_relu_nchwc" else layer.operator
        return replace(layer, time_s=time_s, operator=operator)

    found = lowered_layers()
    return replace(found, layers=tuple(map(timed, found.layers, times)))


def _said(lowered: Lowered, table: LayerTable | None = None) -> list[str]:
    outcome = replace(measurement(0.7, 500_000, 0.944), lowered=lowered)
    pair = [_given(), _cut(outcome)]
    tables = {pair[0].model_digest: layer_table(), pair[1].model_digest: table or _table()}
    return document(study(), pair, context(layer_tables=tables))["pruned"]["local"]


def test_a_cut_says_what_it_gained() -> None:
    """Width, multiply-adds and time of all layers that it changed."""
    head, cut = _said(_ran(1e-3, 2e-3))
    assert head.startswith("c1 with 1 cut is taken: 1.4")
    assert cut == (
        "channels_greedy at a: 16 to 8 channels, multiply-adds 912 k → 456 k, time 6 ms → 3 ms"
    )


@pytest.mark.parametrize(
    ("lowered", "width", "reason"),
    [
        (_ran(2e-3, 4e-3), 8, "its multiply-adds fell, so they are not what takes its time"),
        (_ran(2e-3, 4e-3), 15, "15 channels are no multiple of 8, as the kernels want them"),
        (_ran(4e-3, 2e-3, kernel="Conv"), 8, "the runtime runs Conv there, not "),
    ],
)
def test_a_cut_says_why_it_gained_nothing(lowered: Lowered, width: int, reason: str) -> None:
    """By what is known of its layers."""
    _, cut = _said(lowered, _table(width))
    assert f"; nothing gained: {reason}" in cut


def test_reorderings_between_pruned_layers_are_said() -> None:
    """What the runtime does beside the layers, where it is more than before."""
    *_, beside = _said(_ran(1e-3, 2e-3, beside_s=1e-3))
    assert "between its layers the runtime spends 1 ms, 100 µs in the given model" in beside
    assert "ReorderOutput" in beside


def test_a_time_that_nobody_knows_is_no_gain() -> None:
    """Without a profile, and without a table, that is what is said."""
    _, cut = _said(Lowered(layers=(), note="nothing was profiled"))
    assert cut.endswith("its time is not known, the profile has no row")
    outcome = measurement(0.7, 500_000, 0.944)
    made = document(study(), [_given(), _cut(outcome)], context())["pruned"]["local"]
    assert made[1].startswith("what each cut gained is not known: ")


def _refused() -> list[Trial]:
    lost = replace(_cut(measurement(0.4, 500_000, 0.7), 2), candidate=CUT)
    shift = Failure(stage="shift", reason="accuracy@blur is 5.2 points below (time ratio 0.45)")
    other = replace(CUT, recipe=candidate("b", transform="channels_greedy").recipe)
    return [_given(), lost, replace(_cut(shift, 3), candidate=other)]


def test_a_net_that_is_left_alone_says_why() -> None:
    """How many were tried, what they failed in, which came nearest."""
    made = document(study(), _refused(), context())
    assert made["pruned"]["local"] == [
        "no pruned model is on the front: of 2 that were tried 1 broke the bound of accuracy, "
        "1 failed in shift",
        "none of them was repaired",
        f"nearest is c2 (channels_greedy): accuracy 70.00 % is below 93.00 %; "
        f"{_point(made, 'c2')['ratio']['text']}",
    ]


def _point(made: dict[str, Any], name: str) -> dict[str, Any]:
    return next(point for point in made["candidates"]["local"] if point["id"] == name)


def test_nothing_was_tried() -> None:
    """The search had nothing to cut, or cut nothing."""
    pair = [_given(), trials()[3]]
    told = document(study(), pair, context(unpruned="no layer's channels can go"))["pruned"]
    assert told["local"] == ["nothing was pruned: no layer's channels can go"]
    told = document(study(), pair, context())["pruned"]
    assert told["local"] == ["nothing was pruned: none of the 1 other candidate has a cut"]


def test_a_training_says_what_it_gained() -> None:
    """Beside the candidate that was trained; of one that nobody measured, what is behind it."""
    action = Action.of("distil", "*", version=2, samples=4, seconds=30.0)
    actions = CUT.recipe.actions
    learnt = replace(CUT, recipe=replace(CUT.recipe, actions=(*actions, action)))
    other = Action.of("static_qdq", "q")
    rounded = replace(CUT, recipe=replace(CUT.recipe, actions=(*actions, action, other)))
    before = _cut(measurement(0.5, 500_000, 0.85))
    better = replace(trial(2, measurement(0.5, 500_000, 0.944)), candidate=learnt, label="h+distil")
    worse = replace(trial(3, measurement(0.4, 300_000, 0.8)), candidate=rounded)
    told = document(study(), [_given(), before, better, worse], context())["pruned"]["local"]
    assert told[-2] == (
        "h+distil (c2) was trained in float, 30 s of one core at most: 85.00 % of c1 became "
        "94.40 %; it is on the front"
    )
    assert "c3) was trained in float, 30 s of one core at most: 80.00 % behind it" in told[-1]
    assert "breaks a bound: accuracy 80.00 %" in told[-1]


def test_every_format_says_it() -> None:
    """Terminal, Markdown and page."""
    made = document(study(), _refused(), context())
    assert "pruned   no pruned model is on the front" in terminal(made)
    for form in ("md", "html"):
        assert "nearest is c2" in str(rendered(made, form))
