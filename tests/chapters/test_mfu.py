"""Chapter `mfu`: its numbers, its figures, its tasks and their misconceptions."""

import ast
import itertools
import math
import re
from pathlib import Path

import pytest

from aiinfra import accelerators, flops, models, published, roofline, training_cost, utilization
from aiinfra.checks import tasks
from aiinfra.explorers.mfu import (
    COST_CHIPS,
    COST_MODELS,
    RUN_CHIPS,
    RUN_MODELS,
    STAIRCASE_CHIPS,
    TILES,
    days_and_dollars_view,
    feed_view,
    same_run_view,
    staircase_view,
)
from tests.chapters.tasks import assert_accepts, assert_tasks_are_sound
from tests.test_flops import COUNTED

PAGE = (Path(__file__).parents[2] / "book/mfu.md").read_text(encoding="utf-8")

# ---- tasks


def layer_matmul_by_matmul(d_model, n_heads, n_kv_heads, d_ff, seq_len):
    """Every product of the layer as (m, k, n), heads one by one."""
    d_head = d_model // n_heads
    products = [(seq_len, d_model, d_head)] * n_heads + [(seq_len, d_model, d_head)] * (2 * n_kv_heads)
    products += [(seq_len, d_head, seq_len), (seq_len, seq_len, d_head)] * n_heads
    products += [
        (seq_len, d_model, d_model),
        (seq_len, d_model, d_ff),
        (seq_len, d_model, d_ff),
        (seq_len, d_ff, d_model),
    ]
    return sum(2 * m * k * n for m, k, n in products)


def parameters_tensor_by_tensor(config):
    d, d_ff = config["hidden_size"], config["intermediate_size"]
    d_head = d // config["num_attention_heads"]
    shapes = [(config["vocab_size"], d), (d,)]
    for _ in range(config["num_hidden_layers"]):
        shapes += [(d, d), (d, d), *[(d, config["num_key_value_heads"] * d_head)] * 2]
        shapes += [(d, d_ff), (d, d_ff), (d_ff, d), (d,), (d,)]
    if not config["tie_word_embeddings"]:
        shapes.append((d, config["vocab_size"]))
    return sum(math.prod(shape) for shape in shapes)


def parameters_in_one_line(c):
    d, kv = c["hidden_size"], c["hidden_size"] * c["num_key_value_heads"] / c["num_attention_heads"]
    layer = d * (2 * d + 2 * kv + 3 * c["intermediate_size"] + 2)
    return c["num_hidden_layers"] * layer + d + c["vocab_size"] * d * (2 - c["tie_word_embeddings"])


def mfu_in_petaflop_days(run):
    dense = min(rate["tflops"] for rate in run["rates"])
    days = run["training_s"] / 86400
    return 6 * run["n_parameters"] / 1e15 * run["n_tokens"] / 86400 / (days * run["n_packages"] * dense / 1e3)


def mfu_of_one_die(run):
    """Half of a package's rate for each device: the same again."""
    (dense,) = [r["tflops"] for r in run["rates"] if r["sums"] == "fp32" and not r["sparse"]]
    rate = 6 * run["n_parameters"] * run["n_tokens"] / run["training_s"] / run["n_devices"]
    return rate / (dense / 2 * 1e12)


def cost_by_the_hour(n_parameters, n_tokens, n_gpus, peak_tflops, mfu_percent, usd_per_gpu_hour):
    flop_an_hour = peak_tflops * 1e12 * mfu_percent * 36
    gpu_hours = 2 * 3 * n_parameters * n_tokens / flop_an_hour
    return gpu_hours / n_gpus / 24, gpu_hours * usd_per_gpu_hour


def useful_by_counting(m, n, tile_m, tile_n, n_sms):
    """Hand out tiles one by one."""
    n_tiles = sum(1 for _ in itertools.product(range(0, m, tile_m), range(0, n, tile_n)))
    waves, left = 0, n_tiles
    while left > 0:
        waves, left = waves + 1, left - n_sms
    return m * n / tile_m / tile_n / n_sms / waves


def tile_by_times(sizes, rates):
    """The time jumps where a new tile begins."""
    times = [n / rate for n, rate in zip(sizes, rates, strict=True)]
    return next(n for n, before, after in zip(sizes, times, times[1:], strict=False) if after > before * 1.01)


def tile_between_two_drops(sizes, rates):
    drops = [sizes[i] for i in range(len(sizes) - 1) if rates[i + 1] < rates[i]]
    return drops[1] - drops[0]


def worth_by_sorting(flop, plans):
    """From fast to slow: a plan is kept when it is cheaper than all that are faster."""
    measured = []
    for plan in plans:
        rate = plan["dense_tflops"] * plan["mfu_percent"]
        measured.append((1 / (plan["n_gpus"] * rate), plan["usd_per_gpu_hour"] / rate, plan["name"]))
    kept, cheapest = set(), math.inf
    for _, money, name in sorted(measured):
        if money < cheapest:
            kept.add(name)
            cheapest = money
    return [plan["name"] for plan in plans if plan["name"] in kept]


def worth_by_package(flop, plans):
    measures = [
        (
            training_cost.training_s(flop, p["n_gpus"], p["dense_tflops"] * 1e12, p["mfu_percent"] / 100),
            training_cost.training_usd(flop, p["dense_tflops"] * 1e12, p["mfu_percent"] / 100, p["usd_per_gpu_hour"]),
        )
        for p in plans
    ]
    worse = {i for i, (t, c) in enumerate(measures) if any(a < t and b < c for a, b in measures)}
    return tuple(p["name"] for i, p in enumerate(plans) if i not in worse)


DIFFERENTLY = {
    "layer_flop": [
        layer_matmul_by_matmul,
        lambda d, h, k, f, s: 4 * s * d * d * (1 + k / h) + 6 * s * d * f + 4 * s * s * d,
        lambda d, h, k, f, s: s * (2 * (2 * d * d + 2 * d * k * d // h + 3 * d * f) + 4 * s * d),
    ],
    "n_parameters": [
        parameters_tensor_by_tensor, parameters_in_one_line, lambda config: int(parameters_in_one_line(config)),
    ],
    "mfu": [
        mfu_in_petaflop_days,
        mfu_of_one_die,
        lambda run: training_cost.training_s(
            6 * run["n_parameters"] * run["n_tokens"], run["n_packages"], run["rates"][0]["tflops"] * 1e12, 1.0
        ) / run["training_s"],
    ],
    "cost_of_run": [
        cost_by_the_hour,
        lambda n, d, g, p, f, usd: [n * d / (g * p * f * 1e10 * 14400), n * d * usd / (p * f * 1e10 * 600)],
        lambda *a: list(cost_by_the_hour(*a)),
    ],
    "useful_share": [
        useful_by_counting,
        lambda m, n, a, b, sms: m * n / (a * b * sms * math.ceil(math.ceil(m / a) * math.ceil(n / b) / sms)),
        lambda m, n, a, b, sms: m / a * n / b / (((m + a - 1) // a * ((n + b - 1) // b) + sms - 1) // sms * sms),
    ],
    "tile_width": [
        tile_by_times, tile_between_two_drops, lambda sizes, rates: float(tile_between_two_drops(sizes, rates)),
    ],
    "worth_a_look": [worth_by_sorting, worth_by_package, lambda flop, plans: list(worth_by_sorting(1.0, plans))],
}  # fmt: skip


def test_tasks_are_sound():
    assert_tasks_are_sound("mfu")


@pytest.mark.parametrize("name", tasks("mfu"))
def test_right_answers_written_differently_are_accepted(name):
    for answer in DIFFERENTLY[name]:
        assert_accepts("mfu", name, answer)


def test_the_tasks_accept_what_is_published_of_a_real_model():
    config = {
        "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
        "num_key_value_heads": 8, "vocab_size": 32000, "tie_word_embeddings": False,
    }  # fmt: skip
    assert tasks("mfu")["n_parameters"].reference(config) == 68_976_648_192
    forward = flops.forward_flop(models.get("Llama 2 70B"), 4096)
    assert 80 * tasks("mfu")["layer_flop"].reference(8192, 64, 8, 28672, 4096) == forward.layers


# ---- the page


def test_every_shape_of_the_table_is_one_that_pytorch_counts_in_a_test():
    shapes = ast.literal_eval(re.search(r"^SHAPES = (\(.*?^\))", PAGE, re.MULTILINE | re.DOTALL)[1])
    assert len(shapes) >= 6
    assert ("Llama 2 70B", 4096) in shapes
    assert all(COUNTED[name][0] == seq_len for name, seq_len in shapes)


def test_three_multiply_adds_a_weight_and_token():
    """Neuron by neuron, as the page derives it: every product of a number with a weight or gradient is counted."""
    n_tokens, n_in, n_out, multiply_adds = 3, 5, 4, 0
    for _token, _i, _j in itertools.product(range(n_tokens), range(n_in), range(n_out)):
        multiply_adds += 1  # y_j += x_i w_ij
        multiply_adds += 1  # dx_i += g_j w_ij
        multiply_adds += 1  # dw_ij += x_i g_j
    assert 2 * multiply_adds == flops.approximate_training_flop(n_in * n_out, n_tokens)
    forward = flops.matmul_flop(n_tokens, n_in, n_out)
    assert 2 * multiply_adds == forward + flops.backward_flop(forward)


def test_attention_takes_12_lhds_a_token():
    llama = models.get("Llama 2 70B")
    per_token = 3 * flops.forward_flop(llama, 8192).attention // 8192
    assert per_token == 12 * 80 * 64 * 128 * 8192


def test_the_worked_example():
    """624 TFLOP in 4 s on an A100."""
    peak = accelerators.get("A100 80GB SXM").matmul_flop_per_s("bf16")
    assert utilization.mfu(624e12, 4.0, peak) == 0.5
    assert training_cost.training_s(624e12, 1, peak, 0.5) == 4.0


def test_money_does_not_depend_on_the_number_of_machines_but_time_does():
    times = [training_cost.training_days(1e24, n, 1e15, 0.4) for n in (1000, 2000)]
    assert times[0] == 2 * times[1]


def test_an_hour_of_an_a100_was_the_cheapest_and_its_result_was_not():
    """The page says so of the offers that it lists."""
    rents = {"A100 40GB SXM": 4.1, "H100 SXM": 6.88, "B200 SXM": 12.36}
    for name, usd in rents.items():
        rows = [row for row in accelerators.get(name).numbers if row.quantity == "rent" and row.used]
        assert usd in [row.value for row in rows]
    flop = flops.approximate_training_flop(models.get("Llama 2 70B").n_parameters, 2e12)
    cost = {
        name: training_cost.training_usd(flop, accelerators.get(name).matmul_flop_per_s("bf16"), 0.4, usd)
        for name, usd in rents.items()
    }
    assert min(rents, key=rents.get) == max(cost, key=cost.get) == "A100 40GB SXM"


@pytest.mark.parametrize(
    "row", published.get("highest_matmul_rate").rows, ids=lambda row: f"{row['accelerator']} {row['dtype']}"
)
def test_no_found_rate_is_above_the_dense_peak(row):
    peak = accelerators.get(row["accelerator"]).matmul_flop_per_s(row["dtype"])
    assert 0.5 < utilization.mfu(row["rate"], 1.0, peak) < 1


# ---- figures


def unverified(name, *quantities):
    rows = [row for row in accelerators.get(name).numbers if row.used and row.quantity.startswith(quantities)]
    return [row.quantity for row in rows if row.status == "unverified"]


@pytest.mark.parametrize("name", sorted({*STAIRCASE_CHIPS, *RUN_CHIPS, *COST_CHIPS}))
def test_figures_rest_on_verified_numbers(name):
    assert unverified(name, "sm_count", "matmul_fp16", "matmul_bf16") == []


@pytest.mark.parametrize("name", STAIRCASE_CHIPS)
@pytest.mark.parametrize("tile", TILES)
def test_the_staircase_is_what_the_formula_gives(name, tile):
    view = staircase_view(name, tile, 4096, 4352)
    n_sms = int(accelerators.get(name).value("sm_count"))
    expected = roofline.wave_efficiency(4096, 4352, *TILES[tile], n_sms)
    assert f'data-value="{expected!r}"' in view.says
    chosen = {row["series"]: row["percent"] for row in view.chart["datasets"]["rows"] if row["chosen"]}
    assert chosen["whole tiles and whole waves"] == 100 * expected
    assert chosen["whole tiles only"] >= chosen["whole tiles and whole waves"]


def test_one_column_more_than_a_wave_costs_nearly_half():
    """132 SMs, tiles of 128 x 128: 12 x 11 tiles fill a wave, one more column begins a second one."""
    shares = [staircase_view("H100 SXM", "128 x 128", 1536, n) for n in (1408, 1472)]
    assert 'data-value="1.0"' in shares[0].says
    assert 0.5 < float(re.search(r'data-value="([^"]+)"', shares[1].says)[1]) < 0.53


def bars(*arguments):
    return {row["what"]: row["percent"] for row in same_run_view(*arguments).chart["datasets"]["rows"]}


def test_one_run_and_its_utilizations():
    found = bars("Llama 2 70B", "4096", "A100 80GB SXM", 2000.0, 660_000.0)
    expected = 100 * flops.training_flop_per_token(models.get("Llama 2 70B"), 4096) * 660_000 / 2000 / 312e12
    assert found["MFU as in this book"] == expected
    assert found["peak: 2:4 sparse"] == expected / 2
    assert found["causal half of attention"] < found["MFU as in this book"] < found["HFU, all recomputed"]
    assert found["6 N only"] == pytest.approx(100 * 6 * 68_976_648_192 * 660_000 / 2000 / 312e12, rel=1e-12)


def test_the_denominators_of_geforce_dies_and_experts():
    geforce = bars("Llama 2 7B", "4096", "RTX 4090", 8.0, 10_000.0)
    assert geforce["peak: FP16 sums"] == pytest.approx(geforce["MFU as in this book"] / 2, rel=1e-3)
    dies = bars("Llama 2 7B", "4096", "MI250", 8.0, 10_000.0)
    assert dies["peak: one die of two"] == pytest.approx(2 * dies["MFU as in this book"], rel=1e-12)
    experts = bars("Mixtral 8x7B", "4096", "H100 SXM", 8.0, 10_000.0)
    assert experts["6 N, sleeping experts too"] == pytest.approx(3.62 * experts["6 N only"], rel=1e-2)


@pytest.mark.parametrize("model", RUN_MODELS)
def test_every_model_of_the_figure_takes_every_length(model):
    for seq_len, chip in itertools.product(("2048", "32768"), RUN_CHIPS):
        assert bars(model, seq_len, chip, 64.0, 1000.0)["MFU as in this book"] > 0


def test_more_than_all_is_refused_in_the_figure():
    says = same_run_view("Llama 2 7B", "4096", "RTX 4090", 8.0, 50_000.0).says
    assert "MFU must be at most 100 %" in says
    assert "fp16, dense, fp16 accumulate" in says


@pytest.mark.parametrize("model", COST_MODELS)
def test_days_and_dollars_are_those_of_the_formula(model):
    view = days_and_dollars_view(model, 2.0, "A100 80GB SXM", 64.0, 45, 5, 2.0, 1e4)
    flop = flops.approximate_training_flop(models.get(model).n_active_parameters, 2e12)
    days = training_cost.training_days(flop, 64, 312e12, 0.45)
    usd = training_cost.training_usd(flop, 312e12, 0.45, 2.0)
    assert f'data-value="{days!r}"' in view.says
    assert f'data-value="{usd!r}"' in view.says
    chosen = {row["series"]: row["musd"] for row in view.chart["datasets"]["rows"] if row["chosen"]}
    assert chosen == {"rent": usd / 1e6, "rent and waiting": (usd + days * 1e4) / 1e6}


def test_without_a_loss_the_rent_is_the_same_for_any_number():
    rows = days_and_dollars_view("Llama 2 7B", 2.0, "H100 SXM", 1000.0, 40, 0, 2.0, 1e4).chart["datasets"]["rows"]
    rents = [row["musd"] for row in rows if row["series"] == "rent"]
    assert rents == pytest.approx([rents[0]] * len(rents), rel=1e-12)
    days = [row["days"] for row in rows if row["series"] == "rent"]
    assert days == sorted(days, reverse=True)


def test_feeding_stops_to_matter_when_enough_workers_load():
    assert 'data-value="225.0"' in feed_view(100, 450, 2).says
    assert 'data-value="100.0"' in feed_view(100, 450, 5).says
    assert "5 workers are enough" in feed_view(100, 450, 0).says
    rows = [row["ms"] for row in feed_view(100, 450, 0).chart["datasets"]["rows"] if row["series"] == "step"]
    assert rows == sorted(rows, reverse=True)
    assert rows[0] == pytest.approx(550, rel=1e-12)
