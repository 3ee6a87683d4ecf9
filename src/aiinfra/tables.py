"""Tables of sourced numbers: one number a row, each with its condition, source, date read and status."""

import csv
import math
import re
import tomllib
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources

from aiinfra.units import dimension, nearest, to_base

COLUMNS = ("item", "quantity", "value", "unit", "condition", "source_key", "where", "date_read", "status", "used")
STATUSES = ("primary", "secondary", "unverified")

# A condition is a "; "-separated list of these and of dates: `YYYY` or `YYYY-MM` says when a price held.
CONDITIONS = (
    "dense", "sparse",
    "fp32 accumulate", "fp16 accumulate", "int32 accumulate", "fp64 accumulate",
    "one direction", "both directions",
    "per die", "per package", "per link", "per lane", "per stack", "per system",
    "base clock", "boost clock", "matmul units", "vector units",
    "list price", "street price", "estimate", "on demand",
    "measured",
)  # fmt: skip
_DATE_CONDITION = re.compile(r"(19|20)\d\d(-(0[1-9]|1[0-2]))?")


class TableError(ValueError):
    """A row that cannot be trusted; the message gives file, row and what was expected."""


@dataclass(frozen=True)
class Source:
    """Where numbers come from. `kind`: datasheet, paper, whitepaper, documentation, measurement or article."""

    key: str
    title: str
    author: str
    date: str
    url: str
    kind: str


@dataclass(frozen=True)
class Number:
    """One row: `value` in base units (text for unit "text"), `printed` and `unit` as the source has them."""

    item: str
    quantity: str
    value: float | str
    printed: str
    unit: str
    condition: tuple[str, ...]
    source_key: str
    where: str
    date_read: str
    status: str
    used: bool


def data_text(name):
    """Text of a file of `aiinfra.data`."""
    return (resources.files("aiinfra") / "data" / name).read_text(encoding="utf-8")


@cache
def sources():
    """All sources by key, from `data/sources.toml`."""
    return {key: Source(key=key, **entry) for key, entry in tomllib.loads(data_text("sources.toml")).items()}


def read_numbers(name, quantities, declared_by, text=None):
    """The rows of table `name` as `Number`s, or TableError at the first row that cannot be trusted.

    Parameters
    ----------
    name : str              file in `aiinfra.data`, such as "accelerators.csv"
    quantities : dict       quantity -> the dimension that its unit must have
    declared_by : str       an item exists when a row gives it this quantity; any other item is a misspelling
    text : str or None      the table's text, for tests; read from the package where None
    """
    reader = csv.DictReader((data_text(name) if text is None else text).splitlines())
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise TableError(f"{name}: columns must be {', '.join(COLUMNS)}; got {reader.fieldnames}")
    rows = [(f"{name}, row {line}", row) for line, row in enumerate(reader, start=2)]
    items = {row["item"] for _, row in rows if row["quantity"] == declared_by}
    numbers = [_number(place, row, quantities, items) for place, row in rows]
    seen: dict[tuple, str] = {}
    for (place, _), entry in zip(rows, numbers, strict=True):
        key = (entry.item, entry.quantity, tuple(sorted(entry.condition)))
        if entry.used and seen.setdefault(key, place) != place:
            raise TableError(f"{place}: {key} is already used from {seen[key]}; mark one of them used = no")
    return numbers


def _number(place, row, quantities, items):
    if None in row or None in row.values():
        raise TableError(f"{place}: expected {len(COLUMNS)} columns")
    check_one_of(place, "quantity", row["quantity"], quantities)
    check_one_of(place, "item", row["item"], items)
    check_one_of(place, "status", row["status"], STATUSES)
    check_one_of(place, "used", row["used"], ("yes", "no"))
    if not row["source_key"]:
        raise TableError(f"{place}: {row['item']} {row['quantity']} has no source_key; every number needs one")
    check_one_of(place, "source_key", row["source_key"], sources())
    for column in ("where", "date_read"):
        if not row[column]:
            raise TableError(f"{place}: {row['item']} {row['quantity']} has no {column}")
    check_date(place, "date_read", row["date_read"])
    condition = split_condition(row["condition"])
    for part in condition:
        if not _DATE_CONDITION.fullmatch(part):
            check_one_of(place, "condition", part, CONDITIONS)
    return Number(
        item=row["item"], quantity=row["quantity"], value=_value(place, row, quantities[row["quantity"]]),
        printed=row["value"], unit=row["unit"], condition=condition, source_key=row["source_key"],
        where=row["where"], date_read=row["date_read"], status=row["status"], used=row["used"] == "yes",
    )  # fmt: skip


def _value(place, row, expected):
    check_unit(place, row, expected)
    if not row["value"]:
        raise TableError(f"{place}: {row['item']} {row['quantity']} has no value")
    if expected == "text":
        return row["value"]
    value = base_value(row)
    if not math.isfinite(value) or value < 0:
        raise TableError(f"{place}: value must be a number of at least 0, got {row['value']!r}")
    return value


# The checks of one row, for every reader of rows. `place` names file and row in the TableError that they raise.


def check_unit(place, row, expected):
    """Checks that the row's unit is known and of the dimension that its quantity is `expected` to have."""
    try:
        found = dimension(row["unit"])
    except ValueError as error:
        raise TableError(f"{place}: {error}") from None
    if found != expected:
        raise TableError(f"{place}: {row['quantity']} is measured in {expected}, but unit {row['unit']!r} is {found}")


def base_value(row):
    """The row's value in base units, NaN where it is no number."""
    try:
        return to_base(row["value"], row["unit"])
    except ValueError:
        return math.nan


def check_date(place, column, value):
    """Checks that `value` is a date, YYYY-MM-DD."""
    try:
        date.fromisoformat(value)
    except ValueError:
        raise TableError(f"{place}: {column} must be YYYY-MM-DD, got {value!r}") from None


def split_condition(text):
    """The parts of a condition, such as "dense; fp32 accumulate"."""
    return tuple(part.strip() for part in text.split(";") if part.strip())


def check_one_of(place, column, value, known):
    """Checks that `value` is one of `known`; the error names the nearest."""
    if value not in known:
        raise TableError(f"{place}: {column} {value!r} is not known; {nearest(value, known)}")


def half_last_digit(printed):
    """Half a unit of the last digit that `printed` shows: how far rounding can move a printed number.

    >>> half_last_digit("989.4"), half_last_digit("312")
    (0.05, 0.5)
    """
    _, _, decimals = printed.partition(".")
    return 0.5 * 10.0 ** -len(decimals)


def status_counts(numbers):
    """How many of `numbers` are primary, secondary and unverified; `numbers` may be rows of several tables.

    Text (a vendor's name, a form factor) is counted like a number.
    """
    numbers = tuple(numbers)
    return {status: sum(entry.status == status for entry in numbers) for status in STATUSES}
