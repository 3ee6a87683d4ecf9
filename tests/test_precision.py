"""Number formats against the formats that Python itself can pack and unpack, and against their definitions."""

import struct
import sys

import pytest

from aiinfra import precision

FLOATS = [name for name in precision.NAMES if not name.startswith("int")]
STORED_BITS = {"fp64": 64, "fp32": 32, "tf32": 19, "bf16": 16, "fp16": 16, "fp8": 8, "fp8_e5m2": 8, "fp4": 4}


@pytest.mark.parametrize("name", FLOATS)
def test_sign_exponent_and_mantissa_fill_the_format(name):
    dtype = precision.get(name)
    assert 1 + dtype.exponent_bits + dtype.mantissa_bits == STORED_BITS[name]


@pytest.mark.parametrize(("name", "code"), [("fp32", "<f"), ("fp16", "<e")])
def test_the_largest_finite_value_is_the_one_that_python_packs(name, code):
    largest = precision.get(name).max
    assert struct.unpack(code, struct.pack(code, largest))[0] == largest
    with pytest.raises(OverflowError):
        struct.pack(code, largest * 1.01)


def test_the_largest_fp64_is_pythons():
    assert precision.get("fp64").max == sys.float_info.max


@pytest.mark.parametrize(
    ("name", "largest"),
    [("fp16", 65504.0), ("bf16", 3.3895313892515355e38), ("fp8", 448.0), ("fp8_e5m2", 57344.0), ("fp4", 6.0)],
)
def test_largest_values_as_published(name, largest):
    """FP8: Micikevicius et al. 2022, table 1. FP4 E2M1: OCP microscaling formats 1.0, table 5."""
    assert precision.get(name).max == largest


def test_bf16_has_the_range_of_fp32_and_less_precision_than_fp16():
    assert precision.get("bf16").exponent_bits == precision.get("fp32").exponent_bits
    assert precision.get("bf16").mantissa_bits < precision.get("fp16").mantissa_bits


def test_tf32_is_stored_in_four_bytes():
    assert precision.get("tf32").bytes == 4


def test_the_usual_sum_is_fp32_and_that_of_integers_int32():
    usual = {name: precision.get(name).accumulate for name in precision.NAMES}
    assert usual == {**dict.fromkeys(precision.NAMES, "fp32"), "fp64": "fp64", "int8": "int32"}


def test_a_dtype_is_itself_and_an_unknown_one_names_the_nearest():
    assert precision.get(precision.get("bf16")) is precision.get("bf16")
    with pytest.raises(ValueError, match=r"dtype 'bfloat16' is not known; nearest: .*'bf16'"):
        precision.get("bfloat16")
