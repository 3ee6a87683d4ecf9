"""2:4 sparsity: which weights stay, what is stored, what pruning costs, and that training keeps the zeros."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aiinfra import precision
from aiinfra.measure import sparsity
from aiinfra.measure.sparsity import (
    bytes_2_of_4,
    dense_and_pruned_matmul_s,
    is_2_of_4,
    keep_2_of_4,
    keep_largest_half,
    prune_2_of_4,
    pruning_experiment,
)

values = st.floats(-100, 100, width=32)
groups_of_four = st.lists(st.lists(values, min_size=4, max_size=4), min_size=1, max_size=12)


@st.composite
def weights(draw):
    """A weight matrix [outputs, inputs] with a multiple of four inputs, often with equal magnitudes."""
    flat = torch.tensor(draw(groups_of_four))
    n_outputs = draw(st.sampled_from([n for n in range(1, len(flat) + 1) if len(flat) % n == 0]))
    return flat.reshape(n_outputs, -1)


@given(weights())
def test_exactly_two_of_four_stay(weight):
    keep = keep_2_of_4(weight)
    assert keep.shape == weight.shape
    assert keep.reshape(-1, 4).sum(dim=1).tolist() == [2] * (weight.numel() // 4)


@given(weights())
def test_none_that_went_was_larger_than_one_that_stayed(weight):
    keep, magnitude = keep_2_of_4(weight).reshape(-1, 4), weight.abs().reshape(-1, 4)
    smallest_kept = magnitude.where(keep, torch.inf).amin(dim=1)
    largest_gone = magnitude.where(~keep, -torch.inf).amax(dim=1)
    assert bool((smallest_kept >= largest_gone).all())


@given(weights())
def test_pruning_keeps_values_and_pruning_again_changes_nothing(weight):
    pruned = prune_2_of_4(weight)
    assert is_2_of_4(pruned)
    assert torch.equal(pruned, weight * keep_2_of_4(weight))
    assert torch.equal(prune_2_of_4(pruned), pruned)


@given(weights())
def test_the_unstructured_half_has_the_largest_of_all(weight):
    keep, magnitude = keep_largest_half(weight), weight.abs()
    assert keep.sum().item() == weight.numel() // 2
    assert magnitude[keep].min() >= magnitude[~keep].max()
    assert magnitude[keep].sum() >= magnitude[keep_2_of_4(weight)].sum() * (1 - 1e-6)


def test_of_equal_magnitudes_the_first_stay():
    assert keep_2_of_4(torch.tensor([[1.0, -1.0, 1.0, -1.0]])).tolist() == [[True, True, False, False]]
    assert keep_2_of_4(torch.tensor([[0.0, 2.0, -2.0, 2.0]])).tolist() == [[False, True, True, False]]
    assert keep_largest_half(torch.ones(1, 4)).tolist() == [[True, True, False, False]]


def test_groups_lie_along_the_inputs_not_the_outputs():
    weight = torch.tensor([[3.0, 3.0, 0.0, 0.0]]).repeat(4, 1)
    assert is_2_of_4(weight)
    assert not is_2_of_4(weight.T)


def test_a_layer_is_pruned_without_touching_it():
    layer = torch.nn.Linear(8, 3)
    before = layer.weight.detach().clone()
    pruned = prune_2_of_4(layer.weight)
    assert (pruned.requires_grad, tuple(pruned.shape)) == (False, (3, 8))
    assert torch.equal(layer.weight, before)


@pytest.mark.parametrize("weight", [torch.ones(3, 6), torch.tensor(1.0)])
def test_weights_that_do_not_come_in_fours_are_named(weight):
    with pytest.raises(ValueError, match="weight must have a multiple of 4 inputs"):
        prune_2_of_4(weight)


def test_zeros_elsewhere_are_not_2_of_4():
    half = torch.tensor([[1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
    assert not is_2_of_4(half)
    assert not is_2_of_4(torch.zeros(2, 6))


@pytest.mark.parametrize(("dtype", "share"), [("fp32", 17 / 32), ("fp16", 9 / 16), ("bf16", 9 / 16), ("int8", 5 / 8)])
def test_what_is_stored_is_more_than_half(dtype, share):
    dense_bytes = 4096 * precision.get(dtype).bytes
    assert bytes_2_of_4(4096, dtype) == share * dense_bytes


@pytest.fixture(scope="module")
def result():
    return pruning_experiment()


def test_pruning_costs_and_fine_tuning_repairs(result):
    chance = 0.1
    assert chance < result.pruned_2_of_4 < result.half_of_all < result.dense < 1
    assert result.pruned_2_of_4 < result.fine_tuned_2_of_4 < result.dense


def test_the_experiment_repeats_itself_and_leaves_pytorch_as_it_was(result):
    n_threads, state = torch.get_num_threads(), torch.get_rng_state()
    assert pruning_experiment() == result
    assert torch.get_num_threads() == n_threads
    assert torch.equal(torch.get_rng_state(), state)


def test_training_holds_pruned_weights_at_zero():
    generator = torch.Generator().manual_seed(0)
    data = sparsity._digits(500, generator)
    start = [prune_2_of_4(sparsity._normal(shape, generator)) for shape in ((8, 72), (10, 8))]
    trained = sparsity._train(start, [keep_2_of_4(weight) for weight in start], data, 20, 1e-2, generator)
    assert all(is_2_of_4(weight) for weight in trained)
    assert not any(torch.equal(a, b) for a, b in zip(start, trained, strict=True))


def test_digits_without_noise_differ_and_fit_in_their_picture(monkeypatch):
    monkeypatch.setattr(sparsity, "_NOISE", 0.0)
    pictures, digits = sparsity._digits(2_000, torch.Generator().manual_seed(0))
    assert set(pictures.unique().tolist()) == {0.0, 1.0}
    pixels = {digit: set(pictures[digits == digit].sum(dim=1).tolist()) for digit in range(10)}
    assert all(len(counts) == 1 for counts in pixels.values())  # every place shows the whole glyph
    assert len({tuple(picture) for picture in pictures.tolist()}) == 10 * 3 * 4


def test_both_products_are_timed():
    assert all(seconds > 0 for seconds in dense_and_pruned_matmul_s(64, repeats=2))
