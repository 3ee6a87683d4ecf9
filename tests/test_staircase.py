"""The measured staircase: what is timed, what is reported, and where its steps end."""

import pytest
import torch

from aiinfra.measure import staircase
from aiinfra.measure.distribution import Distribution
from aiinfra.measure.staircase import Staircase


def stairs(rates):
    return Staircase(512, 512, "fp32", {n: Distribution(values) for n, values in rates.items()}, {})


def test_every_size_is_timed_and_the_rate_is_two_mnk_over_seconds(monkeypatch):
    timed = []

    def products_s(a, b, out, n_calls):
        timed.append((tuple(a.shape), tuple(b.shape), tuple(out.shape)))
        return 2.0 * n_calls

    monkeypatch.setattr(staircase, "products_s", products_s)
    found = staircase.staircase([8, 16], m=4, k=2, budget_s=1e-9, device="cpu")
    assert {n: rates.values for n, rates in found.rates.items()} == {8: (64.0,), 16: (128.0,)}
    assert set(timed) == {((4, 2), (2, 8), (4, 8)), ((4, 2), (2, 16), (4, 16))}


def test_a_real_staircase():
    found = staircase.staircase(range(16, 65, 16), m=32, k=32, budget_s=0.05, device="cpu")
    assert list(found.best()) == [16, 32, 48, 64]
    assert min(found.best().values()) > 0
    assert found.about["software"].startswith(f"torch {torch.__version__}")


def test_steps_end_where_the_next_size_is_slower():
    found = stairs({8: (5.0, 9.0), 16: (10.0, 2.0), 24: (7.0, 6.0), 32: (11.0,), 40: (10.5,)})
    assert found.best() == {8: 9.0, 16: 10.0, 24: 7.0, 32: 11.0, 40: 10.5}
    assert found.drops() == [16]
    assert found.drops(0.01) == [16, 32]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"sizes": [8, 0]}, "sizes must be a whole number of at least 1, got 0"),
        ({"sizes": []}, r"len\(sizes\) must be .* at least 1, got 0"),
        ({"sizes": [8], "m": 0}, "m must be a whole number of at least 1, got 0"),
        ({"sizes": [8], "k": 1.5}, "k must be a whole number of at least 1, got 1.5"),
        ({"sizes": [8], "dtype": "fp33"}, "dtype 'fp33' is not known"),
        ({"sizes": [8], "budget_s": 0}, "budget_s must be a finite number greater than 0, got 0"),
        ({"sizes": [8], "device": "gpu"}, "device must be one of cpu, cuda, got 'gpu'"),
    ],
)
def test_bad_input_is_refused_by_name_and_value(arguments, says):
    with pytest.raises(ValueError, match=says):
        staircase.staircase(**arguments)
