"""Timed operators: what is timed is what the roofline describes; no assertion on any time."""

import math

import pytest
import torch

from aiinfra import roofline
from aiinfra.measure import operators
from aiinfra.measure.traffic import MemoryTraffic


def test_points_have_the_work_of_their_operators_and_rates_that_are_numbers():
    points = operators.measure_operators(batches=(1, 16), width=64, budget_s=0.1, device="cpu")
    names = [point.name for point in points]
    assert names == [
        "layer, batch 1", "layer, batch 16", "add", "GELU", "softmax", "layer that a cache holds, batch 4",
    ]  # fmt: skip
    assert points[0].work == roofline.matmul(1, 64, 64, "fp32")
    assert points[1].work.flop_per_byte > points[0].work.flop_per_byte
    assert all(math.isfinite(point.rates.best) and point.best_s > 0 for point in points)


def test_what_is_timed_moves_the_bytes_of_its_work():
    device = torch.device("cpu")
    kernels = [
        *operators._layers((4,), 64, 4 * 64 * 64 * 3, device), *operators._elementwise(3e5, device),
        operators._cached(16, device),
    ]  # fmt: skip
    for name, work, calls in kernels:
        function, args, kwargs = next(calls)
        with torch.no_grad(), MemoryTraffic() as counted:
            function(*args, **kwargs)
        assert counted.total_bytes == work.bytes, name


def test_as_many_weights_take_turns_as_no_cache_holds():
    ((_, _, calls),) = operators._layers((1,), 64, 10 * 4 * 64 * 64, torch.device("cpu"))
    weights = [next(calls)[1][1] for _ in range(20)]
    assert len({weight.data_ptr() for weight in weights}) == 10


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"batches": (0,)}, "batches must be .* at least 1, got 0"),
        ({"width": 8}, "width must be .* at least 64, got 8"),
        ({"budget_s": 0}, "budget_s must be .* greater than 0, got 0"),
        ({"device": "gpu"}, "device must be one of cpu, cuda, got 'gpu'"),
    ],
)
def test_bad_input_is_refused_by_name(arguments, says):
    with pytest.raises(ValueError, match=says):
        operators.measure_operators(**arguments)
