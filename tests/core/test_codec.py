"""Every value of core goes to JSON and comes back equal."""

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from core_values import parameters, texts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeopt.core.action import Action, Choice, Parameter, Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.codec import decode, encode
from edgeopt.core.estimates import Change, Estimates
from edgeopt.core.front import Front
from edgeopt.core.ledger import Account, Ledger
from edgeopt.core.lowered import Layer, Lowered
from edgeopt.core.measurement import Failure, Measurement, Value, Verdict
from edgeopt.core.model import Model, TensorSpec
from edgeopt.core.objective import Objective
from edgeopt.core.profile import DeviceProfile, QuantizationTypes
from edgeopt.core.samples import Interval, Samples
from edgeopt.core.study import Study
from edgeopt.core.trial import Trial

VALUES = [
    Account, Action, Candidate, Change, Choice, DeviceProfile, Estimates, Failure, Front,
    Interval, Layer, Ledger, Lowered, Measurement, Model, Objective, QuantizationTypes, Recipe,
    RuntimeSettings, Samples, Study, TensorSpec, Trial, Value, Verdict,
]  # fmt: skip
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    type(None): st.none(),
    Path: st.sampled_from([Path("a/b.onnx"), Path("model.onnx")]),
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of an annotation, every field of a dataclass drawn."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if hint == Parameter:
        return parameters
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        fields = {f.name: values(hints[f.name]) for f in dataclasses.fields(hint)}
        return st.builds(hint, **fields)
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*(values(a) for a in arguments))
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(values(a) for a in arguments))
    if issubclass(origin, Mapping):
        return st.dictionaries(texts, values(arguments[1]), max_size=2)
    raise NotImplementedError(hint)


@pytest.mark.parametrize("cls", VALUES, ids=lambda cls: cls.__name__)
def test_round_trip(cls):
    """Through strict JSON: no NaN, no bare infinity."""

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(values(cls))
    def check(value):
        document = json.loads(json.dumps(encode(value), allow_nan=False))
        assert decode(cls, document) == value

    check()


def test_not_a_number_comes_back_as_one():
    """NaN is unequal to itself, so it has its own case."""
    document = json.loads(json.dumps(encode(Change(mean=float("nan"), spread=0.0))))
    assert decode(Change, document).mean != decode(Change, document).mean


def test_a_missing_field_takes_its_default():
    """Old files stay readable when a field is added."""
    document = encode(Failure(stage="run", reason="x"))
    verdict = {"kind": "Verdict"}
    assert decode(Verdict, verdict) == Verdict()
    assert decode(Failure, document) == Failure(stage="run", reason="x")


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "Verdict", "status": "valid", "colour": "red"},
        {"kind": "Verdict", "status": "excellent"},
        {"kind": "Verdict", "reasons": 5},
        "valid",
        None,
        [],
    ],
)
def test_what_does_not_fit_is_an_error(document):
    """An unknown key, another literal, another type: never dropped in silence."""
    with pytest.raises(ValueError, match=r"Verdict|expected one of"):
        decode(Verdict, document)


def test_a_missing_field_without_default_is_an_error():
    """A failure without a reason is no failure."""
    with pytest.raises(ValueError, match="reason"):
        decode(Failure, {"kind": "Failure", "stage": "run"})


def test_unions_are_told_apart_by_kind():
    """A trial ends in one of two ways; anything else is refused."""
    trial = Trial(
        number=0,
        candidate=Candidate(recipe=Recipe(baseline="sha256:0")),
        device="d",
        protocol="quick",
        strategy="s",
        outcome=Failure(stage="run", reason="x"),
    )
    document = encode(trial)
    assert decode(Trial, document) == trial
    document["outcome"]["kind"] = "Interval"
    with pytest.raises(ValueError, match="Failure"):
        decode(Trial, document)
