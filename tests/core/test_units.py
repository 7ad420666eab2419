"""Quantities as people write them, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt import units
from edgeopt.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20m", 1200),
        ("90s", 90),
        ("8ms", 0.008),
        ("1.5h", 5400),
        (" 5 min ", 300),
        ("1e3 us", 1e-3),
    ],
)
def test_durations(text: str, seconds: float):
    """Every unit, with and without a space."""
    assert units.parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4MB", 4_000_000), ("4 MiB", 4_194_304), ("600kB", 600_000), ("1.5gb", 1_500_000_000)],
)
def test_sizes(text: str, size: int):
    """Decimal and binary units are two things."""
    assert units.parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "floor"), [("1pt", 0.97), ("1%", 0.9702), ("0pt", 0.98), ("2.5points", 0.955)]
)
def test_drops(text: str, floor: float):
    """A point is one of 100; a per cent is a share of the baseline's value."""
    assert units.parse_drop(text).floor(0.98) == pytest.approx(floor)


@given(st.floats(0, 100), st.sampled_from(["pt", "%"]))
def test_a_drop_reads_back(amount: float, unit: str):
    """Its text means the same drop, to the digits that are shown."""
    drop = units.parse_drop(f"{amount:f}{unit}")
    again = units.parse_drop(str(drop))
    assert again.kind == drop.kind
    assert again.amount == pytest.approx(drop.amount, rel=1e-5)


@pytest.mark.parametrize("parse", [units.parse_duration_s, units.parse_bytes, units.parse_drop])
@pytest.mark.parametrize(
    "text", ["5", "", "ms", "five s", "-1s", "1 2 s", "5 parsec", "1,5s", "nan"]
)
def test_a_quantity_without_a_known_unit_is_refused(parse, text: str):
    """A bare number above all: nobody knows what it means."""
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.hint


@given(st.floats(1e-6, 1e7))
def test_seconds_are_shown_to_three_digits(value_s: float):
    """The text means the value within half of its last digit, and has no exponent."""
    text = units.format_seconds(value_s)
    assert units.parse_duration_s(text) == pytest.approx(value_s, rel=6e-3)
    assert "e" not in text


@given(st.integers(0, 10**14))
def test_bytes_are_shown_to_three_digits(size: int):
    """Likewise; small sizes are exact."""
    text = units.format_bytes(size)
    assert units.parse_bytes(text) == pytest.approx(size, rel=6e-3)
    assert "e" not in text


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (0.00123, "1.23 ms"),
        (9.999e-4, "1 ms"),
        (0.9999, "1 s"),
        (90, "90 s"),
        (119.99, "2 min"),
        (8e5, "13333 min"),
    ],
)
def test_the_unit_is_chosen_after_rounding(value_s: float, text: str):
    """Never 1e+03 of the smaller unit."""
    assert units.format_seconds(value_s) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.00123, "s", "1.23 ms"),
        (999_960, "B", "1 MB"),
        (0.97654, "1", "97.65 %"),
        (12.345, "J", "12.3 J"),
        (123456.0, "J", "123456 J"),
        (0.5, "W", "0.5 W"),
        (0.00801, "J", "8.01 mJ"),
        (0.0, "J", "0 J"),
        (0, "s", "0 µs"),
    ],
)
def test_values_by_unit(value: float, unit: str, text: str):
    """Each unit has its form."""
    assert units.format_value(value, unit) == text
