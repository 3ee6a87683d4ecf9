"""Operators of several intensities timed on this machine: points to draw under its roofline."""

import itertools
import math
import time
from dataclasses import dataclass

import torch

from aiinfra import roofline
from aiinfra.measure import device as devices
from aiinfra.measure.distribution import Distribution
from aiinfra.roofline import Work
from aiinfra.units import count, number

_CACHES = 2  # the weights that take turns are this many times the caches, so that each comes from memory
_MOST_BYTES = 1.5e9
_UNKNOWN_CACHE_BYTES = 256e6
_TIMING_S = 5e-3


@dataclass(frozen=True)
class Point:
    """One operator as it ran. `rates` are FLOP/s, one for each timing; the best is what the machine can do."""

    name: str
    work: Work
    rates: Distribution

    @property
    def best_s(self):
        return self.work.flop / self.rates.best


def measure_operators(batches=(1, 2, 4, 8, 16, 32, 64, 128, 256), width=2048, budget_s=6.0, device=None):
    """Time a linear layer at several batches, three elementwise operators, and one layer that stays in a cache.

    In fp32. The layer has width x width weights; as many sets of them take turns as no cache can hold, so that each
    product reads its weights from memory, as in decoding. A layer of a quarter of the width has one set, which a cache
    holds: it shows the second roof.

    Parameters
    ----------
    batches : sequence of int       rows that share one reading of the weights
    width : int                     of the layer, at least 64
    budget_s : float                seconds after which no further turn is started; each is timed at least once
    device : str                    "cpu" or "cuda"; the GPU where there is one unless given

    Raises ValueError for an argument that makes no sense.
    """
    batches = [count("batches", batch) for batch in batches]
    width, budget_s = count("width", width, 64), number("budget_s", budget_s, above=True)
    device = devices.get(device)
    cache_bytes = devices.cache_bytes(device) or _UNKNOWN_CACHE_BYTES
    free_bytes = devices.memory_bytes(device)[0] or math.inf
    n_bytes = min(_CACHES * cache_bytes, _MOST_BYTES, free_bytes / 8)
    with devices.threads():
        kernels = [
            *_layers(batches, width, n_bytes, device),
            *_elementwise(n_bytes, device),
            _cached(width // 4, device),
        ]
        seconds = _time_in_turns([calls for _, _, calls in kernels], budget_s, device)
    return [
        Point(name, work, Distribution(tuple(work.flop / s for s in timings)))
        for (name, work, _), timings in zip(kernels, seconds, strict=True)
    ]


def _layers(batches, width, n_bytes, device):
    """(name, work of one call, endless iterator of calls) of the layer at each batch."""
    n_sets = max(1, math.ceil(n_bytes / (4 * width * width)))
    weights = [torch.full((width, width), 0.5, device=device) for _ in range(n_sets)]
    for batch in batches:
        x = torch.full((batch, width), 0.5, device=device)
        out = torch.empty(batch, width, device=device)
        calls = itertools.cycle([(torch.mm, (x, weight), {"out": out}) for weight in weights])
        yield f"layer, batch {batch}", roofline.matmul(batch, width, width, "fp32"), calls


def _elementwise(n_bytes, device):
    n_rows = max(1, int(n_bytes) // 4 // 3 // 1024)
    a, b, c = (torch.full((n_rows, 1024), 0.5, device=device) for _ in range(3))
    n = a.numel()
    add = (torch.add, (a, b), {"out": c})
    gelu = (torch.ops.aten.gelu.out, (a,), {"out": b})
    softmax = (torch.softmax, (a, 1), {"out": b})
    yield "add", roofline.elementwise(n, 1, n_read=2, dtype="fp32"), itertools.cycle([add])
    yield "GELU", roofline.elementwise(n, 8, dtype="fp32"), itertools.cycle([gelu])
    yield "softmax", roofline.softmax(n_rows, 1024, "fp32"), itertools.cycle([softmax])


def _cached(width, device):
    weight, x = (torch.full(shape, 0.5, device=device) for shape in ((width, width), (4, width)))
    call = (torch.mm, (x, weight), {"out": torch.empty(4, width, device=device)})
    return "layer that a cache holds, batch 4", roofline.matmul(4, width, width, "fp32"), itertools.cycle([call])


def _time_in_turns(kernels, budget_s, device):
    """Seconds of one call, for each timing of each kernel; in turns, so that a disturbance hits all a little."""
    deadline = time.perf_counter() + budget_s
    n_calls = [_calls_of_a_timing(calls, device) for calls in kernels]
    seconds: list[list[float]] = [[] for _ in kernels]
    while not seconds[-1] or time.perf_counter() < deadline:
        for calls, n, row in zip(kernels, n_calls, seconds, strict=True):
            row.append(_timed(calls, n, device) / n)
    return seconds


def _calls_of_a_timing(calls, device):
    """How many calls last long enough to be timed; the first ones, in which caches fill, do not count."""
    n = 1
    while min(_timed(calls, n, device) for _ in range(3)) < _TIMING_S:
        n *= 2
    return n


def _timed(calls, n_calls, device):
    batch = list(itertools.islice(calls, n_calls))
    devices.wait(device)
    start = time.perf_counter()
    for function, args, kwargs in batch:
        function(*args, **kwargs)
    devices.wait(device)
    return time.perf_counter() - start
