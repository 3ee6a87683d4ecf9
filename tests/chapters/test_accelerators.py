"""Chapter `accelerators`: its numbers, its tasks and their misconceptions."""

import math
import random

import pytest

from aiinfra import accelerators, collectives, models, published
from aiinfra.checks import example, tasks
from aiinfra.explorers.accelerators import (
    CLOCKED,
    DATA_CENTRE,
    FOOTNOTES,
    GEFORCE,
    LINKS,
    all_reduce_view,
    clock_view,
    compare_view,
    footnote_view,
    generations_view,
)
from tests.chapters.tasks import assert_accepts, assert_tasks_are_sound


def ring_step_by_step(message_bytes, n_ranks, link_bytes_per_s, alpha_s):
    """The ring as it runs: one chunk a step, reduce-scatter and then all-gather."""
    seconds = 0.0
    for _phase in ("reduce-scatter", "all-gather"):
        for _step in range(n_ranks - 1):
            seconds += alpha_s + message_bytes / n_ranks / link_bytes_per_s
    return seconds


def rank_by_bubbles(offers):
    """Ranks without sorting by key: swap neighbours until none is out of order."""
    order = list(offers)
    for _ in order:
        for i in range(len(order) - 1):
            a, b = order[i], order[i + 1]
            if dense_fp32(a) * b["price_usd"] < dense_fp32(b) * a["price_usd"]:
                order[i], order[i + 1] = b, a
    return [offer["name"] for offer in order]


def dense_fp32(offer):
    factor = {(False, "fp32"): 1, (True, "fp32"): 0.5, (False, "fp16"): 0.5, (True, "fp16"): 0.25}
    return offer["tflops"] * factor[offer["sparse"], offer["accumulate"]]


def wrong_cell_by_ratios(rows):
    """The pair of rates that agree tells the third; where dense is wrong, units and clock say so."""
    for row in rows:
        dense, sparse, fp8 = row["dense_tflops"], row["sparse_tflops"], row["fp8_tflops"]
        if abs(sparse - fp8) > 0.02 * fp8:
            return (row["name"], "fp8_tflops" if abs(sparse - 2 * dense) < 0.02 * dense else "sparse_tflops")
        if abs(sparse - 2 * dense) > 0.02 * dense:
            return (row["name"], "dense_tflops")


def wrong_cell_by_largest_error(rows):
    errors = {}
    for row in rows:
        tflops = row["n_sms"] * row["units_per_sm"] * row["fma_per_clock"] * row["clock_ghz"] / 500
        for column, times in {"dense_tflops": 1, "sparse_tflops": 2, "fp8_tflops": 2}.items():
            errors[row["name"], column] = abs(row[column] / times / tflops - 1)
    return list(max(errors, key=errors.get))


def choose_by_trying_every_count(offers, budget_usd, power_w, memory_gb):
    best = (0, None, 0)
    for offer in offers:
        for n in range(1, 500):
            affordable = n * offer["price_usd"] <= budget_usd and n * offer["power_w"] <= power_w
            if affordable and n * offer["memory_gb"] >= memory_gb:
                best = max(best, (n * offer["dense_tflops"], offer["name"], n))
    return [best[1], best[2]]


def choose_with_a_filter(offers, budget_usd, power_w, memory_gb):
    counts = {o["name"]: int(min(budget_usd / o["price_usd"], power_w / o["power_w"])) for o in offers}
    fits = [o for o in offers if o["memory_gb"] * counts[o["name"]] >= memory_gb]
    best = max(fits, key=lambda o: o["dense_tflops"] * counts[o["name"]])
    return best["name"], counts[best["name"]]


DIFFERENTLY = {
    "peak_from_clock": [
        lambda n, u, f, ghz: 2e9 * n * u * f * ghz,
        lambda n, u, f, ghz: sum(u * (f + f) * ghz * 10**9 for _ in range(n)),
        lambda n, u, f, ghz: (n * u) * (2 * f) * (ghz * 1e3) * 1e6,
    ],
    "rank_offers": [
        rank_by_bubbles,
        lambda offers: [o["name"] for o in sorted(offers, key=lambda o: o["price_usd"] / dense_fp32(o))],
        lambda offers: tuple(name for _, name in sorted((-dense_fp32(o) / o["price_usd"], o["name"]) for o in offers)),
    ],
    "wrong_cell": [
        wrong_cell_by_ratios,
        wrong_cell_by_largest_error,
        lambda rows: wrong_cell_by_ratios([row for row in rows if row["name"] != "P"]),
    ],
    "choose_offer": [
        choose_by_trying_every_count,
        choose_with_a_filter,
        lambda offers, *limits: choose_with_a_filter(list(reversed(offers)), *limits),
    ],
    "one_way_bytes_per_s": [
        lambda n, gb: n * gb * 5e8,
        lambda n, gb: sum(gb * 1000**3 / 2 for _ in range(n)),
        lambda n, gb: int(n) * (gb / 2) * 1e3 * 1e6,
    ],
    "ring_all_reduce_s": [
        ring_step_by_step,
        lambda m, n, b, a: (n - 1) * (2 * a + 2 * m / n / b),
        lambda m, n, b, a: 2 * m / b - 2 * m / (n * b) + 2 * n * a - 2 * a,
    ],
}


def test_tasks_are_sound():
    assert_tasks_are_sound("accelerators")


@pytest.mark.parametrize("name", tasks("accelerators"))
def test_right_answers_written_differently_are_accepted(name):
    for answer in DIFFERENTLY[name]:
        assert_accepts("accelerators", name, answer)


@pytest.mark.parametrize(
    ("accelerator", "link", "n_links"), [("H100 SXM", "NVLink 4", 18), ("A100 80GB SXM", "NVLink 3", 12)]
)
def test_printed_total_is_all_links_in_both_directions(accelerator, link, n_links):
    total = accelerators.get(accelerator).value("link_bandwidth", "both directions")
    assert 2 * accelerators.link(link, n_links).bytes_per_s == total


def test_a100_has_a_third_less_than_the_900_gb_per_s_that_an_article_gives_it():
    assert accelerators.get("A100 80GB SXM").value("link_bandwidth", "both directions") == 600e9
    assert accelerators.get("H100 SXM").value("link_bandwidth", "both directions") == 900e9


def measured(system):
    """(payload, seconds) of the published all-reduce; seconds follow from bus bandwidth by its definition."""
    for row in published.get("nccl_all_reduce_by_payload").rows:
        if row["system"] == system:
            sent = collectives.ring_all_reduce_sent_bytes(row["payload"], 8)
            yield row["payload"], sent / row["bus_bandwidth"]


@pytest.mark.parametrize(("payload", "seconds"), list(measured("8 x A100")))
def test_ring_without_latency_is_a_lower_bound_on_a100(payload, seconds):
    """No ring beats its own bytes: nothing is fitted, and the bound may not be crossed by any measured row."""
    assert seconds > collectives.ring_all_reduce_s(payload, 8, 300e9)


def test_large_messages_reach_about_three_quarters_of_the_link_on_a100():
    payload, seconds = max(measured("8 x A100"))
    reached = collectives.ring_all_reduce_s(payload, 8, 300e9) / seconds
    assert f"{reached:.2f}" == "0.78"  # published: bus bandwidth 234.89 of 300 GB/s


def test_in_network_reduction_beats_the_ring_on_h200():
    """NVLS adds up in the switch: for the largest message the ring's lower bound is crossed, as the page says."""
    payload, seconds = max(measured("8 x H200, NVLS"))
    assert seconds < collectives.ring_all_reduce_s(payload, 8, 450e9)


def test_printed_times_of_published_rows_agree_with_their_bus_bandwidth():
    """The table's own columns agree within the digits that it prints (time to 4, bandwidth to 3 digits)."""
    for row in published.get("nccl_all_reduce_by_payload").rows:
        if row["time"]:
            seconds = collectives.ring_all_reduce_sent_bytes(row["payload"], 8) / row["bus_bandwidth"]
            assert math.isclose(seconds, row["time"], rel_tol=0.01)


def unverified(name, *quantities):
    rows = [row for row in accelerators.get(name).numbers if row.used and row.quantity.startswith(quantities)]
    return [row.quantity for row in rows if row.status == "unverified"]


@pytest.mark.parametrize("name", sorted({*CLOCKED, *DATA_CENTRE, *GEFORCE}))
def test_figures_of_clocks_and_generations_rest_on_verified_numbers(name):
    assert unverified(name, "clock", "sm_count", "matmul", "memory", "power", "release_year") == []


def test_comparisons_leave_unverified_numbers_out():
    assert unverified("GB200", "power") == ["power"]
    shown = {
        metric: {row["name"] for row in compare_view(metric, "bf16", "dense", "usual width").chart["datasets"]["rows"]}
        for metric in ("Peak of the matrix units", "Peak per watt")
    }
    assert "GB200" in shown["Peak of the matrix units"]
    assert "GB200" not in shown["Peak per watt"]


@pytest.mark.parametrize("clock_ghz", [0.5, 1.83])
def test_clock_figure_is_units_times_clock(clock_ghz):
    expected = 132 * 4 * 512 * 2 * clock_ghz * 1e9
    assert f'data-value="{expected!r}"' in clock_view("H100 SXM", "fp16", clock_ghz).says


@pytest.mark.parametrize("footnote", FOOTNOTES)
def test_footnote_figure_needs_more_than_it_plans(footnote):
    rows = footnote_view(footnote, 100.0).chart["datasets"]["rows"]
    counts = {row["what"]: row["count"] for row in rows}
    assert counts["needed"] > counts["planned"] > 0


def test_footnote_figure_counts_the_h100s_of_100_dense_pflop_per_s():
    rows = footnote_view("Sparse read as dense (H100 SXM)", 100.0).chart["datasets"]["rows"]
    assert rows == [{"what": "planned", "count": 51}, {"what": "needed", "count": 102}]  # 1e5 / 1978.9, 1e5 / 989.4


def test_generations_figure_says_the_growth_of_compute_and_of_memory():
    compute = generations_view("FP16 peak, dense, FP32 sums")
    assert f'data-value="{2250 / 125!r}"' in compute.says
    bandwidth = generations_view("Memory bandwidth")
    assert f'data-value="{7700 / 900!r}"' in bandwidth.says


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("model", ["Llama 2 7B", "Llama 2 70B"])
def test_figure_shows_what_the_formula_gives(model, link):
    view = all_reduce_view(model, "bf16", link, 8, 5.0, True)
    one_way = accelerators.link(*LINKS[link]).bytes_per_s
    message = models.get(model).n_parameters * 2
    expected = collectives.ring_all_reduce_s(message, 8, one_way, 5e-6)
    assert f'data-value="{expected!r}"' in view.says
    chosen = {row["series"]: row["ms"] for row in view.chart["datasets"]["rows"] if row["chosen"]}
    assert chosen == {
        "one direction (right)": expected * 1e3,
        "both directions (misread)": collectives.ring_all_reduce_s(message, 8, 2 * one_way, 5e-6) * 1e3,
    }


def test_the_model_answer_of_the_written_question_is_right():
    """Its numbers, for scenario 0: bought by power, offer D out of memory, and what 4,500 W more bring."""
    choose = tasks("accelerators")["choose_offer"].reference
    offers, budget_usd, power_w, memory_gb = example("accelerators", "choose_offer", 0)
    by_name = {offer["name"]: offer for offer in offers}
    c, d = by_name["C"], by_name["D"]
    assert (budget_usd, power_w, memory_gb) == (520_000, 18_000, 1_400)
    assert choose(offers, budget_usd, power_w, memory_gb) == ["C", 60]
    assert (power_w // c["power_w"], budget_usd // c["price_usd"], 60 * c["dense_tflops"]) == (60, 148, 31_080)
    assert (power_w // d["power_w"], 24 * d["dense_tflops"], 24 * d["memory_gb"]) == (24, 44_088, 1_152)
    assert choose(offers, budget_usd, power_w + 4_499, memory_gb)[0] != "D"
    assert choose(offers, budget_usd, power_w + 4_500, memory_gb) == ["D", 30]
    assert (30 * d["price_usd"], 30 * d["memory_gb"], 30 * d["dense_tflops"]) == (465_000, 1_440, 55_110)
    assert round(55_110 / 31_080 - 1, 2) == 0.77


@pytest.mark.parametrize("name", ["rank_offers", "choose_offer"])
def test_no_tie_makes_two_answers_right(name):
    """Whoever looks at the offers in another order must come to the same answer, or the check would be luck."""

    def first_of_the_best(offers, budget_usd, power_w, memory_gb):
        possible = [
            (n * offer["dense_tflops"], offer["name"], n)
            for offer in offers
            for n in [min(budget_usd // offer["price_usd"], power_w // offer["power_w"])]
            if n * offer["memory_gb"] >= memory_gb
        ]
        return max(possible, key=lambda entry: entry[0])[1:]

    def ranked(offers):
        return [offer["name"] for offer in sorted(offers, key=lambda offer: usable(offer) / offer["price_usd"])]

    def usable(offer):
        return offer["tflops"] / (2 if offer["sparse"] else 1) / (2 if offer["accumulate"] == "fp16" else 1)

    answer = {"rank_offers": ranked, "choose_offer": first_of_the_best}[name]
    task = tasks("accelerators")[name]
    for seed in range(5000):
        offers, *limits = task.inputs(random.Random(seed))
        assert answer(offers, *limits) == answer(offers[::-1], *limits)
