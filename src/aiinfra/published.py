"""Tables of published measurements: what other people measured, to check formulas against."""

import csv
import tomllib
from dataclasses import dataclass

from aiinfra.tables import STATUSES, TableError, data_text, sources
from aiinfra.units import nearest, to_base


@dataclass(frozen=True)
class Published:
    """One table. `rows` are dicts: text as printed, numbers in base units, None where the source has no number."""

    name: str
    source_key: str
    where: str
    hardware: str
    software: str
    date_read: str
    status: str
    role: str
    units: dict
    rows: tuple


def names():
    """Names of all published tables."""
    return tuple(_index())


def get(name):
    """The table called `name`, or ValueError with the nearest known name; TableError where it can't be trusted."""
    index = _index()
    if name not in index:
        raise ValueError(f"published table {name!r} is not known; {nearest(name, index)}")
    entry = index[name]
    if entry["source_key"] not in sources():
        raise TableError(f"published/index.toml, {name}: source_key {entry['source_key']!r} is not known")
    if entry["status"] not in STATUSES or entry["role"] not in ("checks", "calibrates"):
        raise TableError(f"published/index.toml, {name}: status {entry['status']!r}, role {entry['role']!r}: not known")
    return Published(name=name, rows=tuple(_rows(name, entry["units"])), **entry)


def _index():
    return tomllib.loads(data_text("published/index.toml"))


def _rows(name, units):
    reader = csv.DictReader(data_text(f"published/{name}.csv").splitlines())
    missing = set(units) - set(reader.fieldnames or ())
    if missing:
        raise TableError(f"published/{name}.csv: no column {', '.join(sorted(missing))}")
    for line, row in enumerate(reader, start=2):
        try:
            numbers = {key: to_base(row[key], unit) if row[key] else None for key, unit in units.items()}
        except ValueError as error:
            raise TableError(f"published/{name}.csv, row {line}: {error}") from None
        yield {**row, **numbers}
