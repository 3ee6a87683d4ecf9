"""The quantization staircase, measured: the rate of a matmul as one of its sizes grows."""

import itertools
import time
from dataclasses import dataclass

import torch

from aiinfra.measure import device as devices
from aiinfra.measure.distribution import Distribution
from aiinfra.measure.matmul import products_s, torch_dtype
from aiinfra.units import count, number

_TIMING_S = 1e-3  # a timing that lasts less repeats the product


@dataclass(frozen=True)
class Staircase:
    """Rates in FLOP/s of (m, k) times (k, n), for each n, and on what they were measured."""

    m: int
    k: int
    dtype: str
    rates: dict[int, Distribution]
    about: dict

    def best(self):
        """n -> best rate: disturbances only ever lower a rate, and not all sizes meet the same ones."""
        return {n: rates.best for n, rates in self.rates.items()}

    def drops(self, frac=0.1):
        """Sizes n after which the next larger one is slower by more than `frac`: where a step of the staircase ends."""
        best = list(self.best().items())
        return [n for (n, rate), (_, after) in itertools.pairwise(best) if after < (1 - frac) * rate]


def staircase(sizes, m=512, k=512, dtype="fp32", budget_s=5.0, device=None):
    """Measure (m, k) times (k, n) for each n of `sizes`: a `Staircase`.

    The sizes are timed in turns until the time is spent, so that what disturbs the machine disturbs all. Operands are
    random and small enough to stay in a cache: here the units are to be the limit, not the memory.

    Parameters
    ----------
    sizes : list of int     values of n, small to large
    m, k : int              the other two sizes
    dtype : str             "fp64", "fp32", "bf16" or "fp16"
    budget_s : float        each size is timed once in any case
    device : str            "cpu" or "cuda"; the GPU where there is one unless given

    Raises ValueError for an argument that makes no sense.
    """
    sizes = [count("sizes", n) for n in sizes]
    count("len(sizes)", len(sizes))
    m, k, budget_s = count("m", m), count("k", k), number("budget_s", budget_s, above=True)
    dtype, dtype_of_torch = torch_dtype(dtype)
    device = devices.get(device)
    with devices.threads() as n_threads:
        seconds = _seconds(sizes, m, k, dtype_of_torch, device, budget_s)
        about = devices.about(device, n_threads)
    rates = {n: Distribution(tuple(2 * m * n * k / s for s in seconds[n])) for n in sizes}
    return Staircase(m=m, k=k, dtype=dtype, rates=rates, about=about)


def _seconds(sizes, m, k, dtype, device, budget_s):
    """Seconds of one product in each timing, by size."""
    a = torch.randn(m, k, device=device).to(dtype)
    operands, n_calls = {}, {}
    for n in sizes:
        operands[n] = (torch.randn(k, n, device=device).to(dtype), torch.empty(m, n, dtype=dtype, device=device))
    for n, (b, out) in operands.items():
        products_s(a, b, out, 1)
        n_calls[n] = max(1, round(_TIMING_S / products_s(a, b, out, 1)))
    seconds: dict[int, list[float]] = {n: [] for n in sizes}
    deadline = time.perf_counter() + budget_s
    while not seconds[sizes[-1]] or time.perf_counter() < deadline:
        for n, (b, out) in operands.items():
            seconds[n].append(products_s(a, b, out, n_calls[n]) / n_calls[n])
    return seconds
