"""Writes measurements to a file that `aiinfra.accelerators.from_measurement` reads."""

import csv
import io
import os
import tempfile
from pathlib import Path

from aiinfra import accelerators, measured
from aiinfra.units import UNITS

_UNIT_NAMES = {"flop_per_s": ("TFLOP/s", "GFLOP/s"), "bytes_per_s": ("TB/s", "GB/s"), "bytes": ("GB",)}


def check(path, about):
    """Say so before anything is measured if `path` can't take measurements of this machine: ValueError or OSError."""
    path = Path(path)
    if not path.parent.is_dir():
        raise ValueError(f"out: there is no folder {path.parent}")
    if path.is_dir():
        raise ValueError(f"out: {path} is a folder")
    if path.exists():
        numbers = measured.read(path, accelerators.QUANTITIES)
        if numbers[0].item != about["item"]:
            raise ValueError(f"out: {path} is of {numbers[0].item}, not of {about['item']}; give another file")


def write(path, result):
    """Add what was measured to the file at `path`, in place of what it had of the same quantities.

    A measurement that was interrupted takes nothing's place: it adds what the file did not have.
    The file is replaced in one step: whoever looks at it, and whatever interrupts this, it is whole.

    Parameters
    ----------
    path : str or Path
    result : BestMatmul or Bandwidth    with `about`, its columns, `interrupted`, and `rows()`: (quantity,
                                        condition, how, statistics, whether the median is what figures use)
    """
    path = Path(path)
    check(path, result.about)
    new = [row for quantity in result.rows() for row in _rows(result.about, *quantity)]
    old = measured.read_rows(path)[1] if path.exists() else []
    if result.interrupted:
        kept = {row["quantity"] for row in old}
        new = [row for row in new if row["quantity"] not in kept]
    replaced = {row["quantity"] for row in new}
    text = io.StringIO()
    writer = csv.DictWriter(text, measured.COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows([*(row for row in old if row["quantity"] not in replaced), *new])
    accelerators.from_measurement(text.getvalue())  # what is written can be read
    _replace(path, text.getvalue())


def _rows(about, quantity, condition, how, statistics, used):
    for statistic, value in statistics.items():
        unit = _unit(accelerators.QUANTITIES[quantity], value)
        yield {
            **about,
            "quantity": quantity,
            "statistic": statistic,
            "value": f"{value / UNITS[unit][1]:.5g}",
            "unit": unit,
            "condition": condition,
            "how": how,
            "used": "yes" if used and statistic in ("median", "reported") else "no",
        }


def _unit(dimension, value):
    """The largest unit in which the value is at least 1, or the smallest."""
    names = _UNIT_NAMES[dimension]
    return next((name for name in names if value >= UNITS[name][1]), names[-1])


def _replace(path, text):
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
