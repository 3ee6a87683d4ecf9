"""The highest rate at which a device multiplies matrices, over the shapes that a search finds."""

import math
import time
from dataclasses import dataclass

import torch

from aiinfra.measure import device as devices
from aiinfra.measure.distribution import Distribution
from aiinfra.measure.matmul import torch_dtype
from aiinfra.measure.search import Search, Shape
from aiinfra.units import format_flop_per_s, number

_TILE = {"cpu": 32, "cuda": 128}  # sizes are multiples of it: of a vector kernel's block, of a GPU's usual tile
_TIMING_S = 10e-3  # a timing that lasts less repeats the product
_BLOCK = 2**22 + 64  # random numbers that are drawn; a larger pool repeats them
_POOLS_FRAC = 0.1  # of the budget that filling the pools may take
_COLD = "random operands that no cache holds"
_WARM = "random operands, of which caches may hold a part"


@dataclass(frozen=True)
class BestMatmul:
    """What the search found. `rates` are in FLOP/s, one for each timing of `shape` that counts."""

    shape: Shape
    dtype: str
    rates: Distribution
    n_shapes: int
    interrupted: bool
    about: dict
    operands: str = _COLD

    def __str__(self):
        m, n, k = self.shape
        return (
            f"{self.rates.line(lambda rate: format_flop_per_s(rate, 4))}\n"
            f"{self.dtype}, ({m} x {k}) times ({k} x {n}), the best of {self.n_shapes} shapes"
        )

    def rows(self):
        """Quantity, condition, how, statistics and whether the median is what figures use, as `record.write` asks."""
        m, n, k = self.shape
        how = (
            f"({m} x {k}) times ({k} x {n}), {len(self.rates.values)} timings, best of {self.n_shapes} shapes, "
            f"{self.operands}{', interrupted' if self.interrupted else ''}"
        )
        return [(f"matmul_{self.dtype}", "dense; measured", how, self.rates.statistics(), True)]


class Products:
    """Times products of any shape: random operands, in turns from pools larger than the caches.

    Random, as a GPU runs faster on zeros, which cost it less power. In turns, as small operands that were just used
    would be found in a cache, and a program's are not. The first product of a shape, in which libraries load, is not
    counted.

    Parameters
    ----------
    dtype : torch.dtype
    device : torch.device
    budget_s : float or None    of the measurement: where filling such pools would take more than a tenth of it, they
                                are smaller, and `operands` says that caches may hold a part
    """

    def __init__(self, dtype, device, budget_s=None):
        self.dtype, self.device = dtype, device
        free_bytes, _ = devices.memory_bytes(device)
        cache_bytes = devices.cache_bytes(device) or 64e6
        wanted_bytes = max(4 * cache_bytes, 8192**2 * dtype.itemsize if device.type == "cpu" else 4e9)
        self.n_elements = int(min(wanted_bytes, (free_bytes or 4e9) / 8) / dtype.itemsize)
        if budget_s is not None:
            self.n_elements = affordable(self.n_elements, self._block_s(), budget_s)
        self.operands = _COLD if 3 * self.n_elements * dtype.itemsize >= 4 * cache_bytes else _WARM
        self.a, self.b = self._random(0), self._random(1)
        self.out = torch.empty(self.n_elements, dtype=dtype, device=device).fill_(0)  # claimed now, not when timed
        self.n_calls: dict[Shape, int] = {}
        self.turn = 0

    def _block_s(self):
        """Seconds in which one block of a pool is filled, memory that is new to the program included."""
        block = torch.zeros(_BLOCK, dtype=self.dtype, device=self.device)
        devices.wait(self.device)
        start = time.perf_counter()
        block.repeat(2)
        devices.wait(self.device)
        return (time.perf_counter() - start) / 2

    def _random(self, seed):
        generator = torch.Generator(self.device).manual_seed(seed)
        block = torch.randn(min(_BLOCK, self.n_elements), generator=generator, device=self.device).to(self.dtype)
        return block.repeat(math.ceil(self.n_elements / len(block)))[: self.n_elements]

    def fits(self, shape):
        """Whether the pools hold the operands."""
        m, n, k = shape
        return max(m * k, k * n, m * n) <= self.n_elements

    def seconds(self, shape):
        """Seconds of one product of `shape`, from one timing."""
        if shape not in self.n_calls:
            self._timed(shape, 1)
            first_s = self._timed(shape, 1)
            self.n_calls[shape] = max(1, math.ceil(_TIMING_S / first_s))
            if self.n_calls[shape] == 1:
                return first_s
        n_calls = self.n_calls[shape]
        return self._timed(shape, n_calls) / n_calls

    def _timed(self, shape, n_calls):
        m, n, k = shape
        operands = [
            (self._part(self.a, m, k), self._part(self.b, k, n), self._part(self.out, m, n))
            for self.turn in range(self.turn + 1, self.turn + 1 + n_calls)
        ]
        devices.wait(self.device)
        start = time.perf_counter()
        for a, b, out in operands:
            torch.mm(a, b, out=out)
        devices.wait(self.device)
        return time.perf_counter() - start

    def _part(self, pool, n_rows, n_columns):
        size = n_rows * n_columns
        begin = self.turn % (self.n_elements // size) * size
        return pool[begin : begin + size].view(n_rows, n_columns)


def affordable(n_elements, block_s, budget_s):
    """Elements of a pool, at most `n_elements`, so that filling three of them takes a tenth of the budget, or a block.

    >>> affordable(10**9, 0.01, 20.0) / _BLOCK
    66.0
    """
    n_blocks = max(1, int(_POOLS_FRAC * budget_s / (3 * block_s)))
    return min(n_elements, n_blocks * _BLOCK)


def best_matmul(dtype="fp32", budget_s=120.0, device=None, progress=None):
    """Search for the shape with the highest matmul rate: a `BestMatmul`. Ctrl+C ends the search early.

    Parameters
    ----------
    dtype : str             "fp64", "fp32", "bf16" or "fp16"; on a GPU fp32 does not use TF32
    budget_s : float        seconds that the search takes
    device : str            "cpu" or "cuda"; the GPU where there is one unless given
    progress : function     called with (best Shape, its FLOP/s, seconds left) after each timing

    Raises ValueError for an argument that makes no sense.
    """
    budget_s = number("budget_s", budget_s, above=True)
    name, dtype = torch_dtype(dtype)
    device = devices.get(device)
    with devices.threads() as n_threads:
        start = time.perf_counter()
        products = Products(dtype, device, budget_s)
        left_s = max(budget_s - (time.perf_counter() - start), 0.5 * budget_s)
        units = devices.n_units(device, n_threads)
        found = Search(products.seconds, _TILE[device.type], units, left_s, products.fits, progress=progress).run()
    return BestMatmul(
        shape=found.shape,
        dtype=name,
        rates=Distribution(tuple(found.shape.flop / seconds for seconds in found.seconds)),
        n_shapes=found.n_shapes,
        interrupted=found.interrupted,
        about=devices.about(device, n_threads),
        operands=products.operands,
    )
