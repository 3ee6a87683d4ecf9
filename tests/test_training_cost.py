"""Time and money of training runs: published hours, inverses, and which of several plans are worth a look."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinfra import accelerators, flops, models, published, training_cost, utilization


@pytest.mark.parametrize("row", published.get("llama2_gpu_hours").rows, ids=lambda row: row["model"])
def test_gpu_hours_of_llama_2(row):
    """Published: table 2 of arXiv:2307.09288. Hours hold restarts and evaluation, so the MFU that they imply is a
    lower bound: between a third and a half, as other runs of that year report. The 34B is lowest, 35 %: its hours
    follow from the total, and its exact size is not published."""
    n = models.get(row["model"]).n_parameters if row["model"] in models.names() else row["n_parameters"]
    flop = flops.approximate_training_flop(n, row["n_tokens"])
    peak = accelerators.get(row["accelerator"]).matmul_flop_per_s("bf16")
    implied = utilization.mfu(flop, row["gpu_hours"] * 3600, peak)
    assert 1 / 3 < implied < 1 / 2
    assert training_cost.accelerator_hours(flop, peak, implied) == pytest.approx(row["gpu_hours"], rel=1e-12)
    assert training_cost.training_usd(flop, peak, implied, 2.0) == pytest.approx(2 * row["gpu_hours"], rel=1e-12)


@given(st.floats(1e6, 1e13), st.floats(1.0, 100.0))
def test_chinchilla_turns_size_into_a_budget_and_back(n, ratio):
    flop = flops.approximate_training_flop(n, training_cost.chinchilla_tokens(n, ratio))
    assert training_cost.chinchilla_parameters(flop, ratio) == pytest.approx(n, rel=1e-9)


def test_chinchilla_itself():
    """Published: 70B parameters and 1.4T tokens, the abstract of arXiv:2203.15556."""
    assert training_cost.chinchilla_tokens(70e9) == 1.4e12


@given(st.floats(1e9, 1e25), st.integers(1, 10**5), st.floats(1e12, 1e16), st.floats(0.01, 1.0))
def test_time_and_utilization_are_inverse(flop, n, peak, frac):
    assert utilization.mfu(flop, training_cost.training_s(flop, n, peak, frac), peak, n) == pytest.approx(
        frac, rel=1e-9
    )
    hours = training_cost.accelerator_hours(flop, peak, frac)
    assert training_cost.training_days(flop, n, peak, frac) == pytest.approx(hours / 24 / n, rel=1e-9)


points = st.tuples(st.integers(1, 9), st.integers(1, 9))


@given(st.lists(points, max_size=12))
def test_a_plan_is_dropped_only_for_one_that_is_no_worse_in_both(plans):
    kept = training_cost.unbeaten(plans)
    for index, (time, money) in enumerate(plans):
        better = [(t, m) for t, m in plans if t <= time and m <= money and (t, m) != (time, money)]
        assert (index in kept) == (not better)


def test_time_and_money_are_two_measures():
    plans = [(10, 100), (5, 200), (12, 90), (11, 150)]  # the last is slower and dearer than the first
    assert training_cost.unbeaten(plans) == [0, 1, 2]
    assert training_cost.unbeaten([]) == []


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: training_cost.training_s(1e20, 0, 1e12, 0.5), "n_accelerators must be .* at least 1, got 0"),
        (
            lambda: training_cost.training_days(1e20, 8, 1e12, 50),
            r"mfu_frac must be at most 1 \(a share, not percent\), got 50",
        ),
        (lambda: training_cost.training_usd(1e20, 1e12, 0.5, math.nan), "usd_per_accelerator_hour must be .*, got nan"),
        (lambda: training_cost.chinchilla_tokens(math.inf), "n_parameters must be a finite number"),
        (lambda: training_cost.unbeaten([(1.0, -2.0)]), "plans\\[0\\] must be .* at least 0, got -2.0"),
    ],
)
def test_bad_input_is_refused_by_name_and_value(call, says):
    with pytest.raises(ValueError, match=says):
        call()
