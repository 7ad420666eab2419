"""Two models beside each other: alignment, metrics with intervals, texts."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from report_factory import context, study, trials, with_layers

from edgeopt.report.alignment import aligned
from edgeopt.report.difference import Side, difference, ratio_between
from edgeopt.report.difference_text import difference_markdown, difference_text
from edgeopt.report.document import document
from edgeopt.report.layers import rows

SCHEMA = json.loads(
    files("edgeopt.report").joinpath("difference.schema.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    measured, tables = with_layers(trials())
    return document(study(), measured, context(layer_tables=tables))


def _side(found: dict[str, Any], name: str, **more: Any) -> Side:
    point = next(p for p in found["candidates"]["local"] if p["id"] == name)
    what = point["label"] or point["summary"]
    return Side(name=name, what=what, device="local", point=point, rows=rows(found, point), **more)


def _row(
    value: str, operator: str, source: int | None = None, shape: str = "1x8"
) -> dict[str, Any]:
    return {"value": value, "operator": operator, "source": source, "shape": shape}


def test_values_of_one_name_are_one_layer() -> None:
    """Whatever stands between them."""
    a = [_row("x1", "Conv"), _row("x2", "Relu", 0)]
    b = [_row("x1", "Conv"), _row("new", "Mul", 0), _row("x2", "Relu", 1)]
    assert aligned(a, b) == [(0, 0), (None, 1), (1, 2)]


def test_a_folded_normalisation_leaves_its_name_to_the_convolution() -> None:
    """The pair is convolution and convolution; what is gone stands before it."""
    a = [_row("conv", "Conv"), _row("bn", "BatchNormalization", 0), _row("y", "Relu", 1)]
    b = [_row("bn", "Conv"), _row("y", "Relu", 0)]
    assert aligned(a, b) == [(0, 0), (1, None), (2, 1)]
    assert aligned(b, a) == [(0, 0), (None, 1), (1, 2)]


def test_a_dynamic_product_is_found_behind_its_scale() -> None:
    """The float product's name went to the multiplication behind the integer one."""
    a = [_row("y", "MatMul")]
    b = [_row("y_int", "MatMulInteger"), _row("y", "Mul", 0)]
    assert aligned(a, b) == [(0, 0), (None, 1)]


def test_renamed_models_are_aligned_by_structure() -> None:
    """Weighted layers of equal kind and shape, in order."""
    a = [_row(f"a{i}", "Conv", shape=f"1x{8 + i}") for i in range(3)]
    b = [_row(f"b{i}", "QLinearConv", shape=f"1x{8 + i}") for i in range(3)]
    assert aligned(a, b) == [(0, 0), (1, 1), (2, 2)]


_ROWS = st.lists(
    st.builds(
        _row,
        st.sampled_from("abcdefgh"),
        st.sampled_from(["Conv", "MatMul", "Relu", "Mul", "QLinearConv"]),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(_ROWS, _ROWS)
def test_every_layer_stands_exactly_once(
    a: Sequence[dict[str, Any]], b: Sequence[dict[str, Any]]
) -> None:
    """For any two models, also with names that occur twice."""
    pairs = aligned(a, b)
    assert sorted(i for i, _ in pairs if i is not None) == list(range(len(a)))
    assert [j for _, j in pairs if j is not None] == list(range(len(b)))


def test_against_the_given_model_the_ratio_is_the_paired_one(found: dict[str, Any]) -> None:
    """Both ways; nothing is widened."""
    given_one, fast = (_side(found, name).point for name in ("c0", "c3"))
    assert given_one is not None
    assert fast is not None
    there, back = ratio_between(given_one, fast), ratio_between(fast, given_one)
    assert there is not None
    assert back is not None
    assert (there.low, there.high) == pytest.approx((fast["ratio"]["low"], fast["ratio"]["high"]))
    assert back.low == pytest.approx(1 / fast["ratio"]["high"])


def test_between_two_candidates_the_interval_is_wider_than_either(found: dict[str, Any]) -> None:
    """They were not measured side by side, and it is said."""
    made = difference(_side(found, "c1"), _side(found, "c3"))
    latency = next(m for m in made["metrics"] if m["metric"] == "latency")
    assert latency["low"] < latency["change"] < latency["high"]
    assert latency["change"] == pytest.approx(0.48 / 0.7, rel=0.05)
    assert "not the other" in latency["note"]
    assert latency["text"].startswith("1.4")
    size = next(m for m in made["metrics"] if m["metric"] == "size")
    assert (size["low"], size["text"]) == (None, "−9.5 %")


def test_layers_say_what_changed_and_by_what(found: dict[str, Any]) -> None:
    """Asked against ran, weights, time, and the action that only one has."""
    made = difference(_side(found, "c0"), _side(found, "c3"))
    assert made["counts"] == {"same": 3, "changed": 1, "added": 0, "gone": 0}
    layer = next(each for each in made["layers"] if each["status"] == "changed")
    assert (layer["a"]["asked"], layer["b"]["ran"]) == ("float32", "int8")
    assert layer["actions"]["b"] == ['static_qdq@1 "b" activation="uint8"']
    text = difference_text(made, width=160)
    assert "18.4 kB → 4.61 kB" in text
    assert "float32 → int8" in text
    assert "38 dB" in text
    assert "static_qdq" in text
    back = difference_text(difference(_side(found, "c3"), _side(found, "c0")))
    assert "no static_qdq" in back


def test_what_was_taken_out_names_the_action(found: dict[str, Any]) -> None:
    """A layer that is gone was removed by something."""
    whole = _side(found, "c0")
    less = Side(name="b", what="", rows=whole.rows[:3], removed={"out": 'drop_dead@1 "out"'})
    made = difference(Side(name="a", what="", rows=whole.rows), less)
    assert made["counts"]["gone"] == 1
    assert made["layers"][-1]["actions"]["b"] == ['drop_dead@1 "out"']


def test_it_meets_its_schema(found: dict[str, Any]) -> None:
    """Trials and files alike; numbers are finite."""
    validator = Draft202012Validator(SCHEMA)
    Draft202012Validator.check_schema(SCHEMA)
    made = difference(_side(found, "c1"), _side(found, "c3"), study="s")
    files_ = difference(
        Side(name="a.onnx", what="a", exact={"size": (10.0, "B"), "macs": (5.0, "")}),
        Side(name="b.onnx", what="b", exact={"size": (5.0, "B"), "macs": (5.0, "")}),
    )
    for each in (made, files_):
        text = json.dumps(each, allow_nan=False)
        assert [e.message for e in validator.iter_errors(json.loads(text))] == []
    assert files_["metrics"][0]["text"] == "−50.0 %"


def test_times_of_two_devices_are_no_difference(found: dict[str, Any]) -> None:
    """Only what does not depend on the device is compared."""
    other = _side(found, "c3")
    elsewhere = Side(name="c3", what=other.what, device="pi5", point=other.point)
    names = {m["metric"] for m in difference(_side(found, "c0"), elsewhere)["metrics"]}
    assert "latency" not in names
    assert "size" in names


@pytest.mark.parametrize("width", [80, 100, 160])
def test_lines_keep_the_width(found: dict[str, Any], width: int) -> None:
    """Columns give way before words are cut."""
    text = difference_text(difference(_side(found, "c0"), _side(found, "c3")), width=width)
    assert max(map(len, text.splitlines())) <= width


def test_markdown_folds_the_layers_away(found: dict[str, Any]) -> None:
    """The metrics stand open."""
    text = difference_markdown(difference(_side(found, "c0"), _side(found, "c3")))
    assert text.index("| latency |") < text.index("<details>") < text.index("</details>")
