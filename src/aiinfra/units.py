"""Units of the numbers that enter and the text that leaves; inside, everything is a float in base units.

Base units: byte, second, FLOP, FLOP/s, byte/s, hertz, watt, US dollar. Decimal prefixes are powers of 1000
(GB = 1e9 bytes); GiB and its kin are powers of 1024 and never called GB here.
"""

import difflib
import math
import operator

# unit -> (dimension, factor to the base unit of that dimension)
UNITS = {
    "1": ("count", 1.0),
    "M": ("count", 1e6),
    "B": ("count", 1e9),
    "text": ("text", 1.0),
    "byte": ("bytes", 1.0),
    "KB": ("bytes", 1e3),
    "MB": ("bytes", 1e6),
    "GB": ("bytes", 1e9),
    "TB": ("bytes", 1e12),
    "KiB": ("bytes", 2.0**10),
    "MiB": ("bytes", 2.0**20),
    "GiB": ("bytes", 2.0**30),
    "MB/s": ("bytes_per_s", 1e6),
    "GB/s": ("bytes_per_s", 1e9),
    "TB/s": ("bytes_per_s", 1e12),
    "PB/s": ("bytes_per_s", 1e15),
    "Gbit/s": ("bytes_per_s", 1e9 / 8),
    "Tbit/s": ("bytes_per_s", 1e12 / 8),
    "GFLOP/s": ("flop_per_s", 1e9),
    "TFLOP/s": ("flop_per_s", 1e12),
    "PFLOP/s": ("flop_per_s", 1e15),
    "TOP/s": ("flop_per_s", 1e12),
    "MHz": ("hz", 1e6),
    "GHz": ("hz", 1e9),
    "GT/s": ("transfers_per_s", 1e9),
    "s": ("s", 1.0),
    "ms": ("s", 1e-3),
    "us": ("s", 1e-6),
    "W": ("w", 1.0),
    "USD": ("usd", 1.0),
    "USD/h": ("usd_per_h", 1.0),
    "nm": ("nm", 1.0),
    "mm2": ("mm2", 1.0),
    "year": ("year", 1.0),
}


def nearest(name, known):
    """A short hint that names the entries of `known` closest to `name`, for error messages."""
    known = [str(entry) for entry in known]
    lowered = {entry.lower(): entry for entry in known}
    close = difflib.get_close_matches(str(name).lower(), lowered, n=3, cutoff=0.4)
    if close:
        return "nearest: " + ", ".join(repr(lowered[entry]) for entry in close)
    return "known: " + ", ".join(repr(entry) for entry in sorted(known)[:8])


def dimension(unit):
    """Dimension of `unit`, such as "bytes_per_s" for "GB/s". Raises ValueError with the nearest known unit."""
    if unit not in UNITS:
        raise ValueError(f"unit {unit!r} is not known; {nearest(unit, UNITS)}")
    return UNITS[unit][0]


def to_base(value, unit):
    """`value` in `unit` as a float in base units.

    >>> to_base(400, "Gbit/s")
    50000000000.0
    """
    dimension(unit)
    return float(value) * UNITS[unit][1]


def count(name, value, minimum=1):
    """`value` as an int of at least `minimum`, or ValueError naming the argument."""
    try:
        as_int = operator.index(value)
    except TypeError:
        as_int = None
    if as_int is None or isinstance(value, bool) or as_int < minimum:
        raise ValueError(f"{name} must be a whole number of at least {minimum}, got {value!r}")
    return as_int


def number(name, value, minimum=0.0, above=False):
    """`value` as a finite float of at least `minimum` (greater than it where `above`), or ValueError."""
    try:
        as_float = math.nan if isinstance(value, str | bool) else float(value)
    except (TypeError, ValueError):
        as_float = math.nan
    if not math.isfinite(as_float) or as_float < minimum or (above and as_float == minimum):
        bound = "greater than" if above else "of at least"
        raise ValueError(f"{name} must be a finite number {bound} {minimum:g}, got {value!r}")
    return as_float


_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def _scaled(value, suffix, digits):
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor * (1 - 0.5 * 10.0**-digits):
            return f"{_digits(value / factor, digits)} {prefix}{suffix}"
    return f"{_digits(value, digits)} {suffix}"


def _digits(value, digits):
    """`value` to `digits` significant digits, without an exponent for everyday magnitudes."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{decimals}f}" if decimals < 12 else f"{rounded:.{digits - 1}e}"


def format_bytes(value, digits=3):
    """
    >>> format_bytes(13.48e9)
    '13.5 GB'
    """
    return _scaled(value, "B", digits)


def format_bytes_per_s(value, digits=3):
    """
    >>> format_bytes_per_s(450e9)
    '450 GB/s'
    """
    return _scaled(value, "B/s", digits)


def format_flop_per_s(value, digits=4):
    """
    >>> format_flop_per_s(989.4e12)
    '989.4 TFLOP/s'
    """
    return _scaled(value, "FLOP/s", digits)


def format_count(value, digits=3):
    """
    >>> format_count(6_738_415_616)
    '6.74 billion'
    """
    for factor, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if abs(value) >= factor:
            return f"{_digits(value / factor, digits)} {name}"
    return _digits(value, digits)


def format_s(value, digits=3):
    """A duration in the unit that people would say it in.

    >>> format_s(0.0524), format_s(7200), format_s(3e-6)
    ('52.4 ms', '2.00 h', '3.00 µs')
    """
    for factor, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(value) >= factor * (1 - 0.5 * 10.0**-digits):
            return f"{_digits(value / factor, digits)} {name}"
    return "0 s" if value == 0 else f"{_digits(value / 1e-9, digits)} ns"
