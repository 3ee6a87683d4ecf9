"""The rate at which this machine multiplies matrices, measured."""

import math
import statistics
import time
from dataclasses import dataclass
from datetime import date

import torch

from aiinfra import precision
from aiinfra.measure import device as devices
from aiinfra.units import count, format_flop_per_s, nearest, number

_TORCH_DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_TIMING_S = 1e-3  # a timing that lasts less repeats the multiplication, so that the clock's own cost is small


@dataclass(frozen=True, repr=False)
class MatmulRate:
    """What was measured, and on what.

    Attributes
    ----------
    n : int                             size of the square matrices
    dtype : str                         such as "fp32"
    flop_per_s : tuple of float         one rate for each repetition, in the order measured, in FLOP/s
    device : str                        name of the GPU or of the CPU
    n_threads : int                     threads on the CPU
    torch_version, date : str
    """

    n: int
    dtype: str
    flop_per_s: tuple[float, ...]
    device: str
    n_threads: int
    torch_version: str
    date: str

    @property
    def median(self):
        """Median rate, in FLOP/s: what to plan with."""
        return statistics.median(self.flop_per_s)

    @property
    def best(self):
        """Best rate, in FLOP/s: what the machine can do when nothing disturbs it."""
        return max(self.flop_per_s)

    def __repr__(self):
        rates = f"{format_flop_per_s(self.median, 3)} median, {format_flop_per_s(self.best, 3)} best"
        what = f"{self.n} x {self.n} {self.dtype}, {self.n_threads} thread{'s' if self.n_threads > 1 else ''}"
        where = f"{self.device}, torch {self.torch_version}, {self.date}"
        return f"{rates} of {len(self.flop_per_s)} ({what}, {where})"


def matmul_flop_per_s(n, dtype="fp32", repeats=20, n_threads=None, budget_s=2.0, device=None):
    """Measure the product of two n x n matrices: a `MatmulRate`.

    An output takes n multiplications and n additions, and there are n^2 of them: 2 n^3 FLOP, as if no trick saved
    any. The values are random (a GPU runs faster on zeros, which cost it less power), and the first product, in
    which libraries load and memory is claimed, is not counted.

    Parameters
    ----------
    n : int                 rows and columns
    dtype : str             "fp64", "fp32", "bf16" or "fp16"; on a GPU fp32 does not use TF32
    repeats : int           timings at most
    n_threads : int         threads on the CPU; PyTorch's own number unless given. Set back afterwards
    budget_s : float        seconds after which no further timing is started; one is always made
    device : str            "cpu" or "cuda"; the GPU where there is one unless given

    Raises ValueError for an argument that makes no sense.
    """
    n, repeats = count("n", n), count("repeats", repeats)
    budget_s = number("budget_s", budget_s, above=True)
    dtype, dtype_of_torch = torch_dtype(dtype)
    device = devices.get(device)
    with devices.threads(n_threads) as n_threads:
        seconds = _matmul_s(n, dtype_of_torch, device, repeats, budget_s)
    return MatmulRate(
        n=n,
        dtype=dtype,
        flop_per_s=tuple(2 * n**3 / s for s in seconds),
        device=devices.hardware(device),
        n_threads=n_threads,
        torch_version=torch.__version__,
        date=date.today().isoformat(),
    )


def torch_dtype(name):
    """(name, torch's dtype) of a number format that PyTorch multiplies on every device."""
    name = precision.get(name).name
    if name not in _TORCH_DTYPES:
        raise ValueError(f"dtype {name!r} cannot be measured; {nearest(name, _TORCH_DTYPES)}")
    return name, _TORCH_DTYPES[name]


def _matmul_s(n, dtype, device, repeats, budget_s):
    """Seconds of one product, for each timing."""
    generator = torch.Generator(device).manual_seed(0)
    a, b = (torch.randn(n, n, generator=generator, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    deadline = time.perf_counter() + budget_s
    products_s(a, b, out, 1)
    first = products_s(a, b, out, 1)
    n_calls = math.ceil(_TIMING_S / first)
    seconds = [first] if n_calls == 1 else [products_s(a, b, out, n_calls) / n_calls]
    while len(seconds) < repeats and time.perf_counter() < deadline:
        seconds.append(products_s(a, b, out, n_calls) / n_calls)
    return seconds


def products_s(a, b, out, n_calls):
    """Seconds of `n_calls` products. A GPU works on its own: it is waited for before and after."""
    devices.wait(a.device)
    start = time.perf_counter()
    for _ in range(n_calls):
        torch.mm(a, b, out=out)
    devices.wait(a.device)
    return time.perf_counter() - start
