"""Every claim of the source documents about memory, recomputed by the package."""

import pytest

from tests.chapters.recomputed import assert_borne_out, assert_numbers_are_recomputed, of_chapter

ALL = of_chapter("hbm")


@pytest.mark.parametrize("claim", [pytest.param(claim, id=claim.id) for claim in ALL if claim.expression])
def test_the_package_bears_the_verdict_out(claim):
    assert_borne_out(claim)


def test_every_number_is_recomputed():
    assert_numbers_are_recomputed(ALL)


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("bekman-accelerators-a100-hbm2", "product"),
        ("bekman-accelerators-table-h100-pcie-memory-type", "product"),
        ("bekman-accelerators-table-h100-pcie-bandwidth", "product"),
        ("bekman-accelerators-table-tpu-v4-bandwidth", "unlike"),
        ("bekman-accelerators-table-tpu-v5e-bandwidth", "unlike"),
        ("bekman-accelerators-table-tpu-v5p-bandwidth", "unlike"),
    ],
)
def test_known_mistakes_are_filed_by_their_kind(name, mistake):
    claim = next(claim for claim in ALL if claim.id == name)
    assert (claim.verdict, claim.mistake) == ("wrong", mistake)
