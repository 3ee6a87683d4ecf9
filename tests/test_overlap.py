"""Overlap: the simulated schedule against its closed forms, and no resource in two places at once."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinfra.overlap import schedule, total_s

seconds = st.floats(1e-6, 10)


@given(st.integers(1, 30), seconds, seconds)
def test_one_buffer_does_one_after_the_other_and_two_hide_the_shorter(n, load_s, compute_s):
    one, two, many = (total_s(schedule(n, load_s, compute_s, n_buffers)) for n_buffers in (1, 2, 50))
    assert one == pytest.approx(n * (load_s + compute_s), rel=1e-9)
    assert two == pytest.approx(load_s + (n - 1) * max(load_s, compute_s) + compute_s, rel=1e-9)
    assert many == pytest.approx(two, rel=1e-9)


@given(st.integers(1, 12), seconds, seconds, st.integers(1, 4))
def test_blocks_are_loaded_before_they_are_computed_and_buffers_suffice(n, load_s, compute_s, n_buffers):
    intervals = schedule(n, load_s, compute_s, n_buffers)
    load = {one.block: one for one in intervals if one.resource == "load"}
    compute = {one.block: one for one in intervals if one.resource == "compute"}
    assert all(compute[block].start_s >= load[block].end_s for block in range(n))
    for resource in (load, compute):
        for block, after in itertools.pairwise(range(n)):
            assert resource[after].start_s >= resource[block].end_s
    for block in range(n_buffers, n):
        assert load[block].start_s >= compute[block - n_buffers].end_s


def test_the_first_block_cannot_hide():
    assert total_s(schedule(1, 3.0, 2.0, 2)) == 5.0
    assert math.isclose(total_s(schedule(1000, 3.0, 2.0, 2)) / 1000, 3.0, rel_tol=0.001)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((0, 1.0, 1.0), "n_blocks must be .* at least 1, got 0"),
        ((1, -1.0, 1.0), "load_s must be .* at least 0, got -1.0"),
        ((1, 1.0, math.nan), "compute_s must be a finite number .*, got nan"),
        ((1, 1.0, 1.0, 0), "n_buffers must be .* at least 1, got 0"),
    ],
)
def test_bad_input_is_refused_by_name(arguments, says):
    with pytest.raises(ValueError, match=says):
        schedule(*arguments)
