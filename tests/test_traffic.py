"""Counted bytes: operators against their tensors, the roofline's formulas, and a cache of every size."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aiinfra import roofline
from aiinfra.measure.attention import fused_attention, naive_attention, tiled_attention
from aiinfra.measure.traffic import MemoryTraffic

PAGE = 4096
SHAPE = (1, 4, 1024, 64)


def tensors(n, *shape):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator) for _ in range(n)]


def traffic(function, *args, cache_bytes=0):
    with torch.no_grad(), MemoryTraffic(cache_bytes) as counted:
        result = function(*args)  # alive until the end: what is written at the end must be written
    del result
    return counted


@pytest.mark.parametrize(
    ("function", "n_read", "n_written", "n_kernels"),
    [
        (lambda a, b: a + b, 2, 1, 1),
        (lambda a, b: a * a, 2, 1, 1),  # named twice, read twice
        (lambda a, b: a.add_(b), 2, 1, 1),
        (lambda a, b: a.copy_(b), 1, 1, 1),
        (lambda a, b: torch.add(a, b, out=torch.empty_like(a)), 2, 1, 1),
        (lambda a, b: torch.nn.functional.gelu(a + b), 3, 2, 2),
        (lambda a, b: a.view(-1).unflatten(0, a.shape).transpose(-1, -2), 0, 0, 0),
        (lambda a, b: torch.empty_like(a), 0, 0, 0),
        (lambda a, b: a.fill_(1.0), 0, 1, 1),
    ],
)
def test_operators_read_and_write_their_tensors(function, n_read, n_written, n_kernels):
    a, b = tensors(2, 8, 64)
    counted = traffic(function, a, b)
    assert (counted.read_bytes, counted.written_bytes) == (n_read * a.nbytes, n_written * a.nbytes)
    assert counted.n_kernels == n_kernels


def test_an_expanded_argument_counts_what_is_stored():
    (row,) = tensors(1, 1, 64)
    counted = traffic(lambda: row.expand(100, 64) + 0.0)
    assert (counted.read_bytes, counted.written_bytes) == (row.nbytes, 100 * row.nbytes)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 64, 64), (32, 128, 16)])
def test_matmul_and_softmax_move_what_the_roofline_says(m, k, n):
    (left,), (right,) = tensors(1, m, k), tensors(1, k, n)
    assert traffic(torch.mm, left, right).total_bytes == roofline.matmul(m, k, n, "fp32").bytes
    assert traffic(lambda x: x.softmax(-1), left).total_bytes == roofline.softmax(m, k, "fp32").bytes


@pytest.mark.parametrize("shape", [(1, 1, 1, 8), (2, 3, 64, 16), (1, 2, 200, 32)])
@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_attention_block_by_block_gives_the_same_numbers(shape, block):
    query, key, value = (tensor.double() for tensor in tensors(3, *shape))
    expected = fused_attention(query, key, value)
    assert torch.allclose(naive_attention(query, key, value), expected, rtol=1e-9, atol=1e-12)
    assert torch.allclose(tiled_attention(query, key, value, block=block), expected, rtol=1e-9, atol=1e-12)


def test_large_scores_do_not_overflow():
    query, key, value = (100 * tensor for tensor in tensors(3, 1, 1, 40, 8))
    result = tiled_attention(query, key, value, block=16)
    assert torch.isfinite(result).all()
    assert torch.allclose(result, fused_attention(query, key, value), rtol=1e-4, atol=1e-3)


def test_fewer_keys_than_queries_and_another_width_of_values():
    query, key, value = torch.randn(1, 2, 50, 16), torch.randn(1, 2, 30, 16), torch.randn(1, 2, 30, 24)
    found = tiled_attention(query, key, value, block=8)
    assert torch.allclose(found, naive_attention(query, key, value), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda q: tiled_attention(q, q, q, block=0), "block must be .* at least 1, got 0"),
        (lambda q: tiled_attention(q, q[..., :4], q), "key and value must have as many rows"),
        (lambda q: tiled_attention(q, q, q[..., :5, :]), "key and value must have as many rows"),
        (lambda q: MemoryTraffic(-1), "cache_bytes must be .* at least 0, got -1"),
    ],
)
def test_bad_input_is_refused_by_name(call, says):
    with pytest.raises(ValueError, match=says):
        call(torch.zeros(1, 1, 8, 8))


def test_fused_attention_moves_the_formula_exactly_and_naive_attention_its_scaled_queries_more():
    query, key, value = tensors(3, *SHAPE)
    _, heads, s, d = SHAPE
    fused, naive = (roofline.attention(s, heads, d, fused=fused, dtype="fp32").bytes for fused in (True, False))
    statistics = heads * s * 4  # the kernel also writes each row's logarithm of the sum, for the backward pass
    assert traffic(fused_attention, query, key, value).total_bytes == fused + statistics
    assert traffic(naive_attention, query, key, value).total_bytes == naive + 2 * query.nbytes


def test_block_by_block_moves_as_little_as_the_fused_kernel_once_a_cache_holds_a_block_and_keys_and_values():
    query, key, value = tensors(3, *SHAPE)
    fused = roofline.attention(SHAPE[2], SHAPE[1], SHAPE[3], fused=True, dtype="fp32").bytes
    assert traffic(tiled_attention, query, key, value).total_bytes > 10 * fused
    assert traffic(tiled_attention, query, key, value, cache_bytes=8 * 2**20).total_bytes == fused
    naive = traffic(naive_attention, query, key, value, cache_bytes=8 * 2**20).total_bytes
    assert naive > 10 * fused


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 64), min_size=2, max_size=6), st.integers(8, 64))
def test_a_larger_cache_never_moves_more(sizes, block):
    """Least recently used has no Belady's anomaly: the larger cache always holds what the smaller one does."""
    query, key, value = tensors(3, 1, 1, 128, 32)
    moved = [
        traffic(lambda *qkv: tiled_attention(*qkv, block=block), query, key, value, cache_bytes=n * PAGE).read_bytes
        for n in sorted(size for size in sizes if size)
    ]
    assert moved == sorted(moved, reverse=True)


def test_adam_operator_by_operator_moves_76_bytes_a_weight_where_one_kernel_moves_28():
    """In FP32: lerp 12, mul 8, addcmul 16, sqrt 8, div 8, add of epsilon 8, addcdiv 16."""
    weight = torch.nn.Parameter(torch.zeros(100_000))
    weight.grad = torch.ones_like(weight)
    optimizer = torch.optim.Adam([weight], foreach=False)
    optimizer.step()
    with MemoryTraffic() as counted:
        optimizer.step()
    assert round(counted.total_bytes / weight.numel()) == 76
    assert roofline.adam_step(1).bytes == 28  # all in FP32: reads 4 x 4, writes 3 x 4; in mixed precision the same


def test_a_cache_serves_what_was_read_and_forgets_what_died():
    a, b = tensors(2, 64, 64)  # 16 KiB each: four pages
    again = traffic(lambda: (a.sum(), a.sum()), cache_bytes=8 * PAGE)
    assert again.read_bytes == a.nbytes
    too_small = traffic(lambda: (a.sum(), b.sum(), a.sum()), cache_bytes=4 * PAGE)
    assert too_small.read_bytes == 3 * a.nbytes
    dead = traffic(lambda: (a + b).shape, cache_bytes=64 * PAGE)
    assert (dead.read_bytes, dead.written_bytes) == (2 * a.nbytes, 0)
    kept = traffic(lambda: a + b, cache_bytes=64 * PAGE)
    assert kept.written_bytes == a.nbytes


def test_a_slice_touches_its_own_pages_only():
    (table,) = tensors(1, 64, 1024)  # a row is one page
    assert traffic(lambda: table[3:5].sum(), cache_bytes=8 * PAGE).read_bytes == 2 * PAGE
    assert traffic(lambda: table[:, :8].sum(), cache_bytes=128 * PAGE).read_bytes == 64 * PAGE
    assert traffic(lambda: table.t()[:, 7].sum(), cache_bytes=8 * PAGE).read_bytes == PAGE
