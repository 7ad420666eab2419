"""What a report says of integers: what ran, what stayed in float, and why."""

from typing import Any

from edgeopt.report.integers import by_reason, integers


def _document(lowered: dict[str, Any] | None) -> dict[str, Any]:
    points = [{"id": "c0", "lowered": None}, {"id": "c1", "lowered": lowered}]
    return {"verdict": {"pi": {"take": "c1"}}, "candidates": {"pi": points}}


def test_the_pick_says_what_stayed_in_float() -> None:
    """Asked against ran first, then the reasons, then what stands between integers."""
    lowered = {
        "asked": 3,
        "ran": 2,
        "text": "3 asked in integers, 2 ran",
        "stayed": ["Conv 'a' stayed float because its result is read in float by Add"],
        "between": ["HardSigmoid up to 'g' in float between integers"],
    }
    assert integers(_document(lowered), "pi") == [
        "c1: 3 asked in integers, 2 ran",
        "Conv 'a' stayed float because its result is read in float by Add",
        "HardSigmoid up to 'g' in float between integers",
    ]


def test_a_float_pick_says_nothing() -> None:
    """Neither without integers nor where nothing was profiled."""
    nothing = {"asked": 0, "ran": 0, "text": "", "stayed": [], "between": []}
    assert integers(_document(nothing), "pi") == []
    assert integers(_document(None), "pi") == []


def test_layers_of_one_reason_stand_together() -> None:
    """Twelve names a reason, the number of the others, in the order of the layers."""
    many = [
        f"Conv 'c{index}' stayed float because nothing asks for integers there"
        for index in range(14)
    ]
    told = by_reason([many[0], "GRU 'g' stayed float because GRU has no integer kernel", *many[1:]])
    names = ", ".join(f"Conv 'c{index}'" for index in range(12))
    assert told == [
        f"{names} and 2 more stayed float because nothing asks for integers there",
        "GRU 'g' stayed float because GRU has no integer kernel",
    ]
