"""Loading one block while computing another: a schedule of two resources and a number of buffers."""

from dataclasses import dataclass

from aiinfra.units import count, number


@dataclass(frozen=True)
class Interval:
    """What one resource, "load" or "compute", does with one block, from start to end in seconds."""

    resource: str
    block: int
    start_s: float
    end_s: float


def schedule(n_blocks, load_s, compute_s, n_buffers=2):
    """Simulate a loader and a computer that share `n_buffers` buffers: the `Interval`s of all blocks.

    The loader fills a buffer as soon as one is free; the computer takes blocks in order and frees a block's buffer when
    it is done. One buffer does one after the other, n (l + c). Two hide the shorter one: l + (n - 1) max(l, c) + c.
    More help only where the times vary, which they do not here.

    Parameters
    ----------
    n_blocks, n_buffers : int
    load_s, compute_s : float       of one block

    >>> max(interval.end_s for interval in schedule(4, 1.0, 2.0, n_buffers=2))
    9.0
    """
    count("n_blocks", n_blocks)
    load_s, compute_s = number("load_s", load_s), number("compute_s", compute_s)
    loads: list[Interval] = []
    computes: list[Interval] = []
    for block in range(n_blocks):
        oldest = block - count("n_buffers", n_buffers)  # the block whose buffer this one takes
        free_s = computes[oldest].end_s if oldest >= 0 else 0.0
        start_s = max(free_s, loads[-1].end_s if loads else 0.0)
        loads.append(Interval("load", block, start_s, start_s + load_s))
        start_s = max(loads[-1].end_s, computes[-1].end_s if computes else 0.0)
        computes.append(Interval("compute", block, start_s, start_s + compute_s))
    return [*loads, *computes]


def total_s(intervals):
    """When the last block is done, in seconds."""
    return max(interval.end_s for interval in intervals)
