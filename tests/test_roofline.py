"""Roofline: limits, properties, staircases counted tile by tile, and operators against PyTorch's tensors."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from aiinfra import accelerators, precision, roofline
from aiinfra.roofline import Work

sizes = st.integers(1, 10**5)
rates = st.floats(1e9, 1e16)
dtypes = st.sampled_from(precision.NAMES)


@pytest.mark.parametrize(
    ("name", "dtype", "ridge"),
    [
        ("A100 80GB SXM", "bf16", 153),
        ("H100 SXM", "bf16", 295),
        ("A100 80GB SXM", "tf32", 77),
        ("H100 SXM", "fp8", 591),
    ],
)
def test_ridge_points(name, dtype, ridge):
    """Published: the quotients of the datasheets, 312 TFLOP/s over 2,039 GB/s and so on, to the nearest whole."""
    assert round(roofline.ridge_flop_per_byte(accelerators.get(name), dtype)) == ridge


@pytest.mark.parametrize("name", [name for name in accelerators.names() if accelerators.get(name).matmul_dtypes()])
def test_every_accelerator_with_rate_and_bandwidth_has_a_ridge(name):
    chip = accelerators.get(name)
    if chip.has("memory_bandwidth"):
        for dtype in chip.matmul_dtypes():
            assert roofline.ridge_flop_per_byte(chip, dtype) > 0
    else:
        with pytest.raises(ValueError, match=f"{name} has no memory_bandwidth"):
            roofline.ridge_flop_per_byte(chip, chip.matmul_dtypes()[0])


@settings(deadline=None)
@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 64), st.sampled_from(["fp32", "bf16", "fp64"]))
def test_a_matmul_has_pytorchs_flop_and_bytes(m, k, n, dtype):
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp64": torch.float64}[dtype]
    left, right = torch.empty(m, k, dtype=kind, device="meta"), torch.empty(k, n, dtype=kind, device="meta")
    with FlopCounterMode(display=False) as counter:
        product = left @ right
    n_bytes = left.nbytes + right.nbytes + product.nbytes
    assert roofline.matmul(m, k, n, dtype) == Work(counter.get_total_flops(), n_bytes)
    assert roofline.matmul(m, k, 1, dtype) == roofline.gemv(m, k, dtype)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 4), st.integers(1, 16), st.integers(1, 3))
def test_naive_attention_has_pytorchs_bytes(s, n_kv, group, d, batch):
    """Every tensor that the three operators read and write; the fused one moves the first three and the last."""
    query, key, value = (torch.empty(batch, n_kv * group, s, d, device="meta") for _ in range(3))
    with FlopCounterMode(display=False) as counter:
        scores = query @ key.transpose(2, 3)
        weights = scores.softmax(dim=-1)
        result = weights @ value
    ends = query.nbytes + key.nbytes + value.nbytes + result.nbytes
    softmax_flop = 5 * scores.numel()
    shape = (s, n_kv * group, d)
    naive = roofline.attention(*shape, fused=False, batch=batch, dtype="fp32")
    fused = roofline.attention(*shape, fused=True, batch=batch, dtype="fp32")
    assert naive == Work(counter.get_total_flops() + softmax_flop, ends + 2 * scores.nbytes + 2 * weights.nbytes)
    assert fused == Work(naive.flop, ends)
    grouped = roofline.attention(*shape, fused=True, n_kv_heads=n_kv, batch=batch, dtype="fp32")
    assert fused.bytes - grouped.bytes == (key.nbytes + value.nbytes) // group * (group - 1)


def test_operators_in_order_of_intensity():
    """A 4,096-wide layer on 4,096 tokens: only matmuls and fused attention come near the ridge of an A100."""
    n = 4096
    intensities = {
        "embedding": roofline.embedding(n, n),
        "optimizer": roofline.adam_step(1e9),
        "matrix times vector": roofline.gemv(n, n),
        "softmax": roofline.softmax(n, n),
        "layer norm": roofline.layer_norm(n, n),
        "naive attention": roofline.attention(n, 32, 128, fused=False),
        "matmul": roofline.matmul(n, n, n),
        "fused attention": roofline.attention(n, 32, 128, fused=True),
    }
    values = [work.flop_per_byte for work in intensities.values()]
    assert values == sorted(values)
    ridge = roofline.ridge_flop_per_byte(accelerators.get("A100 80GB SXM"))
    assert [name for name, work in intensities.items() if work.flop_per_byte > ridge] == ["matmul", "fused attention"]


@given(st.integers(1, 10**5))
def test_a_square_matmul_has_a_third_of_its_width(n):
    assert roofline.matmul(n, n, n).flop_per_byte == pytest.approx(n / 3, rel=1e-12)


@given(sizes, st.integers(1, 20), dtypes)
def test_fusing_a_chain_saves_all_but_the_ends(n, n_operators, dtype):
    apart, fused = (roofline.elementwise_chain(n, n_operators, fused=fused, dtype=dtype) for fused in (False, True))
    assert (apart.flop, apart.bytes) == (fused.flop, pytest.approx(n_operators * fused.bytes, rel=1e-12))


@given(st.floats(0, 1e20), st.floats(1, 1e15), rates, rates)
def test_time_and_roofline_are_one(flop, n_bytes, peak, bandwidth):
    work = Work(flop, n_bytes)
    seconds = roofline.time_s(work, peak, bandwidth)
    assert seconds == max(flop / peak, n_bytes / bandwidth)
    roof = roofline.rate_flop_per_s(work.flop_per_byte, peak, bandwidth)
    assert seconds * roof == pytest.approx(flop, rel=1e-9, abs=1e-290)


@given(st.floats(0, 1e18), st.floats(0, 1e15), st.floats(0, 1), st.floats(0, 1e-3))
def test_less_overlap_and_a_launch_take_longer_but_no_longer_than_one_after_the_other(flop, n_bytes, overlap, launch):
    work, rates_of_chip = Work(flop, n_bytes), (1e15, 1e12)
    kind, real = (roofline.time_s(work, *rates_of_chip, **more) for more in ({}, {"overlap_frac": overlap}))
    assert kind <= real <= flop / 1e15 + n_bytes / 1e12 + 1e-300
    assert roofline.time_s(work, *rates_of_chip, launch_s=launch) == pytest.approx(kind + launch, rel=1e-12)


@given(st.integers(1, 300), st.integers(1, 64), st.integers(1, 300), st.integers(1, 64), st.integers(1, 64))
def test_bytes_of_tiles_added_up_tile_by_tile(m, k, n, tile_m, tile_n):
    """Cross-check: every tile reads its rows and columns in full, at the edge too, and the product is written once."""
    values = m * n
    for _ in range(0, m, tile_m):
        for _ in range(0, n, tile_n):
            values += k * (tile_m + tile_n)
    assert roofline.tiled_matmul_bytes(m, k, n, tile_m, tile_n, "fp32") == 4 * values
    whole = roofline.tiled_matmul_bytes(m, k, n, m, n, "fp32")
    assert whole == roofline.matmul(m, k, n, "fp32").bytes


@given(rates, rates)
def test_the_ridge_is_where_both_take_as_long(peak, bandwidth):
    assert roofline.rate_flop_per_s(peak / bandwidth, peak, bandwidth) == pytest.approx(peak, rel=1e-12)
    assert roofline.rate_flop_per_s(peak / bandwidth / 2, peak, bandwidth) == pytest.approx(peak / 2, rel=1e-12)


def test_without_bytes_only_compute_counts():
    assert Work(1.0, 0.0).flop_per_byte == math.inf
    assert roofline.time_s(Work(1e12, 0.0), 1e12, 1e9) == 1.0
    assert (Work(1, 2) + Work(3, 4)).flop_per_byte == 4 / 6


@given(st.integers(1, 20000), st.integers(1, 20000), st.floats(1, 1000), dtypes)
def test_the_batch_at_the_ridge_is_the_first_over_it(k, n, ridge, dtype):
    batch = roofline.compute_bound_batch(k, n, ridge, dtype)
    if math.isinf(batch):
        assert roofline.matmul(10**12, k, n, dtype).flop_per_byte <= ridge * (1 + 1e-6)
    else:
        assert roofline.matmul(batch, k, n, dtype).flop_per_byte >= ridge * (1 - 1e-9)
        if batch > 1:
            assert roofline.matmul(batch - 1, k, n, dtype).flop_per_byte < ridge * (1 + 1e-9)


tiles = st.integers(1, 64)


@settings(deadline=None)
@given(st.integers(1, 99), st.integers(1, 99), tiles, tiles, st.integers(1, 40))
def test_waves_counted_tile_by_tile(m, n, tile_m, tile_n, n_sms):
    """Cross-check: deal the tiles out to multiprocessors, one after the other, and see how long the last one works."""
    queue = [(row, column) for row in range(0, m, tile_m) for column in range(0, n, tile_n)]
    waves = 0
    while queue:
        queue, waves = queue[n_sms:], waves + 1
    expected = m * n / (waves * n_sms * tile_m * tile_n)
    assert roofline.wave_efficiency(m, n, tile_m, tile_n, n_sms) == pytest.approx(expected, rel=1e-12)
    assert 0 < roofline.wave_efficiency(m, n, tile_m, tile_n, n_sms) <= roofline.tile_efficiency(m, n, tile_m, tile_n)


@given(tiles, tiles, st.integers(1, 40), st.integers(1, 5))
def test_full_waves_waste_nothing_and_one_row_more_costs_a_wave(tile_m, tile_n, n_sms, waves):
    full = roofline.wave_efficiency(waves * n_sms * tile_m, tile_n, tile_m, tile_n, n_sms)
    assert full == pytest.approx(1.0, rel=1e-12)
    more = roofline.wave_efficiency(waves * n_sms * tile_m + 1, tile_n, tile_m, tile_n, n_sms)
    assert more == pytest.approx((waves + 1 / (n_sms * tile_m)) / (waves + 1), rel=1e-12)


def test_the_tail_of_109_tiles_on_108_multiprocessors():
    """Published: NVIDIA's guide: on an A100, one tile more than a full wave of 108 leaves the second nearly empty."""
    assert roofline.wave_efficiency(108 * 256, 128, 256, 128, 108) == 1.0
    assert roofline.wave_efficiency(109 * 256, 128, 256, 128, 108) == pytest.approx(109 / 216, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: roofline.matmul(-1, 2, 3), "m must be a whole number of at least 0, got -1"),
        (lambda: roofline.matmul(1, 2, 3, "bf61"), "dtype 'bf61' is not known"),
        (lambda: roofline.elementwise(math.nan), "n_elements must be a finite number .*, got nan"),
        (lambda: roofline.elementwise_chain(1e6, 0, fused=True), "n_operators must be .* at least 1, got 0"),
        (lambda: roofline.attention(0, 8, 64, fused=True), "seq_len must be .* at least 1, got 0"),
        (lambda: roofline.attention(9, 8, 64, fused=True, n_kv_heads=3), "n_kv_heads must divide n_heads, got 3 and 8"),
        (lambda: roofline.adam_step(-1), "n_parameters must be .* at least 0, got -1"),
        (lambda: roofline.time_s(Work(-1.0, 1.0), 1e12, 1e12), r"flop must be .* at least 0, got -1.0"),
        (lambda: roofline.time_s(Work(1.0, 1.0), 1e12, 0), "bytes_per_s must be .* greater than 0, got 0"),
        (lambda: roofline.time_s(Work(1.0, 1.0), 1, 1, overlap_frac=1.5), "overlap_frac must be at most 1, got 1.5"),
        (lambda: roofline.time_s(Work(1.0, 1.0), 1, 1, launch_s=-1e-6), "launch_s must be .* at least 0, got -1e-06"),
        (lambda: roofline.tiled_matmul_bytes(8, 8, 8, 0, 8), "tile_m must be .* at least 1, got 0"),
        (lambda: roofline.rate_flop_per_s(1.0, 0, 1e12), "peak_flop_per_s must be .* greater than 0, got 0"),
        (lambda: roofline.compute_bound_batch(8, 8, -1.0), r"ridge must be .* at least 0, got -1.0"),
        (lambda: roofline.tile_efficiency(0, 8, 8, 8), "m must be .* at least 1, got 0"),
        (lambda: roofline.wave_efficiency(8, 8, 0, 8, 8), "tile_m must be .* at least 1, got 0"),
        (lambda: roofline.wave_efficiency(8, 8, 8, 8, 1.5), "n_sms must be .* at least 1, got 1.5"),
    ],
)
def test_bad_input_is_refused_by_name_and_value(call, says):
    with pytest.raises(ValueError, match=says):
        call()
