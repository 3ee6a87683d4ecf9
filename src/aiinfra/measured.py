"""Files that `aiinfra measure` writes: what was measured on one machine, one number a row, and under what."""

import csv
import math
from pathlib import Path

from aiinfra.tables import (
    CONDITIONS,
    Number,
    TableError,
    base_value,
    check_date,
    check_one_of,
    check_unit,
    split_condition,
)
from aiinfra.units import nearest

COLUMNS = (
    "item", "quantity", "statistic", "value", "unit", "condition", "how",
    "hardware", "driver", "software", "threads", "date", "used",
)  # fmt: skip
STATISTICS = ("lower quartile", "median", "upper quartile", "best", "reported")  # reported: by the system, not timed
_MAY_BE_EMPTY = ("condition", "driver")


def read(path_or_text, quantities):
    """The rows of a file of measurements as `Number`s, or TableError with file and row at the first bad one.

    `Number.where` says what the value is a statistic of, how it was measured, on what and with which versions; its
    `source_key` is "measured", which is not a key of the bibliography.

    Parameters
    ----------
    path_or_text : Path or str      the file, or what it holds: text of several lines is the latter
    quantities : dict               quantity -> the dimension that its unit must have
    """
    name, rows = read_rows(path_or_text)
    if not rows:
        raise TableError(f"{name}: no row; `aiinfra measure matmul --out FILE.csv` writes some")
    numbers = tuple(_number(f"{name}, row {line}", row, quantities) for line, row in enumerate(rows, start=2))
    seen: dict[tuple, int] = {}
    for line, entry in enumerate(numbers, start=2):
        if entry.item != numbers[0].item:
            raise TableError(f"{name}, row {line}: item {entry.item!r} is not {numbers[0].item!r}; one machine a file")
        if entry.used and seen.setdefault((entry.quantity, *sorted(entry.condition)), line) != line:
            raise TableError(f"{name}, row {line}: {entry.quantity} is already used from an earlier row")
    return numbers


def read_rows(path_or_text):
    """(name for messages, rows as dicts of text) of a file of measurements; only its columns are looked at."""
    is_text = isinstance(path_or_text, str) and ("\n" in path_or_text or not path_or_text)
    name = "text" if is_text else str(path_or_text)
    try:
        text = path_or_text if is_text else Path(path_or_text).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise TableError(f"{name}: not a text file") from None
    reader = csv.DictReader(text.splitlines())
    found = tuple(reader.fieldnames or ())
    if found != COLUMNS:
        strange = next((column for column in found if column not in COLUMNS), None)
        hint = (
            f" {strange!r} is not one of them; {nearest(strange, COLUMNS)}" if strange else f" got {', '.join(found)}"
        )
        raise TableError(f"{name}, row 1: columns must be {', '.join(COLUMNS)};{hint}")
    return name, list(reader)


def _number(place, row, quantities):
    if None in row or None in row.values():
        raise TableError(f"{place}: expected {len(COLUMNS)} columns")
    for column in COLUMNS:
        if not row[column] and column not in _MAY_BE_EMPTY:
            raise TableError(f"{place}: {row['quantity'] or 'the row'} has no {column}")
    check_one_of(place, "quantity", row["quantity"], quantities)
    check_one_of(place, "statistic", row["statistic"], STATISTICS)
    check_one_of(place, "used", row["used"], ("yes", "no"))
    condition = split_condition(row["condition"])
    for part in condition:
        check_one_of(place, "condition", part, CONDITIONS)
    check_date(place, "date", row["date"])
    if not row["threads"].isdecimal() or int(row["threads"]) < 1:
        raise TableError(f"{place}: threads must be a whole number of at least 1, got {row['threads']!r}")
    under = f"{row['hardware']}, {row['threads']} thread{'s' if row['threads'] != '1' else ''}"
    return Number(
        item=row["item"], quantity=row["quantity"], value=_value(place, row, quantities[row["quantity"]]),
        printed=row["value"], unit=row["unit"], condition=condition, source_key="measured",
        where="; ".join(filter(None, (row["statistic"], row["how"], under, row["driver"], row["software"]))),
        date_read=row["date"], status="primary", used=row["used"] == "yes",
    )  # fmt: skip


def _value(place, row, expected):
    check_unit(place, row, expected)
    value = base_value(row)
    if not math.isfinite(value) or value <= 0:
        raise TableError(f"{place}: value must be a number greater than 0, got {row['value']!r}")
    return value
