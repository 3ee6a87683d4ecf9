"""Tables: what a loader refuses, and what every row of every table has."""

import re
from pathlib import Path

import pytest

from aiinfra import accelerators, dram, models, published, tables
from aiinfra.tables import COLUMNS, TableError

ROOT = Path(__file__).parents[1]
QUANTITIES = {"vendor": "text", "memory": "bytes", "price": "usd"}
GOOD = {
    "item": "H100 SXM",
    "quantity": "memory",
    "value": "80",
    "unit": "GB",
    "condition": "",
    "source_key": "nvidia-h100-datasheet",
    "where": "specification table",
    "date_read": "2026-11-20",
    "status": "secondary",
    "used": "yes",
}
VENDOR = {**GOOD, "quantity": "vendor", "value": "NVIDIA", "unit": "text"}


def read(*rows):
    lines = [",".join(COLUMNS), *(",".join(row[column] for column in COLUMNS) for row in rows)]
    return tables.read_numbers("chips.csv", QUANTITIES, "vendor", text="\n".join(lines))


def test_a_good_table_is_read_in_base_units_with_what_was_printed():
    vendor, memory = read(VENDOR, GOOD)
    assert (vendor.value, memory.value, memory.printed, memory.unit) == ("NVIDIA", 80e9, "80", "GB")
    assert (memory.source_key, memory.status, memory.used) == ("nvidia-h100-datasheet", "secondary", True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"source_key": ""}, "H100 SXM memory has no source_key; every number needs one"),
        ({"source_key": "nvidia-h100-datashet"}, "nearest: 'nvidia-h100-datasheet'"),
        ({"where": ""}, "has no where"),
        ({"date_read": ""}, "has no date_read"),
        ({"date_read": "20.11.2026"}, "date_read must be YYYY-MM-DD, got '20.11.2026'"),
        ({"date_read": "2026-13-01"}, "date_read must be YYYY-MM-DD"),
        ({"item": "H100 SMX"}, "item 'H100 SMX' is not known; nearest: 'H100 SXM'"),
        ({"quantity": "memry"}, "quantity 'memry' is not known; nearest: 'memory'"),
        ({"unit": "Gigabyte"}, "unit 'Gigabyte' is not known"),
        ({"unit": "GB/s"}, "memory is measured in bytes, but unit 'GB/s' is bytes_per_s"),
        ({"value": "eighty"}, "value must be a number of at least 0, got 'eighty'"),
        ({"value": "-80"}, "value must be a number of at least 0"),
        ({"value": "nan"}, "value must be a number of at least 0"),
        ({"value": ""}, "H100 SXM memory has no value"),
        ({"condition": "sparsee"}, "condition 'sparsee' is not known; nearest: 'sparse'"),
        ({"condition": "2023-13"}, "condition '2023-13' is not known"),
        ({"status": "checked"}, "status 'checked' is not known"),
        ({"used": "maybe"}, "used 'maybe' is not known"),
    ],
)
def test_a_row_that_cannot_be_trusted_is_named_with_file_and_row(change, says):
    with pytest.raises(TableError, match=re.escape(says)) as error:
        read(VENDOR, {**GOOD, **change})
    assert str(error.value).startswith("chips.csv, row 3: ")


def test_two_used_rows_for_the_same_thing_are_refused_and_an_unused_one_is_kept():
    other = {**GOOD, "value": "94"}
    with pytest.raises(TableError, match=r"chips.csv, row 4: .* is already used from chips.csv, row 3"):
        read(VENDOR, GOOD, other)
    assert [row.used for row in read(VENDOR, GOOD, {**other, "used": "no"})] == [True, True, False]


def test_the_order_of_conditions_does_not_matter_for_two_used_rows():
    first = {**GOOD, "quantity": "price", "unit": "USD", "condition": "list price; 2022-10"}
    with pytest.raises(TableError, match="is already used"):
        read(VENDOR, first, {**first, "condition": "2022-10; list price"})


def test_columns_that_are_missing_or_too_many_are_refused():
    with pytest.raises(TableError, match="columns must be item, quantity"):
        tables.read_numbers("chips.csv", QUANTITIES, "vendor", text="item,value\nH100,80")
    with pytest.raises(TableError, match="row 2: expected 10 columns"):
        tables.read_numbers("chips.csv", QUANTITIES, "vendor", text=",".join(COLUMNS) + "\nH100 SXM,vendor")


ALL = (*accelerators.numbers(), *dram.numbers(), *models.numbers())


def cited():
    """Source keys in brackets in code and pages, and those of the published tables."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src" / "aiinfra").rglob("*.py")]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "book").glob("*.md")]
    found = {key for text in texts for key in re.findall(r"\[([a-z0-9.-]+)\]", text)}
    return found | {key for text in texts for key in re.findall(r"\{cite\}`([^`]+)`", text)}


def test_every_source_key_resolves_and_every_source_is_used():
    used = {row.source_key for row in ALL} | {published.get(name).source_key for name in published.names()}
    assert used - set(tables.sources()) == set()
    assert set(tables.sources()) - used - cited() == set()


@pytest.mark.parametrize("source", tables.sources().values(), ids=lambda source: source.key)
def test_a_source_says_what_it_is(source):
    assert source.title
    assert source.author
    assert re.fullmatch(r"(19|20)\d\d(-(0[1-9]|1[0-2]))?", source.date)
    assert source.url.startswith("https://")
    assert source.kind in ("datasheet", "paper", "whitepaper", "documentation", "measurement", "article")


def test_statuses_add_up_and_at_most_one_number_in_ten_is_unverified():
    counts = tables.status_counts(ALL)
    assert sum(counts.values()) == len(ALL)
    assert counts["unverified"] <= 0.1 * len(ALL)


@pytest.mark.parametrize(("printed", "half"), [("1978.9", 0.05), ("312", 0.5), ("7.45", 0.005)])
def test_half_of_the_last_digit(printed, half):
    assert tables.half_last_digit(printed) == pytest.approx(half, rel=1e-12)
