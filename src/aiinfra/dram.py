"""Generations of memory: what the standards allow one stack or chip at most. Shipping parts run slower."""

from dataclasses import dataclass, field
from functools import cache

from aiinfra.tables import read_numbers
from aiinfra.units import nearest

# quantity of memory.csv -> dimension of its unit. A die's bytes and the number of dies are those of the largest stack.
QUANTITIES = {
    "family": "text",
    "pin_rate": "bytes_per_s",
    "interface": "count",
    "n_dies": "count",
    "die": "bytes",
    "read_bandwidth": "bytes_per_s",
}


@dataclass(frozen=True)
class Dram:
    """One generation. `interface_bits` are the data pins of one stack (HBM) or chip (GDDR)."""

    name: str
    family: str
    pin_bits_per_s: float
    interface_bits: int
    numbers: tuple = field(repr=False)

    @property
    def status(self):
        """The weakest status of the numbers that its bandwidth rests on."""
        used = [row for row in self.numbers if row.used and row.quantity in ("pin_rate", "interface")]
        return max((row.status for row in used), key=("primary", "secondary", "unverified").index)


@cache
def _rows():
    rows: dict[str, list] = {}
    for row in read_numbers("memory.csv", QUANTITIES, "family"):
        rows.setdefault(row.item, []).append(row)
    return {name: tuple(entries) for name, entries in rows.items()}


def names(family=None):
    """Names of all generations, oldest first, or of one family: "HBM" or "GDDR"."""
    return tuple(name for name in _rows() if _has(name, "pin_rate") and family in (None, value(name, "family")))


def get(name):
    """The `Dram` called `name`, or ValueError with the nearest known name.

    >>> get("HBM3").pin_bits_per_s, get("HBM3").interface_bits
    (6400000000.0, 1024)
    """
    if name not in names():
        raise ValueError(f"memory {name!r} is not known; {nearest(name, names())}")
    return Dram(
        name=name,
        family=value(name, "family"),
        pin_bits_per_s=8 * value(name, "pin_rate"),
        interface_bits=int(value(name, "interface")),
        numbers=_rows()[name],
    )


def _has(name, quantity):
    return any(row.used and row.quantity == quantity for row in _rows()[name])


def value(name, quantity):
    """One number of an item of the table, in base units; ValueError that names it where the table has none."""
    rows = [row for row in _rows().get(name, ()) if row.used and row.quantity == quantity]
    if not rows:
        raise ValueError(f"memory.csv has no {quantity} of {name!r}; {nearest(name, _rows())}")
    return rows[0].value


def numbers():
    """Every row of the table."""
    return tuple(row for rows in _rows().values() for row in rows)
