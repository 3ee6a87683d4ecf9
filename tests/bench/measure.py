"""The search for the best matmul shape against a plain sweep over square sizes, with the same time.

Both choose a shape first and then report the median of timings made after the choice, so that a lucky timing among
many does not count. What they report was measured at different times; what disturbs the machine may have come to one
of them only. So the two chosen shapes then meet: each round times both, in turns and in changing order, for the same
time each. That ratio is what counts: its median over the rounds, with the interval that holds it in 95 of 100 such
meetings, and beside it the ratio of the best rates, which disturbances touch least.

Run it alone on the machine: python tests/bench/measure.py [SECONDS]
"""

import math
import random
import statistics
import sys
import time

from aiinfra.measure import device as devices
from aiinfra.measure.best_matmul import Products, best_matmul
from aiinfra.measure.matmul import torch_dtype
from aiinfra.measure.search import REFINED_FRAC, Shape
from aiinfra.units import format_flop_per_s

BUDGET_S = 20.0
SQUARES = [Shape(n, n, n) for n in range(256, 4097, 256)]
MEETING_S, TURN_S = 20.0, 0.1  # of the meeting, and that one shape is timed in a round, at least one product


def sweep(products, budget_s):
    """The square whose median rate is best, each timed in turn, then timed alone: (shape, median FLOP/s)."""
    start = time.perf_counter()
    rates = {shape: [] for shape in SQUARES}
    for shape in _in_turns(SQUARES, start + REFINED_FRAC * budget_s):
        rates[shape].append(shape.flop / products.seconds(shape))
    best = max((shape for shape in SQUARES if rates[shape]), key=lambda shape: statistics.median(rates[shape]))
    alone = [best.flop / products.seconds(best) for _ in _in_turns([best], start + budget_s)]
    return best, statistics.median(alone)


def _in_turns(shapes, deadline):
    """The shapes round and round until the deadline; one is always given."""
    while True:
        for shape in shapes:
            yield shape
            if time.perf_counter() >= deadline:
                return


def meet(products, one, other):
    """Rates of two shapes, a pair a round; each is timed for the same time in every round, and first in every other."""
    n_calls = {shape: max(1, round(TURN_S / min(products.seconds(shape) for _ in range(3)))) for shape in (one, other)}
    deadline, rounds = time.perf_counter() + MEETING_S, []
    while len(rounds) < 3 or time.perf_counter() < deadline:
        pair = [one, other] if len(rounds) % 2 else [other, one]
        rates = {shape: shape.flop * n_calls[shape] / products._timed(shape, n_calls[shape]) for shape in pair}
        rounds.append((rates[one], rates[other]))
    return rounds


def interval(ratios):
    """Ends between which the median lies with 95 %, by drawing the rounds again and again."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[math.floor(0.025 * len(medians))], medians[math.floor(0.975 * len(medians))]


def main():
    budget_s = float(sys.argv[1]) if len(sys.argv) > 1 else BUDGET_S
    found = best_matmul("fp32", budget_s)
    products = Products(torch_dtype("fp32")[1], devices.get())
    square, square_rate = sweep(products, budget_s)
    for name, shape, rate in (("search", found.shape, found.rates.median), ("squares", square, square_rate)):
        print(f"matmul {name:8} {budget_s:g} s  {format_flop_per_s(rate):>15} at {' x '.join(map(str, shape))}")
    print(f"{'ratio of what they report':40} {found.rates.median / square_rate:.3f}")
    if found.shape == square:
        print("both chose the same shape")
        return
    rounds = meet(products, found.shape, square)
    ratios = [one / other for one, other in rounds]
    low, high = interval(ratios)
    verdict = "higher" if low > 1 else "lower" if high < 1 else "the same within it"
    print(f"{'ratio of the two shapes, in turns':40} {statistics.median(ratios):.3f} in {len(ratios)} rounds,", end=" ")
    print(f"95 % interval {low:.3f} to {high:.3f}: the search's shape is {verdict}  (at least the same is good)")
    best, best_square = (max(rates) for rates in zip(*rounds, strict=True))
    print(f"{'ratio of their best rates':40} {best / best_square:.3f}")


if __name__ == "__main__":
    main()
