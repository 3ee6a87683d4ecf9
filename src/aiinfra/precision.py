"""Number formats: how many bytes a value takes, how it is split into bits, and in what width products are added."""

from dataclasses import dataclass

from aiinfra.units import nearest


@dataclass(frozen=True)
class Dtype:
    """A number format.

    `accumulate` is the width that matrix units add products in, unless another is asked for. A float has a sign
    bit, `exponent_bits` and `mantissa_bits` (the leading one is not stored); an integer has neither, and `max` is
    the largest finite value of either.
    """

    name: str
    bytes: float
    accumulate: str
    exponent_bits: int
    mantissa_bits: int
    max: float


def _ieee_max(exponent_bits, mantissa_bits):
    """Largest finite value where the top exponent is kept for infinity and NaN, as IEEE 754 does."""
    return (2.0 - 2.0**-mantissa_bits) * 2.0 ** (2 ** (exponent_bits - 1) - 1)


# fp8 is E4M3, which keeps one code of its top exponent for NaN and has no infinity: 1.75 x 2^8.  [micikevicius2022]
# tf32 has 19 bits in the matrix unit and is stored as fp32. fp4 is E2M1: it has neither infinity nor NaN.
_DTYPES = {
    entry.name: entry
    for entry in (
        Dtype("fp64", 8, "fp64", 11, 52, _ieee_max(11, 52)),
        Dtype("fp32", 4, "fp32", 8, 23, _ieee_max(8, 23)),
        Dtype("tf32", 4, "fp32", 8, 10, _ieee_max(8, 10)),
        Dtype("bf16", 2, "fp32", 8, 7, _ieee_max(8, 7)),
        Dtype("fp16", 2, "fp32", 5, 10, _ieee_max(5, 10)),
        Dtype("fp8", 1, "fp32", 4, 3, 448.0),
        Dtype("fp8_e5m2", 1, "fp32", 5, 2, _ieee_max(5, 2)),
        Dtype("fp4", 0.5, "fp32", 2, 1, 6.0),
        Dtype("int8", 1, "int32", 0, 0, 127.0),
    )
}
NAMES = tuple(_DTYPES)


def get(name):
    """The `Dtype` called `name`, or ValueError with the nearest known name.

    >>> get("bf16").bytes, get("fp16").max
    (2, 65504.0)
    """
    if isinstance(name, Dtype):
        return name
    if name not in _DTYPES:
        raise ValueError(f"dtype {name!r} is not known; {nearest(name, _DTYPES)}")
    return _DTYPES[name]
