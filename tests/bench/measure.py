"""The search for the best matmul shape against a plain sweep over square sizes, with the same time.

Run it alone on the machine: python tests/bench/measure.py [SECONDS]
"""

import statistics
import sys
import time

from aiinfra.measure import device as devices
from aiinfra.measure.best_matmul import Products, best_matmul
from aiinfra.measure.matmul import torch_dtype
from aiinfra.measure.search import Shape
from aiinfra.units import format_flop_per_s

BUDGET_S = 20.0
SQUARES = [Shape(n, n, n) for n in range(256, 4097, 256)]
DUEL_S = 10.0


def sweep(products, budget_s):
    """The square whose median rate is best, each timed in turn until the time is spent: (shape, median FLOP/s)."""
    deadline = time.perf_counter() + budget_s
    rates = {shape: [] for shape in SQUARES}
    while True:
        for shape in SQUARES:
            if time.perf_counter() >= deadline and rates[SQUARES[0]]:
                medians = {shape: statistics.median(values) for shape, values in rates.items() if values}
                best = max(medians, key=medians.get)
                return best, medians[best]
            rates[shape].append(shape.flop / products.seconds(shape))


def duel(products, shapes):
    """Median FLOP/s of each of `shapes`, timed in turns, so that what disturbs one disturbs the other."""
    deadline = time.perf_counter() + DUEL_S
    rates = {shape: [] for shape in shapes}
    while time.perf_counter() < deadline:
        for shape in rates:
            rates[shape].append(shape.flop / products.seconds(shape))
    return [statistics.median(rates[shape]) for shape in shapes]


def main():
    budget_s = float(sys.argv[1]) if len(sys.argv) > 1 else BUDGET_S
    found = best_matmul("fp32", budget_s)
    products = Products(torch_dtype("fp32")[1], devices.get())
    square, square_rate = sweep(products, budget_s)
    searched, swept = duel(products, [found.shape, square])
    for name, shape, rate in (("search", found.shape, found.rates.median), ("squares", square, square_rate)):
        print(f"matmul {name:8} {budget_s:g} s  {format_flop_per_s(rate):>15} at {' x '.join(map(str, shape))}")
    print(f"{'ratio of what they report':40} {found.rates.median / square_rate:.3f}")
    print(f"{'ratio of the two shapes timed in turns':40} {searched / swept:.3f}  (at least 1 is good)")


if __name__ == "__main__":
    main()
