"""The rate at which a device moves data between its memory and its units, measured."""

import math
import time
from dataclasses import dataclass

import torch

from aiinfra.measure import device as devices
from aiinfra.measure.distribution import Distribution
from aiinfra.units import format_bytes, format_bytes_per_s, number

_CACHES = 4  # an array is this many times the last-level caches, as STREAM asks; the rest of its time is memory's
_AT_LEAST_BYTES = 256e6
_UNKNOWN_CACHE_BYTES = 256e6
_TIMING_S = 10e-3  # a timing that lasts less repeats the kernel

# kernel -> arrays that it reads or writes. A CPU that reads a line before it writes it moves one more: not counted.
KERNELS = {"copy": 2, "triad": 3}


@dataclass(frozen=True)
class Bandwidth:
    """What was measured. `rates` has byte/s of each timing of "copy" (a = b) and "triad" (a = b + s c)."""

    rates: dict[str, Distribution]
    array_bytes: int
    cache_bytes: int | None
    total_bytes: int | None
    interrupted: bool
    about: dict

    def __str__(self):
        lines = [
            f"{kernel:6}{rates.line(lambda rate: format_bytes_per_s(rate, 4))}" for kernel, rates in self.rates.items()
        ]
        return "\n".join([*lines, f"      {self._arrays()}"])

    def _arrays(self):
        caches = "caches not known" if self.cache_bytes is None else f"caches {format_bytes(self.cache_bytes)}"
        return f"arrays of {format_bytes(self.array_bytes)}, {caches}"

    def rows(self):
        """Quantity, condition, how, statistics and whether the median is what figures use, as `record.write` asks."""
        used = "triad" if "triad" in self.rates else "copy"
        found = [
            (
                "memory_bandwidth",
                "measured",
                f"{kernel}, {len(rates.values)} timings, {self._arrays()}{', interrupted' if self.interrupted else ''}",
                rates.statistics(),
                kernel == used,
            )
            for kernel, rates in self.rates.items()
        ]
        memory = ("memory", "", "all of it; programs can use less", {"reported": self.total_bytes}, True)
        return [*found, memory] if self.total_bytes else found


def array_bytes(cache_bytes, free_bytes):
    """Size of one of the three arrays: well beyond the caches, and a third of half the free memory at most.

    >>> array_bytes(100e6, 8e9), array_bytes(32e6, 8e9), array_bytes(None, 64e9), array_bytes(100e6, 600e6)
    (400000000, 256000000, 1024000000, 100000000)
    """
    wanted = max(_CACHES * (cache_bytes or _UNKNOWN_CACHE_BYTES), _AT_LEAST_BYTES)
    most = math.inf if free_bytes is None else free_bytes / 2 / max(KERNELS.values())
    return int(min(wanted, most) // 64 * 64)


def memory_bandwidth(budget_s=10.0, device=None, progress=None):
    """Measure copy and triad in turns, on all threads of the CPU or on a GPU: a `Bandwidth`.

    Ctrl+C ends it early.

    Parameters
    ----------
    budget_s : float        seconds after which no further timing is started; one of each is always made
    device : str            "cpu" or "cuda"; the GPU where there is one unless given
    progress : function     called with ({kernel: best byte/s}, seconds left) after each timing

    Raises ValueError for an argument that makes no sense.
    """
    budget_s = number("budget_s", budget_s, above=True)
    device = devices.get(device)
    free_bytes, total_bytes = devices.memory_bytes(device)
    cache_bytes = devices.cache_bytes(device)
    size_bytes = array_bytes(cache_bytes, free_bytes)
    with devices.threads() as n_threads:
        seconds, interrupted = _time_kernels(size_bytes, device, budget_s, progress or (lambda *_: None))
    return Bandwidth(
        rates=_rates(seconds, size_bytes),
        array_bytes=size_bytes,
        cache_bytes=cache_bytes,
        total_bytes=total_bytes,
        interrupted=interrupted,
        about=devices.about(device, n_threads),
    )


def _rates(seconds, size_bytes):
    return {
        kernel: Distribution(tuple(KERNELS[kernel] * size_bytes / s for s in timings))
        for kernel, timings in seconds.items()
        if timings
    }


def _time_kernels(size_bytes, device, budget_s, progress):
    """(kernel -> seconds of each timing, whether Ctrl+C ended it)."""
    deadline = time.perf_counter() + budget_s
    a, b, c = (torch.empty(size_bytes // 4, device=device).fill_(0.5) for _ in range(3))  # touched by all threads
    kernels = {"copy": lambda: a.copy_(b), "triad": lambda: torch.add(b, c, alpha=3.0, out=a)}
    for kernel in kernels.values():
        _timed(kernel, 1, device)  # libraries load; not counted
    n_calls = math.ceil(_TIMING_S / _timed(kernels["copy"], 1, device))
    seconds: dict[str, list[float]] = {name: [] for name in kernels}
    try:
        while not seconds["triad"] or time.perf_counter() < deadline:
            for name, kernel in kernels.items():
                seconds[name].append(_timed(kernel, n_calls, device) / n_calls)
                best = {name: rates.best for name, rates in _rates(seconds, size_bytes).items()}
                progress(best, max(0.0, deadline - time.perf_counter()))
    except KeyboardInterrupt:
        if not seconds["copy"]:
            raise
        return seconds, True
    return seconds, False


def _timed(kernel, n_calls, device):
    devices.wait(device)
    start = time.perf_counter()
    for _ in range(n_calls):
        kernel()
    devices.wait(device)
    return time.perf_counter() - start
