"""Collectives: limits, properties, and the formula against a simulated ring."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinfra.collectives import ring_all_reduce_s, ring_all_reduce_sent_bytes

messages = st.floats(1.0, 1e13)
ranks = st.integers(1, 4096)
links = st.floats(1e6, 1e13)
alphas = st.floats(0.0, 1.0)


def test_one_rank_takes_no_time():
    assert ring_all_reduce_s(1e9, 1, 1e9, alpha_s=1.0) == 0.0


def test_two_ranks_exchange_the_message_once():
    assert ring_all_reduce_s(1e9, 2, 25e9) == 1e9 / 25e9


def test_infinitely_many_ranks_send_twice_the_message():
    assert math.isclose(ring_all_reduce_sent_bytes(1e9, 10**9), 2e9, rel_tol=1e-8)


@given(messages, ranks, links, alphas)
def test_latency_and_bytes_add_up(message, n, link, alpha):
    both = ring_all_reduce_s(message, n, link, alpha)
    apart = ring_all_reduce_s(0, n, link, alpha) + ring_all_reduce_s(message, n, link)
    assert math.isclose(both, apart, rel_tol=1e-12)


@given(messages, ranks, links, alphas)
def test_more_ranks_never_take_less_time(message, n, link, alpha):
    assert ring_all_reduce_s(message, n + 1, link, alpha) >= ring_all_reduce_s(message, n, link, alpha)


@given(st.integers(1, 6), st.integers(1, 5))
def test_a_simulated_ring_sends_those_bytes_and_gets_the_sum(n, chunk):
    """Ranks as lists: after reduce-scatter and all-gather each holds the sum, and each sent 2 (n - 1) chunks."""
    data = [[rank * n * chunk + i for i in range(n * chunk)] for rank in range(n)]
    total = [sum(column) for column in zip(*data, strict=True)]
    sent = [0] * n
    for step in range(2 * (n - 1)):
        outgoing = []
        for rank in range(n):
            index = (rank - step) % n * chunk
            outgoing.append((index, data[rank][index : index + chunk]))
            sent[rank] += chunk
        for rank in range(n):
            index, values = outgoing[(rank - 1) % n]
            for i, value in enumerate(values, start=index):
                data[rank][i] = value + data[rank][i] if step < n - 1 else value
    assert data == [total] * n
    assert sent == [ring_all_reduce_sent_bytes(n * chunk, n)] * n


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("message_bytes", -1), ("message_bytes", math.nan), ("message_bytes", "1e9"), ("n_ranks", 0), ("n_ranks", 2.5),
        ("n_ranks", True), ("link_bytes_per_s", 0), ("link_bytes_per_s", math.inf), ("alpha_s", -1e-6),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name_and_value(argument, value):
    arguments = {"message_bytes": 1e9, "n_ranks": 8, "link_bytes_per_s": 25e9, "alpha_s": 0.0, argument: value}
    with pytest.raises(ValueError, match=f"^{argument} must be .*, got {value!r}$"):
        ring_all_reduce_s(**arguments)
