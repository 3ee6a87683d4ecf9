"""Chapter `hbm`: its tasks and their misconceptions, its figures, and the numbers that its page stands on."""

import itertools
import math
import re
from pathlib import Path

import pytest
import torch

from aiinfra import accelerators, memory, models, overlap, roofline, transformer_layer
from aiinfra.checks import tasks
from aiinfra.explorers import hbm
from aiinfra.explorers.hbm import buffers_view, fits_view, fusion_view, roofline_view, triangle_view
from tests.chapters.tasks import assert_accepts, assert_tasks_are_sound


def bandwidth_pin_by_pin(pin_gbit_per_s, interface_bits, n_stacks):
    bits = 0.0
    for _ in range(n_stacks):
        bits += interface_bits * pin_gbit_per_s
    return bits / 8 * 10**9


def intensities_by_counting_tensors(m, k, n, value_bytes):
    def matmul(rows):
        moved = sum(torch.empty(shape, device="meta").numel() for shape in ((rows, k), (k, n), (rows, n)))
        return rows * k * n / moved * 2 / value_bytes

    return [matmul(m), 2.5 / value_bytes, matmul(1)]


def layer_operator_by_operator(operators, value_bytes, peak, rate):
    seconds = 0.0
    for op in operators:
        if op["kind"] == "matmul":
            flop = 2 * op["m"] * op["k"] * op["n"]
            n_bytes = value_bytes * (op["m"] * (op["k"] + op["n"]) + op["k"] * op["n"])
        else:
            flop, n_bytes = op["n"] * op["flop_per_value"], op["n"] * (op["n_read"] + op["n_written"]) * value_bytes
        seconds += flop / peak if flop / n_bytes > peak / rate else n_bytes / rate
    return seconds


def layer_with_the_package(operators, value_bytes, peak, rate):
    dtype = {1: "fp8", 2: "bf16", 4: "fp32"}[value_bytes]
    works = [
        roofline.matmul(op["m"], op["k"], op["n"], dtype)
        if op["kind"] == "matmul"
        else roofline.elementwise(op["n"], op["flop_per_value"], op["n_read"], op["n_written"], dtype)
        for op in operators
    ]
    return transformer_layer.time_s(dict(enumerate(works)), peak, rate)


def batch_one_by_one(k, n, value_bytes, peak, rate):
    for batch in itertools.count(1):
        if 2 * batch * k * n / peak >= value_bytes * (batch * k + k * n + batch * n) / rate:
            return batch


def batch_by_formula(k, n, value_bytes, peak, rate):
    moved = peak / rate * value_bytes
    return math.ceil(moved * k * n / (2 * k * n - moved * (k + n)))


def online_by_merging(blocks):
    maximum, total = float("-inf"), 0.0
    for block in blocks:
        block_maximum = max(block)
        block_total = sum(math.exp(score - block_maximum) for score in block)
        larger = max(maximum, block_maximum)
        total = total * math.exp(maximum - larger) + block_total * math.exp(block_maximum - larger)
        maximum = larger
    return maximum, total


def online_score_by_score(blocks):
    maximum, total = blocks[0][0], 0.0
    for score in itertools.chain.from_iterable(blocks):
        if score > maximum:
            total, maximum = total * math.exp(maximum - score), score
        total += math.exp(score - maximum)
    return [maximum, total]


def online_with_torch(blocks):
    scores = torch.tensor([score for block in blocks for score in block], dtype=torch.float64)
    return [scores.max().item(), (torch.logsumexp(scores, 0) - scores.max()).exp().item()]


def attention_by_tensors(s, heads, d, value_bytes):
    end, square = heads * s * d * value_bytes, heads * s * s * value_bytes
    return [(2 * end + square) + (square + square) + (square + end + end), 3 * end + end]


DIFFERENTLY = {
    "bandwidth_from_pins": [
        bandwidth_pin_by_pin,
        lambda pin, bits, n: pin * bits * n * 125_000_000,
        lambda pin, bits, n: n * (bits // 8) * (pin * 1e9),
    ],
    "intensities": [
        intensities_by_counting_tensors,
        lambda m, k, n, w: (2 / w / (1 / n + 1 / m + 1 / k), 5 / 2 / w, 2 / w / (1 / n + 1 + 1 / k)),
        lambda m, k, n, w: [
            (2 * m * k * n) / (m * k * w + k * n * w + m * n * w),
            (5 * m * n) / (2 * w * m * n),
            (2 * k * n) / (k * w + k * n * w + n * w),
        ],
    ],
    "layer_s": [
        layer_operator_by_operator,
        layer_with_the_package,
        lambda ops, w, peak, rate: sum(layer_operator_by_operator([op], w, peak, rate) for op in reversed(ops)),
    ],
    "compute_bound_batch": [
        batch_one_by_one,
        batch_by_formula,
        lambda k, n, w, peak, rate: next(
            batch
            for batch in range(batch_by_formula(k, n, w, peak, rate) - 5, 10**6)
            if 2 / w / (1 / n + 1 / batch + 1 / k) >= peak / rate
        ),
    ],
    "attention_bytes": [
        attention_by_tensors,
        lambda s, heads, d, w: [4 * heads * w * s * (s + d), 4 * heads * w * s * d],
        lambda s, heads, d, w: tuple(4 * w * sum(s * width for _ in range(heads)) for width in (s + d, d)),
    ],
    "online_softmax": [online_by_merging, online_score_by_score, online_with_torch],
}


def test_tasks_are_sound():
    assert_tasks_are_sound("hbm")


@pytest.mark.parametrize("name", tasks("hbm"))
def test_right_answers_written_differently_are_accepted(name):
    for answer in DIFFERENTLY[name]:
        assert_accepts("hbm", name, answer)


def shown(view):
    return view.chart["datasets"]["rows"]


def unverified(name, *quantities):
    rows = [row for row in accelerators.get(name).numbers if row.used and row.quantity.startswith(quantities)]
    return [row.quantity for row in rows if row.status == "unverified"]


@pytest.mark.parametrize("name", sorted({*hbm.ROOFED, *hbm.HOLDERS, *hbm.DECODERS}))
def test_figures_rest_on_verified_numbers(name):
    assert unverified(name, "memory", "matmul", "l2") == []


@pytest.mark.parametrize("operator", hbm.OPERATORS)
@pytest.mark.parametrize(("n", "width"), [(1.0, 100.0), (300.0, 4096.0), (1e5, 31622.8)])
def test_roofline_figure_puts_every_operator_on_the_roof(operator, n, width):
    view = roofline_view(operator, n, width, "bf16", "A100 80GB SXM", True)
    rows = shown(view)
    assert all(row["x"] > 0 and row["y"] > 0 for row in rows)  # nothing that a logarithm cannot show
    for row in rows:
        if row["kind"] == "operator":
            assert row["y"] == pytest.approx(min(312.0, row["x"] * 2.039), rel=1e-9)
    work = hbm.OPERATORS[operator](round(n), round(width), "bf16")
    assert f'data-value="{max(work.flop / 312e12, work.bytes / 2039e9)!r}"' in view.says


def test_one_token_reaches_a_third_of_a_percent_of_an_h100():
    view = roofline_view("Matmul, width x width weights", 1.0, 4096.0, "bf16", "H100 SXM", False)
    assert "0.34% of the peak" in view.says and "Bound by <b>memory</b>" in view.says


def test_roofline_figure_refuses_a_format_that_the_chip_lacks():
    assert roofline_view("Softmax", 8.0, 8.0, "fp8", "A100 80GB SXM", False).says.endswith("no matrix units for fp8.")


@pytest.mark.parametrize("use", hbm.USES)
@pytest.mark.parametrize("model", hbm.DENSE)
def test_fits_figure_adds_its_parts_up(model, use):
    rows = shown(fits_view(model, use, "bf16", 4096.0, 2))
    parts = hbm.needed_bytes(models.get(model), use, "bf16", 4096, 2)
    assert {row["needed"] for row in rows} == {sum(parts.values()) / 1e9}
    for row in rows:
        assert (row["verdict"] == "holds it") == (row["label"] == "x 1") == (row["gb"] >= row["needed"])


def test_a_model_of_8_billion_trains_on_none_of_the_usual_cards_and_serves_on_one_of_24_gb():
    assert "One RTX 4090 holds it" in fits_view("Llama 3 8B", "serving", "bf16", 4096.0, 1).says
    training = {
        row["name"]: row["verdict"] for row in shown(fits_view("Llama 3 8B", "training with Adam", "bf16", 4096.0, 1))
    }
    assert training["H100 SXM"] == "too small"
    assert training["B200 SXM"] == "holds it"


@pytest.mark.parametrize("s", [100.0, 4096.0, 1e5])
def test_fusion_figure_of_attention_is_the_formula(s):
    apart, fused = (roofline.attention(round(s), 32, 128, fused=fused).bytes for fused in (False, True))
    assert f'data-value="{apart / fused!r}"' in fusion_view("attention", s, 3, "H100 SXM").says


@pytest.mark.parametrize("n_steps", [1, 3, 12])
def test_fusion_figure_of_a_chain_saves_all_but_one(n_steps):
    view = fusion_view("chain of elementwise steps", 100.0, n_steps, "RTX 4090")
    assert f'data-value="{float(n_steps)!r}"' in view.says
    apart, fused = (row["us"] for row in shown(view))
    assert apart / fused == pytest.approx(n_steps, rel=1e-9)


def test_triangle_figure_bounds_tokens_by_the_bandwidth_of_a_laptop():
    """A model of 70e9 four-bit weights on a MacBook Pro: its bandwidth over the bytes of weights and cache."""
    model = models.get("Llama 3 70B")
    expected = 400e9 / (memory.weight_bytes(model.n_parameters, "fp4") + memory.kv_cache_bytes(model, 1000))
    assert f'data-value="{expected!r}"' in triangle_view("Llama 3 70B", "fp4", 1, 1000.0, "MacBook Pro M3 Max").says
    assert "do not fit into the 128 GB" in triangle_view("Llama 3 70B", "bf16", 1, 1000.0, "MacBook Pro M3 Max").says


def test_triangle_figure_reads_what_does_not_fit_over_the_link():
    """Unified memory of a GH200 at 450 GB/s beats PCIe by far, and neither comes near memory that holds all."""
    rates = {}
    for name in ("GH200 96GB", "RTX 4090", "MI300X"):
        says = triangle_view("Llama 3 70B", "bf16", 1, 1000.0, name).says
        rates[name] = float(says.partition('data-value="')[2].partition('"')[0])
    assert rates["MI300X"] > 3 * rates["GH200 96GB"] > 30 * rates["RTX 4090"]
    model = models.get("Llama 3 70B")
    needed = memory.weight_bytes(model.n_parameters) + memory.kv_cache_bytes(model, 1000)
    assert rates["GH200 96GB"] == pytest.approx(450e9 / (needed - 96e9), rel=1e-12)


def test_triangle_figure_turns_compute_bound_with_the_batch():
    assert "bandwidth binds" in triangle_view("Llama 3 8B", "bf16", 1, 100.0, "H100 SXM").says
    assert "compute binds" in triangle_view("Llama 3 8B", "bf16", 512, 100.0, "H100 SXM").says


@pytest.mark.parametrize(("load_ms", "compute_ms"), [(2.0, 3.0), (5.0, 0.1)])
def test_buffers_figure_shows_the_schedule(load_ms, compute_ms):
    for n_buffers in (1, 2):
        view = buffers_view(load_ms, compute_ms, n_buffers)
        total_s = overlap.total_s(overlap.schedule(hbm.N_BLOCKS, load_ms / 1e3, compute_ms / 1e3, n_buffers))
        assert f'data-value="{total_s!r}"' in view.says
        assert max(row["end"] for row in shown(view)) == pytest.approx(total_s * 1e3, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "stated_gb_per_s", "times"), [("TPU v4", 2400, 2.0), ("TPU v5e", 1600, 1.95), ("TPU v5p", 4800, 1.74)]
)
def test_an_interconnect_in_gbit_per_s_read_as_memory_in_gb_per_s(name, stated_gb_per_s, times):
    """What the source document's table says of TPUs, and how many times too fast that is."""
    found = stated_gb_per_s * 1e9 / accelerators.get(name).memory_bytes_per_s
    assert found == pytest.approx(times, abs=0.005)
    assert accelerators.get(name).memory_bytes_per_s != stated_gb_per_s * 1e9 / 8


@pytest.mark.parametrize("name", tasks("hbm"))
def test_feedback_sends_to_a_heading_that_the_page_has(name):
    page = (Path(__file__).parents[2] / "book" / "hbm.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", page, flags=re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert tasks("hbm")[name].read_again in {f"hbm.html#{anchor}" for anchor in anchors}


def test_what_the_page_says_in_words():
    """Shares and factors that its prose rounds to words."""
    l2 = {name: accelerators.get(name) for name in ("A100 80GB SXM", "H100 PCIe")}
    factors = [chip.value("l2_bandwidth") / chip.memory_bytes_per_s for chip in l2.values()]
    assert [round(2 * factor) / 2 for factor in factors] == [2.5, 3.5]  # "two and a half to three and a half times"
    ridges = [chip.matmul_flop_per_s("bf16") / chip.value("l2_bandwidth") for chip in l2.values()]
    tiled = [
        roofline.matmul(8192, 8192, 8192).flop / roofline.tiled_matmul_bytes(8192, 8192, 8192, *tile)
        for tile in ((128, 128), (256, 128), (256, 256))
    ]
    assert ridges[0] < tiled[0] and tiled[1] < ridges[1] < tiled[2]
    weights = {dtype: memory.weight_bytes(models.get("Llama 3 70B").n_parameters, dtype) for dtype in ("fp4", "bf16")}
    assert round(3 * accelerators.get("RTX 4090").memory_bytes / weights["fp4"]) == 2  # "holds two thirds"
    assert (
        round(3 * (1 - accelerators.get("GH200 96GB").memory_bytes / weights["bf16"])) == 1
    )  # "a third of the weights"
    reading = [
        chip.memory_bytes / chip.memory_bytes_per_s
        for chip in map(accelerators.get, ("V100 SXM2", "A100 80GB SXM", "H100 SXM", "B200 SXM"))
    ]
    assert all(0.02 < seconds < 0.04 for seconds in reading)  # "it has hardly changed in years"
