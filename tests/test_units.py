"""Units: limits, and properties of converting and formatting."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinfra import units

positive = st.floats(1e-9, 1e20)
PREFIX = {"P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0}
SECONDS = {"d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


@pytest.mark.parametrize(
    ("value", "unit", "base"),
    [
        (1, "GB", 1e9),
        (1, "GiB", 2**30),
        (80, "GiB", 85_899_345_920),
        (400, "Gbit/s", 50e9),
        (1, "TB/s", 1e12),
        (2, "PFLOP/s", 2e15),
        (624, "TOP/s", 624e12),
        (1410, "MHz", 1.41e9),
        (175, "B", 175e9),
    ],
)
def test_a_value_in_a_unit_is_so_much_in_base_units(value, unit, base):
    assert units.to_base(value, unit) == base


def test_a_gib_is_more_than_a_gb_and_a_gigabit_is_an_eighth_of_a_gigabyte():
    assert units.to_base(1, "GiB") / units.to_base(1, "GB") == 1.073741824
    assert units.to_base(8, "Gbit/s") == units.to_base(1, "GB/s")


@pytest.mark.parametrize(("wrong", "near"), [("Gb/s", "GB/s"), ("TFLOPS", "TFLOP/s"), ("gib", "GiB")])
def test_an_unknown_unit_names_the_nearest(wrong, near):
    with pytest.raises(ValueError, match=re.escape(f"unit {wrong!r} is not known")) as error:
        units.to_base(1, wrong)
    assert repr(near) in str(error.value)


@given(st.sampled_from(sorted(units.UNITS)), positive, st.floats(1.0, 1e6))
def test_converting_is_linear(unit, value, factor):
    if units.dimension(unit) != "text":
        assert math.isclose(units.to_base(value * factor, unit), units.to_base(value, unit) * factor, rel_tol=1e-12)


def parsed(text, suffix):
    number, prefix = re.fullmatch(rf"([\d.,e+-]+) ([PTGMk]?){re.escape(suffix)}", text).groups()
    return float(number.replace(",", "")) * PREFIX[prefix]


@given(st.floats(1.0, 1e17), st.integers(2, 8))
def test_formatted_bytes_read_back_to_the_digits_shown(value, digits):
    assert math.isclose(parsed(units.format_bytes(value, digits), "B"), value, rel_tol=0.51 * 10.0 ** (1 - digits))


@given(st.floats(1.0, 1e17))
def test_rates_are_formatted_like_sizes(value):
    assert units.format_bytes_per_s(value) == units.format_bytes(value) + "/s"
    assert math.isclose(parsed(units.format_flop_per_s(value), "FLOP/s"), value, rel_tol=0.51e-3)


@given(st.floats(1e-9, 1e9))
def test_formatted_seconds_read_back_to_the_digits_shown(value):
    number, unit = units.format_s(value, digits=4).split(" ")
    assert math.isclose(float(number.replace(",", "")) * SECONDS[unit], value, rel_tol=0.51e-3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.format_bytes(0), "0 B"),
        (units.format_bytes(999.9), "1.00 kB"),
        (units.format_bytes(2.0**30, digits=4), "1.074 GB"),
        (units.format_count(405_853_388_800), "406 billion"),
        (units.format_count(1.008e12, digits=4), "1.008 trillion"),
        (units.format_count(12), "12.0"),
        (units.format_s(0), "0 s"),
        (units.format_s(86400), "1.00 d"),
        (units.format_s(5e-9), "5.00 ns"),
    ],
)
def test_formatting_at_the_edges(text, expected):
    assert text == expected


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "8", None, math.nan])
def test_a_count_is_a_whole_number_of_at_least_one(value):
    with pytest.raises(ValueError, match=r"tp must be a whole number of at least 1, got"):
        units.count("tp", value)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "8", True, None])
def test_a_number_is_finite_and_not_negative(value):
    with pytest.raises(ValueError, match=r"seconds must be a finite number of at least 0, got"):
        units.number("seconds", value)


def test_zero_is_a_number_but_not_above_zero():
    assert units.number("seconds", 0) == 0.0
    with pytest.raises(ValueError, match="greater than 0"):
        units.number("seconds", 0, above=True)
