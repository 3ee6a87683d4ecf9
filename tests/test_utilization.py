"""MFU and HFU against published ones, and what more than 100 % is answered with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinfra import accelerators, flops, models, published, utilization

MEGATRON = published.get("megatron_weak_scaling")


@pytest.mark.parametrize("row", MEGATRON.rows, ids=lambda row: f"{row['n_parameters'] / 1e9:g}B")
def test_megatron_prints_hardware_utilization(row):
    """Published: the same table's percentages and totals, within half of their last digit and of the rate's."""
    peak = accelerators.get("A100 80GB SXM").matmul_flop_per_s("bf16")
    assert 100 * utilization.hfu(row["rate"], 1.0, peak) == pytest.approx(row["peak_percent"], abs=0.5)
    assert row["rate"] * row["n_gpus"] == pytest.approx(row["total_rate"], abs=0.05e15 + 0.5e12 * row["n_gpus"])


@pytest.mark.parametrize(
    ("row", "name"), [("MT-NLG", "MT-NLG 530B"), ("PaLM", "PaLM 540B")]
)  # the rows that give a throughput
def test_published_utilization(row, name):
    """Published: table 3 of arXiv:2204.02311, within half of its last digit. PaLM counts all S x S scores."""
    row = next(entry for entry in published.get("model_flop_utilization").rows if entry["model"] == row)
    flop = flops.training_flop_per_token(models.get(name), 2048) * row["tokens_per_s"]
    peak = accelerators.get(row["accelerator"]).matmul_flop_per_s("bf16")
    assert 100 * utilization.mfu(flop, 1.0, peak, int(row["n_accelerators"])) == pytest.approx(
        row["mfu_percent"], abs=0.05
    )


@pytest.mark.parametrize("row", published.get("bloom_training").rows, ids=lambda row: row["model"])
def test_the_log_of_bloom_prints_what_six_and_eight_nd_give(row):
    """Published: one step of the run and its rates, to half of their last digit and the step's (105 s: 0.5 %)."""
    n_tokens = row["global_batch"] * row["seq_len"]
    for printed, recomputed in (("rate_6nd", False), ("rate_8nd", True)):
        n_parameters = models.get(row["model"]).n_parameters
        flop = flops.approximate_training_flop(n_parameters, n_tokens, full_recomputation=recomputed)
        assert flop / row["step"] / row["n_gpus"] == pytest.approx(row[printed], rel=0.005, abs=0.05e12)
    assert row["tp"] * row["pp"] * row["dp"] == row["n_gpus"]


def test_palm_recomputed_a_part():
    """PaLM prints an HFU of 57.8 %: between nothing recomputed (46.2 %) and every layer (61.5 %)."""
    palm, rate = models.get("PaLM 540B"), 238300
    peak = accelerators.get("TPU v4").matmul_flop_per_s("bf16")
    none, full = (
        utilization.hfu(flops.hardware_flop_per_token(palm, 2048, recomputation=kind) * rate, 1.0, peak, 6144)
        for kind in ("none", "full")
    )
    assert none < 0.578 < full


@given(st.floats(1e-3, 10.0), st.floats(1e-3, 10.0), st.integers(0, 64))
def test_the_slower_of_loader_and_accelerator_sets_the_pace(compute_s, load_s, n_workers):
    step_s = utilization.fed_step_s(compute_s, load_s, n_workers)
    assert step_s >= compute_s
    assert step_s == (compute_s + load_s if n_workers == 0 else max(compute_s, load_s / n_workers))
    assert utilization.fed_step_s(compute_s, load_s, n_workers + 1) <= step_s


def test_a_loader_that_is_fast_enough_costs_nothing():
    assert [utilization.fed_step_s(0.1, 0.4, n_workers) for n_workers in (0, 1, 2, 4, 8)] == [0.5, 0.4, 0.2, 0.1, 0.1]


def test_more_than_all_names_the_rates_that_would_explain_it():
    chip = accelerators.get("RTX 4090")
    peak = chip.matmul_flop_per_s("fp16")
    with pytest.raises(ValueError) as error:
        utilization.mfu(300e12, 1.0, peak, accelerator=chip)
    says = str(error.value)
    assert says.startswith("MFU must be at most 100 %, got 181.6%: 300.0 TFLOP/s of a peak of 165.2 TFLOP/s. ")
    for row in ("fp16, sparse, fp32 accumulate", "fp16, dense, fp16 accumulate", "int8, dense, int32 accumulate"):
        assert row in says
    assert "bf16, dense" not in says


def test_more_than_all_of_a_die_names_the_package():
    chip = accelerators.get("MI250")
    die = chip.value("matmul_bf16", "dense", "fp32 accumulate", "per die")
    with pytest.raises(ValueError, match=r"^HFU .*bf16, dense, fp32 accumulate, per package \(362.1 TFLOP/s\): 82.9%"):
        utilization.hfu(300e12, 1.0, die, accelerator=chip)


@pytest.mark.parametrize(
    ("flop", "chip", "says"),
    [
        (600e12, None, r"A peak of twice that would explain it \(the 2:4 sparse rate, FP16 .*\): 96.2%$"),
        (
            700e12,
            None,
            "Not even a peak of twice that would explain it .*; count FLOP, seconds and accelerators again$",
        ),
        (
            9e15,
            "A100 80GB SXM",
            "No rate of the A100 80GB SXM explains it; count FLOP, seconds and accelerators again$",
        ),
    ],
)
def test_more_than_all_without_a_rate_that_explains_it(flop, chip, says):
    with pytest.raises(ValueError, match=says):
        utilization.mfu(flop, 1.0, 312e12, accelerator=chip and accelerators.get(chip))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: utilization.mfu(-1.0, 1.0, 1e12), r"model_flop must be .* at least 0, got -1.0"),
        (lambda: utilization.mfu(1e12, 0, 1e12), "time_s must be .* greater than 0, got 0"),
        (lambda: utilization.hfu(1e12, 1.0, 0.0), "dense_peak_flop_per_s must be .* greater than 0, got 0.0"),
        (lambda: utilization.fed_step_s(0, 1.0, 1), "compute_s must be .* greater than 0, got 0"),
        (lambda: utilization.fed_step_s(1.0, 1.0, -1), "n_workers must be .* at least 0, got -1"),
    ],
)
def test_bad_input_is_refused_by_name_and_value(call, says):
    with pytest.raises(ValueError, match=says):
        call()


@given(st.floats(0.01, 1.0), st.integers(1, 10_000), st.floats(0.0, 0.5))
def test_each_doubling_takes_its_part(frac, measured_on, lost):
    assert utilization.mfu_on_more(frac, measured_on, measured_on, lost) == frac
    assert utilization.mfu_on_more(frac, measured_on, 4 * measured_on, lost) == pytest.approx(
        frac * (1 - lost) ** 2, rel=1e-9
    )
    assert utilization.mfu_on_more(frac, 2 * measured_on, measured_on, lost) == frac


@pytest.mark.parametrize("shares", [(50, 0.1), (0.5, 10)])
def test_percent_for_a_share_is_refused(shares):
    with pytest.raises(ValueError, match="are shares, not percent; got"):
        utilization.mfu_on_more(shares[0], 64, 128, shares[1])
