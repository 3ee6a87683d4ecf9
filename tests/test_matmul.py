"""The measured matmul: how its FLOP are counted, when it stops, and that it leaves PyTorch as it was."""

import pytest
import torch

from aiinfra.measure import matmul
from aiinfra.measure.matmul import MatmulRate, matmul_flop_per_s


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "bf16", "fp16"])
def test_every_dtype_is_measured(dtype):
    rate = matmul_flop_per_s(64, dtype, repeats=3, device="cpu")
    assert (rate.n, rate.dtype, len(rate.flop_per_s)) == (64, dtype, 3)
    assert 0 < min(rate.flop_per_s) <= rate.median <= rate.best
    assert rate.torch_version == torch.__version__


def test_a_product_is_two_n_cubed_flop_and_the_first_is_not_counted(monkeypatch):
    seconds = iter([100.0, 0.5, 0.25, 1.0])
    monkeypatch.setattr(matmul, "products_s", lambda a, b, out, n_calls: next(seconds))
    rate = matmul_flop_per_s(100, repeats=3, budget_s=60, device="cpu")
    assert rate.flop_per_s == (4e6, 8e6, 2e6)
    assert (rate.median, rate.best) == (4e6, 8e6)


def test_a_short_product_is_timed_many_times_over(monkeypatch):
    calls = []

    def timed(a, b, out, n_calls):
        calls.append(n_calls)
        return 1e-5 * n_calls

    monkeypatch.setattr(matmul, "products_s", timed)
    rate = matmul_flop_per_s(100, repeats=2, budget_s=60, device="cpu")
    assert calls == [1, 1, 100, 100]
    assert rate.flop_per_s == pytest.approx((2e11, 2e11), rel=1e-12)


def test_it_multiplies():
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    out = torch.empty(8, 8)
    assert matmul.products_s(a, b, out, 2) > 0
    assert torch.equal(out, a @ b)


def test_a_spent_budget_ends_it_after_one_timing():
    assert len(matmul_flop_per_s(64, repeats=10**9, budget_s=1e-9, device="cpu").flop_per_s) == 1


def test_threads_are_set_inside_and_back_afterwards(monkeypatch):
    before, inside = torch.get_num_threads(), []

    def timed(*_):
        inside.append(torch.get_num_threads())
        raise KeyError

    monkeypatch.setattr(matmul, "products_s", timed)
    with pytest.raises(KeyError):
        matmul_flop_per_s(8, n_threads=before + 1, device="cpu")
    assert (inside, torch.get_num_threads()) == ([before + 1], before)


def test_random_numbers_of_the_notebook_are_left_alone():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    matmul_flop_per_s(8, repeats=1)
    assert torch.equal(torch.rand(1), expected)


def test_it_prints_as_one_line_with_machine_and_version():
    rate = MatmulRate(1024, "fp32", (1e9, 4e9, 3e9), "AMD EPYC", 1, "2.13.0", "2026-11-20")
    assert repr(rate) == (
        "3.00 GFLOP/s median, 4.00 GFLOP/s best of 3 (1024 x 1024 fp32, 1 thread, AMD EPYC, torch 2.13.0, 2026-11-20)"
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"n": 0}, "n must be"),
        ({"n": 1.5}, "n must be"),
        ({"dtype": "fp33"}, "dtype 'fp33' is not known"),
        ({"dtype": "fp8"}, "dtype 'fp8' cannot be measured"),
        ({"repeats": 0}, "repeats"),
        ({"n_threads": 0}, "n_threads"),
        ({"budget_s": 0}, "budget_s"),
        ({"device": "gpu"}, "device must be one of"),
    ],
)
def test_arguments_that_make_no_sense_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        matmul_flop_per_s(**{"n": 8, **arguments})
