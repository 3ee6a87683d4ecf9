"""Every claim of the source documents about FLOP, utilization, time and cost, recomputed by the package."""

import pytest

from tests.chapters.recomputed import assert_borne_out, assert_numbers_are_recomputed, of_chapter

ALL = of_chapter("mfu")


@pytest.mark.parametrize("claim", [pytest.param(claim, id=claim.id) for claim in ALL if claim.expression])
def test_the_package_bears_the_verdict_out(claim):
    assert_borne_out(claim)


def test_every_number_is_recomputed():
    assert_numbers_are_recomputed(ALL)
