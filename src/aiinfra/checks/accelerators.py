"""Tasks of the chapter `accelerators`."""

import itertools
import statistics

from aiinfra.accelerators import peak_flop_per_s
from aiinfra.checks.tasks import Misconception, Task
from aiinfra.collectives import ring_all_reduce_s

# Peak from clocks -------------------------------------------------------------------------------------------------


def _peak_inputs(rng):
    n_sms, units_per_sm = rng.randint(40, 160), rng.choice((4, 8))
    return n_sms, units_per_sm, rng.choice((64, 128, 256, 512)), round(rng.uniform(0.9, 2.6), 2)


def _peak(n_sms, units_per_sm, fma_per_clock, clock_ghz):
    return peak_flop_per_s(n_sms * units_per_sm, 2 * fma_per_clock, clock_ghz * 1e9)


PEAK = Task(
    name="peak_from_clock",
    reference=_peak,
    inputs=_peak_inputs,
    points=4,
    read_again="accelerators.html#how-one-is-built",
    misconceptions=(
        Misconception(
            "multiply-add as one",
            lambda n, u, f, ghz: _peak(n, u, f, ghz) / 2,
            "This counts a fused multiply-add as one operation. It is two, a multiplication and an addition.",
        ),
        Misconception(
            "sparse",
            lambda n, u, f, ghz: 2 * _peak(n, u, f, ghz),
            "This is the 2:4 sparse peak: twice what the units compute. Count each multiply-add as two, once.",
        ),
        Misconception(
            "units forgotten",
            lambda n, u, f, ghz: _peak(n, 1, f, ghz),
            "This counts one unit in each SM. There are units_per_sm of them.",
        ),
        Misconception(
            "GHz as Hz",
            lambda n, u, f, ghz: _peak(n, u, f, ghz) / 1e9,
            "This takes the clock as it is printed. 1 GHz is 1e9 ticks a second; return FLOP/s.",
        ),
        Misconception(
            "in TFLOP/s",
            lambda n, u, f, ghz: _peak(n, u, f, ghz) / 1e12,
            "This is in TFLOP/s. Return FLOP/s: inside a program, keep base units.",
        ),
    ),
)

# Rank five offers -------------------------------------------------------------------------------------------------


def usable_tflops(offer):
    """Dense rate with FP32 sums that an offer has, whatever its print counts."""
    return offer["tflops"] / (2 if offer["sparse"] else 1) / (2 if offer["accumulate"] == "fp16" else 1)


def _ranked(value):
    return lambda offers: [offer["name"] for offer in sorted(offers, key=value, reverse=True)]


def _offers(rng):
    while True:
        offers = [
            {
                "name": name,
                "tflops": round(rng.uniform(150, 2500), 1),
                "sparse": rng.random() < 0.5,
                "accumulate": rng.choice(("fp16", "fp32")),
                "price_usd": rng.randrange(1_500, 40_000, 500),
            }
            for name in "ABCDE"
        ]
        worths = sorted(usable_tflops(offer) / offer["price_usd"] for offer in offers)
        if all(b > 1.001 * a for a, b in itertools.pairwise(worths)):  # no tie, which could be ranked either way
            return (offers,)


RANK = Task(
    name="rank_offers",
    reference=_ranked(lambda offer: usable_tflops(offer) / offer["price_usd"]),
    inputs=_offers,
    points=6,
    read_again="accelerators.html#the-factor-of-two-traps",
    misconceptions=(
        Misconception(
            "as printed",
            _ranked(lambda offer: offer["tflops"] / offer["price_usd"]),
            "This ranks by the printed numbers. Bring all to one condition first: dense, sums in FP32.",
        ),
        Misconception(
            "sparse counted",
            _ranked(lambda offer: usable_tflops({**offer, "sparse": False}) / offer["price_usd"]),
            "This takes sparse numbers for dense ones. Halve a rate that counts skipped multiplications.",
        ),
        Misconception(
            "FP16 sums counted",
            _ranked(lambda offer: usable_tflops({**offer, "accumulate": "fp32"}) / offer["price_usd"]),
            "This takes rates with FP16 sums as they are. With sums in FP32 these cards run at half.",
        ),
        Misconception(
            "price forgotten",
            _ranked(usable_tflops),
            "This ranks by rate alone. The question is the rate for each dollar.",
        ),
        Misconception(
            "worst first",
            _ranked(lambda offer: -usable_tflops(offer) / offer["price_usd"]),
            "This is the right order backwards: the best offer comes first.",
        ),
    ),
)

# Find the wrong cell ----------------------------------------------------------------------------------------------

_RATES = ("dense_tflops", "sparse_tflops", "fp8_tflops")


def _table(rng):
    """Six chips whose three rates follow from their units and clock, but for one cell."""
    rows = []
    for name in ("P", "Q", "R", "S", "T", "U"):
        n_sms, fma, ghz = rng.randint(60, 160), rng.choice((128, 256, 512)), round(rng.uniform(1.2, 2.6), 2)
        dense = round(_peak(n_sms, 4, fma, ghz) / 1e12, 1)
        rows.append(
            {"name": name, "n_sms": n_sms, "units_per_sm": 4, "fma_per_clock": fma, "clock_ghz": ghz,
             "dense_tflops": dense, "sparse_tflops": 2 * dense, "fp8_tflops": 2 * dense}
        )  # fmt: skip
    row, column = rng.choice(rows[1:]), rng.choice(_RATES)
    row[column] = round(row[column] * rng.choice((0.5, 0.8, 1.25, 2.0)), 1)
    return (rows,)


def _disagreeing(rows, flop_per_fma=2):
    """First cell that is off by more than 1 % from what units and clock give."""
    for row in rows:
        dense = row["n_sms"] * row["units_per_sm"] * row["fma_per_clock"] * flop_per_fma * row["clock_ghz"] / 1e3
        for column, expected in zip(_RATES, (dense, 2 * dense, 2 * dense), strict=True):
            if abs(row[column] - expected) > 0.01 * expected:
                return [row["name"], column]
    return None


def _largest(rows):
    row, column = max(((row, column) for row in rows for column in _RATES), key=lambda cell: cell[0][cell[1]])
    return [row["name"], column]


def _odd_one_out(rows):
    median = statistics.median(row["dense_tflops"] for row in rows)
    return [max(rows, key=lambda row: abs(row["dense_tflops"] - median))["name"], "dense_tflops"]


WRONG_CELL = Task(
    name="wrong_cell",
    reference=_disagreeing,
    inputs=_table,
    points=6,
    read_again="accelerators.html#how-one-is-built",
    misconceptions=(
        Misconception(
            "the largest number",
            _largest,
            "This is the largest number of the table. Large is not wrong: compute what units and clock give.",
        ),
        Misconception(
            "the odd one out",
            _odd_one_out,
            "This is the dense rate that lies farthest from the others. Chips differ; a row must agree with itself.",
        ),
        Misconception(
            "multiply-add as one",
            lambda rows: _disagreeing(rows, flop_per_fma=1),
            "With one operation for a multiply-add every row looks wrong, so the first is blamed. It is two.",
        ),
    ),
)

# Decide under constraints -----------------------------------------------------------------------------------------


def _choose(worth=lambda offer, n: n * offer["dense_tflops"], power=True, memory=True):
    """The buyer's decision: the offer and how many of it; the arguments make the misconceptions."""

    def choose(offers, budget_usd, power_w, memory_gb):
        possible = _possible(offers, budget_usd, power_w, memory_gb, worth, power, memory)
        return max(possible)[1] if possible else None

    return choose


def _possible(offers, budget_usd, power_w, memory_gb, worth, power=True, memory=True):
    """(worth, [name, count]) of every purchase within the limits that are looked at."""
    possible = []
    for offer in offers:
        n = int(budget_usd // offer["price_usd"])
        if power:
            n = min(n, int(power_w // offer["power_w"]))
        if n and (n * offer["memory_gb"] >= memory_gb or not memory):
            possible.append((worth(offer, n), [offer["name"], n]))
    return possible


def _purchase(rng):
    while True:
        offers = [
            {
                "name": name,
                "dense_tflops": round(rng.uniform(100, 2300)),
                "memory_gb": rng.choice((24, 48, 80, 141, 192)),
                "power_w": rng.randrange(300, 1250, 50),
                "price_usd": rng.randrange(1_500, 45_000, 500),
            }
            for name in "ABCDE"
        ]
        limits = (
            rng.randrange(100_000, 600_000, 10_000),
            rng.randrange(5_000, 40_000, 1_000),
            rng.randrange(200, 2_000, 50),
        )
        totals = [total for total, _ in _possible(offers, *limits, lambda offer, n: n * offer["dense_tflops"])]
        if totals and totals.count(max(totals)) == 1:  # no tie, in which either offer would be right
            return (offers, *limits)


CHOOSE = Task(
    name="choose_offer",
    reference=_choose(),
    inputs=_purchase,
    points=6,
    read_again="accelerators.html#time-and-money",
    misconceptions=(
        Misconception(
            "power forgotten",
            _choose(power=False),
            "This buys more than the rack can feed: n accelerators draw n x power_w watts.",
        ),
        Misconception(
            "memory forgotten",
            _choose(memory=False),
            "What this buys cannot hold the model: all of them together need memory_gb.",
        ),
        Misconception(
            "fastest chip",
            _choose(worth=lambda offer, n: offer["dense_tflops"]),
            "This takes the fastest single chip. What counts is the rate of all that the money and the power allow.",
        ),
        Misconception(
            "most per dollar",
            _choose(worth=lambda offer, n: offer["dense_tflops"] / offer["price_usd"]),
            "This takes the most TFLOP/s for each dollar. Power may forbid to buy as many as the money allows.",
        ),
    ),
)

# Links and a ring -------------------------------------------------------------------------------------------------


def _one_way_inputs(rng):
    return rng.randint(2, 24), rng.choice((25.0, 50.0, 100.0, 112.0, 128.0, 200.0))


ONE_WAY = Task(
    name="one_way_bytes_per_s",
    reference=lambda n_links, link_gb_per_s: n_links * link_gb_per_s / 2 * 1e9,
    inputs=_one_way_inputs,
    points=4,
    read_again="accelerators.html#one-direction-or-both",
    misconceptions=(
        Misconception(
            "both directions",
            lambda n_links, link_gb_per_s: n_links * link_gb_per_s * 1e9,
            "This counts both directions. A datasheet adds the two directions of a link; a message travels in one.",
        ),
        Misconception(
            "one link",
            lambda n_links, link_gb_per_s: link_gb_per_s / 2 * 1e9,
            "This is the rate of one link. The accelerator has n_links of them, and they work together.",
        ),
        Misconception(
            "GB as GiB",
            lambda n_links, link_gb_per_s: n_links * link_gb_per_s / 2 * 2**30,
            "This reads GB as GiB. Link rates are decimal: 1 GB is 1e9 bytes, not 2**30.",
        ),
        Misconception(
            "GB as Gbit",
            lambda n_links, link_gb_per_s: n_links * link_gb_per_s / 2 * 1e9 / 8,
            "This divides by 8 once too often. The figure is printed in GB/s, which are bytes already.",
        ),
    ),
)


def _ring_inputs(rng):
    message_bytes = rng.uniform(0.1e9, 20e9)
    link_bytes_per_s = rng.uniform(10e9, 900e9)
    alpha_s = rng.uniform(0.01, 0.2) * message_bytes / link_bytes_per_s  # large enough that it must be counted
    return message_bytes, rng.randint(3, 64), link_bytes_per_s, alpha_s


RING = Task(
    name="ring_all_reduce_s",
    reference=ring_all_reduce_s,
    inputs=_ring_inputs,
    points=6,
    read_again="accelerators.html#a-ring-all-reduce",
    misconceptions=(
        Misconception(
            "link in both directions",
            lambda m, n, b, a: 2 * (n - 1) * a + 2 * (n - 1) / n * m / (2 * b),
            "This doubles the link. Each rank sends in one direction of its link while it receives in the other.",
        ),
        Misconception(
            "reduce-scatter only",
            lambda m, n, b, a: (n - 1) * a + (n - 1) / n * m / b,
            "This is half of the way: after the reduce-scatter each rank has one finished chunk. "
            "An all-gather must still bring the others.",
        ),
        Misconception(
            "whole message every step",
            lambda m, n, b, a: 2 * (n - 1) * (a + m / b),
            "This sends the whole message at every step. A ring sends one chunk, message / n, at a time.",
        ),
        Misconception(
            "twice the message",
            lambda m, n, b, a: 2 * (n - 1) * a + 2 * m / b,
            "This sends 2 x message. A rank never sends its chunk to itself: the factor is 2 (n - 1)/n.",
        ),
        Misconception(
            "latency once",
            lambda m, n, b, a: a + 2 * (n - 1) / n * m / b,
            "This counts the latency once. Every one of the 2 (n - 1) steps waits for it.",
        ),
        Misconception(
            "latency forgotten",
            lambda m, n, b, a: 2 * (n - 1) / n * m / b,
            "This leaves out the latency. Every one of the 2 (n - 1) steps waits alpha_s before bytes flow.",
        ),
    ),
)

TASKS = (PEAK, RANK, WRONG_CELL, ONE_WAY, RING, CHOOSE)
