"""A training run on this machine: it learns, its FLOP are those of the formula, and its time is told apart."""

import math

import pytest
import torch

from aiinfra.measure import feeding
from aiinfra.measure.training import PARTS, Watch, train
from aiinfra.models import Transformer

SMALL = Transformer("small", 2, 32, 4, 2, 48, 64, 16)


@pytest.fixture(scope="module")
def run():
    calls = []
    return train(SMALL, 16, 4, 0.5, yardstick=lambda: calls.append(1), device="cpu")


def test_counted_flop_of_a_real_step_are_those_of_the_formula(run):
    assert run.counted_flop == run.formula_flop
    assert run.n_tokens == 64


def test_it_learns(run):
    """Sequences that count up: before training the loss is that of guessing among 64 tokens."""
    assert run.losses[0] == pytest.approx(math.log(64), rel=0.15)
    more = train(SMALL, 16, 8, 2.0, device="cpu").losses
    assert min(more) < more[0]


def test_everything_is_timed_in_turns(run):
    assert len(run.step_s) == len(run.yardstick_s) >= 2
    assert len(run.losses) == 2 + 2 * len(run.step_s)  # one counted, one watched before the first turn
    assert run.matmuls_alone_s > 0
    assert list(run.parts) == list(PARTS)
    assert math.fsum(run.parts.values()) == pytest.approx(1, rel=1e-9)
    assert min(run.parts.values()) > 0


def test_the_rate_is_the_formulas_flop_over_the_median_time(run):
    steps = sorted(run.step_s)
    middle = (steps[(len(steps) - 1) // 2] + steps[len(steps) // 2]) / 2
    assert run.flop_per_s == pytest.approx(run.formula_flop / middle, rel=1e-12)


def test_training_leaves_the_random_numbers_of_the_program_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    train(SMALL, 8, 1, 1e-9, device="cpu")
    assert torch.equal(torch.rand(1), expected)


def test_matmuls_are_told_from_the_rest_and_can_be_run_alone():
    a, b = torch.randn(6, 4), torch.randn(4, 5)
    with Watch(torch.device("cpu")) as watch:
        for _ in range(3):
            (a @ b).exp()
        torch.bmm(torch.randn(2, 3, 4), torch.randn(2, 4, 5))
    assert watch.products == {((6, 4), (4, 5)): 3, ((2, 3, 4), (2, 4, 5)): 1}
    assert watch.seconds["matmuls"] > 0 < watch.seconds["everything else"]
    with Watch(torch.device("cpu")) as alone:
        watch.matmuls_alone()()
    assert alone.products == watch.products


def test_the_optimizer_is_told_apart():
    weight = torch.nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    optimizer = torch.optim.AdamW([weight])
    with Watch(torch.device("cpu")) as watch:
        optimizer.step()
    assert watch.seconds["optimizer"] > 0 == watch.seconds["matmuls"]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: train(SMALL, 0, 1), "seq_len must be a whole number of at least 1, got 0"),
        (lambda: train(SMALL, 8, 0), "n_sequences must be .* at least 1, got 0"),
        (lambda: train(SMALL, 8, 1, 0), "budget_s must be a finite number greater than 0, got 0"),
        (lambda: train(SMALL, 8, 1, device="gpu"), "device must be one of cpu, cuda, got 'gpu'"),
        (lambda: feeding.fed_step_s(0.1, 0.1, -1), "n_workers must be .* at least 0, got -1"),
        (lambda: feeding.fed_step_s(-0.1, 0.1, 0), "compute_s must be .* at least 0, got -0.1"),
    ],
)
def test_bad_input_is_refused_by_name_and_value(call, says):
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize("n_workers", [0, 2])
def test_a_loop_cannot_be_faster_than_its_slowest_part(n_workers):
    """No upper bound here: a busy machine may take any time."""
    steps = feeding.fed_steps_s(0.01, 0.02, n_workers, n_steps=6)
    assert len(steps) == 6
    assert sum(steps) / 6 > 0.999 * (0.01 + (0.02 if n_workers == 0 else 0))
