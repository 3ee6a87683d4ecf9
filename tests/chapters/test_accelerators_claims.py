"""Every claim of the source documents about accelerators, recomputed from the catalogue."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from aiinfra.authoring import claims

ROOT = Path(__file__).parents[2]
ALL = [claim for claim in claims.read(ROOT) if claim.chapter == "accelerators"]
RECOMPUTED = [claim for claim in ALL if claim.expression]
PAGE = (ROOT / "book/audit.md").read_text(encoding="utf-8")


def by_id(found):
    return [pytest.param(claim, id=claim.id) for claim in found]


@pytest.mark.parametrize("claim", by_id(RECOMPUTED))
def test_the_catalogue_bears_the_verdict_out(claim):
    assert claims.problem(claim) is None


def test_enough_claims_are_recomputed():
    assert len(RECOMPUTED) >= 190
    numbers = re.compile(r"\d+(\.\d+)?")
    assert [claim.id for claim in ALL if numbers.fullmatch(claim.stated) and not claim.expression] == []


@pytest.mark.parametrize("claim", by_id(c for c in RECOMPUTED if re.fullmatch(r"[\d.]+", c.stated)))
def test_another_stated_number_would_be_caught(claim):
    """The test above can fail: a document that said a tenth more, or what is right, needs another verdict."""
    if claim.verdict in ("exact", "rounds to"):
        decimals = len(claim.stated.partition(".")[2])
        more = float(claim.stated) * 1.1 + 0.6 * 10.0**-decimals
        assert claims.problem(replace(claim, stated=f"{more:.{decimals}f}")) is not None
    elif claim.verdict == "wrong":
        assert claims.problem(replace(claim, stated=claim.correct)) is not None


@pytest.mark.parametrize("claim", by_id(c for c in RECOMPUTED if re.fullmatch(r"[\d.]+", c.correct)))
def test_another_correct_number_would_be_caught(claim):
    decimals = len(claim.correct.partition(".")[2])
    more = float(claim.correct) * 1.1 + 10.0**-decimals
    assert "the row's correct value is" in claims.problem(replace(claim, correct=f"{more:.{decimals}f}"))


@pytest.mark.parametrize("subject", sorted({claim.subject for claim in RECOMPUTED} - {""}))
def test_claims_of_one_subject_recompute_to_one_value(subject):
    values = {claims.recompute(claim).value for claim in RECOMPUTED if claim.subject == subject}
    assert len(values) == 1


def test_no_verdict_rests_on_an_unverified_number():
    shaky = {
        (claim.id, row.item, row.quantity)
        for claim in RECOMPUTED
        for row in claims.recompute(claim).numbers
        if row.status == "unverified"
    }
    assert shaky == set()


def test_every_document_and_every_kind_of_mistake_is_met():
    assert {claim.document for claim in ALL} == set(claims.documents(ROOT))
    assert {claim.mistake for claim in ALL if claim.verdict == "wrong"} == set(claims.mistakes(ROOT))
    assert {claim.mistake for claim in ALL if claim.verdict != "wrong"} == {""}


@pytest.mark.parametrize(("key", "entry"), claims.mistakes(ROOT).items(), ids=str)
def test_the_page_shows_every_kind_of_mistake_under_its_title(key, entry):
    section = PAGE.partition(f"\n## {entry['title']}\n")[2].partition("\n## ")[0]
    assert f'show("{key}")' in section


KNOWN = {  # the mistakes that the chapter teaches -> the kind under which the page shows them
    "bekman-accelerators-a100-fp8": "product",
    "li-4090-h100-fp16": "sparse",
    "li-4090-h100-tf32": "sparse",
    "li-4090-4090-fp16": "accumulate",
    "li-4090-a100-link": "product",
    "li-4090-3090-nvlink": "product",
    "meeting-notes-turing-sm": "mixed",
    "meeting-notes-ampere-transistors": "mixed",
    "meeting-notes-v100-nvlink": "product",
    "bekman-accelerators-gh200-grace": "package",
}


@pytest.mark.parametrize(("name", "mistake"), KNOWN.items())
def test_mistakes_that_the_chapter_teaches_are_filed_by_their_kind(name, mistake):
    claim = next(claim for claim in ALL if claim.id == name)
    assert (claim.verdict, claim.mistake) == ("wrong", mistake)
