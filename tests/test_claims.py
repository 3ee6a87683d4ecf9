"""Claims of the source documents: what a table must not hold, and how a claim is compared with the catalogue."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from docutils.nodes import make_id

from aiinfra import accelerators
from aiinfra.authoring import audit, claims
from aiinfra.tables import sources

ROOT = Path(__file__).parents[1]
GOOD = {
    "id": "a-claim",
    "chapter": "accelerators",
    "subject": "H100 SXM FP16, dense",
    "document": "compute-notes",
    "claim": "H100: FP16.",
    "stated": "989",
    "unit": "TFLOP/s",
    "expression": 'peak("H100 SXM", "fp16")',
    "verdict": "rounds to",
}
WRONG = GOOD | {"verdict": "wrong", "stated": "1979", "correct": "989.4", "mistake": "sparse"}
WRONG |= {"correction": "Half.", "notice": "Read the footnote.", "cost": "Half."}


def table(*rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, claims.COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def one(**changes):
    return claims.read(ROOT, table(GOOD | changes))[0]


def test_a_good_table_is_read():
    first, second = claims.read(ROOT, table(GOOD, WRONG | {"id": "another"}))
    assert (first.id, first.row, second.id, second.row) == ("a-claim", 2, "another", 3)
    assert claims.problem(first) is None
    assert claims.problem(second) is None


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (GOOD | {"document": "compute-note"}, "row 2: document 'compute-note' is not known; nearest: 'compute-notes'"),
        (GOOD | {"verdict": "exakt"}, "row 2: verdict 'exakt' is not known; nearest: 'exact'"),
        (GOOD | {"unit": "TFLOPS"}, "row 2: unit 'TFLOPS' is not known; nearest: 'TFLOP/s'"),
        (WRONG | {"mistake": "sparsity"}, "row 2: mistake 'sparsity' is not known; nearest: 'sparse'"),
        (GOOD | {"sources": "nvidia-h20"}, "row 2: source 'nvidia-h20' is not known; nearest: 'nvidia-"),
        (GOOD | {"claim": ""}, "row 2: a-claim (rounds to) has no claim"),
        (GOOD | {"stated": ""}, "row 2: a-claim (rounds to) has no stated"),
        (GOOD | {"within": "5"}, "row 2: a-claim (rounds to) has no reason"),
        (WRONG | {"correct": ""}, "row 2: a-claim (wrong) has no correct"),
        (WRONG | {"mistake": ""}, "row 2: a-claim (wrong) has no mistake"),
        (WRONG | {"cost": ""}, "row 2: a-claim (wrong) has no cost"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(row, says):
    with pytest.raises(claims.ClaimError) as error:
        claims.read(ROOT, table(row))
    assert str(error.value).startswith(f"claims.csv, {says}")


def test_an_id_is_used_once_and_columns_are_fixed():
    with pytest.raises(claims.ClaimError, match=r"claims.csv, row 3: id 'a-claim' is already in row 2"):
        claims.read(ROOT, table(GOOD, GOOD))
    with pytest.raises(claims.ClaimError, match=r"claims.csv: columns must be id, chapter, "):
        claims.read(ROOT, "id,claim\na,b\n")


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ('peak("H100 SMX", "fp16")', "accelerator 'H100 SMX' is not known; nearest: 'H100 SXM'"),
        ('peak("H100 SXM", "fp61")', "dtype 'fp61' is not known; nearest: 'fp64'"),
        ("open('/etc/passwd')", "name 'open' is not defined"),
        ("1 +", "invalid syntax"),
    ],
)
def test_an_expression_that_fails_names_row_and_claim(expression, says):
    with pytest.raises(claims.ClaimError) as error:
        claims.recompute(one(expression=expression))
    assert str(error.value).startswith(f"claims.csv, row 2, a-claim: {expression}: {says}")


@pytest.mark.parametrize(
    ("stated", "value", "within", "expected"),
    [
        ("989.4", 989.4, "", "exact"),
        ("989", 989.4, "", "rounds to"),
        ("989", 989.5, "", "rounds to"),
        ("989", 989.6, "", "differs"),
        ("989.0", 989.4, "", "differs"),
        ("67.0", 66.9, "0.5", "rounds to"),
        ("67.0", 66.4, "0.5", "differs"),
        ("1,248", 1248.0, "", "exact"),
        ("300 to 350", 350.0, "", "exact"),
        ("300 to 350", 351.0, "", "differs"),
        ("none", None, "", "exact"),
        ("624", None, "", "differs"),
        ("none", 624.0, "", "differs"),
        ("yes", True, "", "exact"),
        ("yes", False, "", "differs"),
        ("NVLink 2", "NVLink 2", "", "exact"),
        ("NVLink 2", "NVLink 3", "", "differs"),
        ("about the same", 0.44, "", "words"),
    ],
)
def test_agreement(stated, value, within, expected):
    assert claims.agreement(stated, value, within) == expected


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"verdict": "exact"}, "that is 'rounds to', not 'exact'"),
        ({"stated": "1979"}, "that is 'differs', not 'rounds to'"),
        ({"stated": "989.4"}, "that is 'exact', not 'rounds to'"),
        ({"within": "1", "reason": "None is needed."}, "the digits explain it, so the row needs no tolerance"),
        (WRONG | {"stated": "989"}, "they agree, so it is not wrong"),
        (WRONG | {"correct": "989.5"}, "but the row's correct value is 989.5"),
        ({"stated": "fast"}, "words cannot be compared, so the row needs a correct value"),
    ],
)
def test_a_verdict_that_the_catalogue_does_not_bear_out(changes, says):
    assert claims.problem(one(**changes)).endswith(says)


def test_recomputing_tells_which_numbers_it_read():
    found = claims.recompute(one(expression='peak("RTX 4090", "fp16") / link("PCIe 4.0 x16").bytes_per_s', unit="1"))
    assert {row.item for row in found.numbers} == {"RTX 4090", "PCIe 4.0 x16"}
    assert found.value == pytest.approx(165.2e12 / 31.508e9, rel=1e-4)


def test_a_changed_catalogue_breaks_the_claims_on_it(monkeypatch):
    claim, real = one(), accelerators.get
    assert claims.problem(claim) is None

    def doubled(name):
        chip = real(name)
        rates = (replace(row, value=2 * row.value) for row in chip.numbers if row.unit == "TFLOP/s")
        return replace(chip, numbers=tuple(rates))

    monkeypatch.setattr(accelerators, "get", doubled)
    assert "the catalogue gives 1978.8" in claims.problem(claim)


def test_the_page_links_to_anchors_that_the_bibliography_writes():
    assert {audit.anchor(key) for key in sources()} == {f"source-{make_id(key)}" for key in sources()}


def test_what_a_document_says_is_escaped():
    claim = one(claim="<b>a & b</b>", verdict="opinion", correct="989.4")
    assert "&lt;b&gt;a &amp; b&lt;/b&gt;" in audit.everything((claim,), ROOT, "compute-notes")
