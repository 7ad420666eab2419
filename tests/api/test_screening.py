"""What the host finds out before a device is asked, and how much time confirming is left."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgeopt.api.reserve import LEAST, MOST, reserved_s
from edgeopt.api.screening import AS, lowered_name, same_as, untimed
from edgeopt.core.action import Action, Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.measurement import Failure, Measurement, Value
from edgeopt.core.trial import Trial
from edgeopt.graph.read import read_model
from edgeopt.measure.plan import FINAL, NORMAL, QUICK


def _file(folder, name: str, *, identity: bool = False, weight: float = 1.0, prefix: str = ""):
    """A Relu behind a MatMul, with or without what the runtime takes out."""
    nodes = [helper.make_node("MatMul", ["x", f"{prefix}w"], [f"{prefix}a"])]
    last = f"{prefix}a"
    if identity:
        nodes.append(helper.make_node("Identity", [last], [f"{prefix}b"]))
        last = f"{prefix}b"
    nodes.append(helper.make_node("Relu", [last], ["y"]))
    weights = np.full((4, 4), weight, dtype=np.float32)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [onnx.numpy_helper.from_array(weights, f"{prefix}w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return read_model(path)


def test_files_that_the_runtime_makes_one_graph_of_have_one_name(tmp_path):
    """Names and what it takes out do not matter; weights and settings do."""
    usual = RuntimeSettings()
    plain = lowered_name(_file(tmp_path, "a"), usual)
    assert plain
    assert lowered_name(_file(tmp_path, "b", identity=True, prefix="p_"), usual) == plain
    assert lowered_name(_file(tmp_path, "c", weight=2.0), usual) != plain
    assert lowered_name(_file(tmp_path, "d"), RuntimeSettings(optimization="basic")) != plain


def test_what_does_not_load_has_no_name(tmp_path):
    """Then nothing is known, and it is measured as any other."""
    file = _file(tmp_path, "a")
    model = onnx.load(file.path)
    model.graph.node[0].op_type = "NoOperator"
    onnx.save(model, file.path)
    assert lowered_name(file, RuntimeSettings()) == ""


def _trial(latency_s: float = 0.01, *, number: int = 0, recipe: str = "r", **more) -> Trial:
    values = {
        "latency": Value(value=latency_s, unit="s"),
        "size": Value(value=100.0, unit="B"),
        "load": Value(value=1.0, unit="s"),
    }
    actions = (Action.of("rule", recipe),)
    given = {
        "number": number,
        "candidate": Candidate(recipe=Recipe(baseline="sha256:0", actions=actions)),
        "device": "local",
        "protocol": QUICK.name,
        "strategy": "portfolio",
        "outcome": Measurement(values=values),
        "device_s": QUICK.estimate_s(latency_s, 0.01),
    }
    return Trial(**{**given, **more})


def test_a_repeated_measurement_says_whose_it_is(tmp_path):
    """Latency and accuracy are the other's, the size is its own, and the device spent nothing."""
    first, file = _trial(number=4), _file(tmp_path, "a")
    nothing = Failure(stage="build", reason="")
    made = same_as(first, _trial(number=9, recipe="s", outcome=nothing), file)
    assert made.value("latency") == first.value("latency")
    assert made.value("size").value == file.size_bytes
    assert made.value("load") is None
    assert "load" in made.measurement.absent
    assert made.measurement.environment[AS] == first.candidate.recipe.digest
    assert (made.number, made.device_s) == (9, 0.0)
    with pytest.raises(ValueError, match="measurement"):
        same_as(replace(first, outcome=nothing), made, file)


def test_what_was_ruled_out_has_an_accuracy_and_no_latency(tmp_path):
    """And says why."""
    file = _file(tmp_path, "a")
    made = untimed(_trial(), "accuracy", Value(value=0.5, unit="1"), file)
    assert made.value("latency") is None
    assert "accuracy" in made.measurement.absent["latency"]
    assert made.value("accuracy").value == 0.5


def test_time_for_confirming_follows_what_measuring_takes():
    """The whole share while little is known; then by members and pace, within limits."""
    few = [_trial(number=n) for n in range(3)]
    many = [_trial(number=n) for n in range(8)]
    assert reserved_s([], few, 0.01, 1000.0) == MOST * 1000.0
    assert reserved_s([], many, None, 1000.0) == MOST * 1000.0
    planned = 1.25 * FINAL.estimate_s(0.01, 0.01)
    assert reserved_s([], many, 0.01, planned / 0.3) == pytest.approx(planned)
    faster = [_trial(number=n, latency_s=0.009) for n in range(8)]
    three = 3 * 1.25 * FINAL.estimate_s(0.009, 0.01)
    assert reserved_s(faster[:2], many, 0.01, three / 0.3) == pytest.approx(three)
    assert reserved_s([], many, 0.01, 1e6) == LEAST * 1e6
    slow = [replace(trial, device_s=4 * trial.device_s) for trial in many]
    assert reserved_s([], slow, 0.01, 4 * planned / 0.3) == pytest.approx(4 * planned)


def test_time_is_kept_for_what_a_reader_would_take():
    """Members that are slower than the given model are confirmed with what is left; of many
    faster ones five have time kept for them."""
    many = [_trial(number=n) for n in range(8)]
    budget_s = 400.0
    slower = [_trial(number=n, latency_s=0.02) for n in range(6)]
    none = reserved_s([], many, 0.01, budget_s)
    assert reserved_s(slower, many, 0.01, budget_s) == none
    faster = [_trial(number=n, latency_s=0.009) for n in range(9)]
    five = reserved_s(faster[:5], many, 0.01, budget_s)
    assert none < five == reserved_s(faster, many, 0.01, budget_s)


def test_while_little_is_known_the_given_model_says_how_long_a_member_takes():
    """It was timed and scored as thoroughly, so a long budget isn't held back for two minutes."""
    given = _trial(
        number=0,
        candidate=Candidate(recipe=Recipe(baseline="sha256:0")),
        protocol=NORMAL.name,
        device_s=40.0,
        host_s=20.0,
    )
    longer = FINAL.estimate_s(0.01, 0.01) / NORMAL.estimate_s(0.01, 0.01)
    kept = reserved_s([], [given], 0.01, 600.0)
    assert kept == pytest.approx(1.25 * (longer * 40.0 + 20.0))
    assert reserved_s([], [given], 0.01, 100.0) == MOST * 100.0
