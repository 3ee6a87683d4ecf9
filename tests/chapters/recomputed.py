"""What must hold of every claim that a chapter recomputes; each chapter's tests call it."""

import re
from dataclasses import replace
from pathlib import Path

from aiinfra.authoring import claims

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"\d+(\.\d+)?")


def of_chapter(stem):
    """The claims of one chapter."""
    return [claim for claim in claims.read(ROOT) if claim.chapter == stem]


def assert_borne_out(claim):
    """The formulas agree with the verdict, on numbers that somebody verified; another number would be caught."""
    assert claims.problem(claim) is None
    assert [row for row in claims.recompute(claim).numbers if row.status == "unverified"] == []
    if NUMBER.fullmatch(claim.stated) and claim.verdict in ("exact", "rounds to"):
        assert claims.problem(replace(claim, stated=_a_tenth_more(claim.stated))) is not None
    if NUMBER.fullmatch(claim.stated) and claim.verdict == "wrong":
        assert claims.problem(replace(claim, stated=claim.correct)) is not None
    if NUMBER.fullmatch(claim.correct):
        assert claims.problem(replace(claim, correct=_a_tenth_more(claim.correct))) is not None


def _a_tenth_more(printed):
    decimals = len(printed.partition(".")[2])
    return f"{float(printed) * 1.1 + 10.0**-decimals:.{decimals}f}"


def assert_numbers_are_recomputed(own):
    """No claim that states a plain number goes without a formula, and one subject has one value."""
    assert [claim.id for claim in own if NUMBER.fullmatch(claim.stated) and not claim.expression] == []
    for subject in {claim.subject for claim in own} - {""}:
        members = [c for c in claims.read(ROOT) if c.subject == subject and c.expression]
        assert len({claims.recompute(claim).value for claim in members}) == 1, subject
