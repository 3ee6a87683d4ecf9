"""The share of a machine's peak that a program's FLOP take: MFU and HFU.

MFU counts what the model needs, HFU what the hardware did. Both divide by the dense peak of the dtype that is used.
A machine that is not fed in time waits: `fed_step_s`.
"""

import math

from aiinfra.units import count, format_flop_per_s, number


def mfu(model_flop, time_s, dense_peak_flop_per_s, n_accelerators=1, *, accelerator=None):
    """Model FLOP utilization: the share of the peak that useful work takes, 0 to 1.    [chowdhery2022]

    MFU = model FLOP / (time x n x peak)

    Parameters
    ----------
    model_flop : float              of all accelerators together: forward and backward, nothing recomputed
    time_s : float                  in which they were done, by the clock on the wall
    dense_peak_flop_per_s : float   of one accelerator, in the dtype that the matmuls run in: dense, not 2:4 sparse,
                                    with the accumulate width that is used, and per device that is counted in
                                    n_accelerators (per die where each die is a device)
    n_accelerators : int
    accelerator : accelerators.Accelerator      only to name in an error which of its rates would explain the number

    Raises ValueError above 100 %, which no machine reaches: FLOP, time or peak are not what they are said to be.

    >>> mfu(624e12, 4.0, 312e12)
    0.5
    """
    flop = number("model_flop", model_flop)
    return _utilization("MFU", flop, time_s, dense_peak_flop_per_s, n_accelerators, accelerator)


def hfu(hardware_flop, time_s, dense_peak_flop_per_s, n_accelerators=1, *, accelerator=None):
    """Hardware FLOP utilization: as `mfu`, with the FLOP of recomputation counted as work.     [chowdhery2022]

    It says how busy the machine was; `mfu` says how fast training went.

    >>> hfu(4 / 3 * 624e12, 4.0, 312e12)
    0.6666666666666666
    """
    flop = number("hardware_flop", hardware_flop)
    return _utilization("HFU", flop, time_s, dense_peak_flop_per_s, n_accelerators, accelerator)


def _utilization(name, flop, time_s, dense_peak_flop_per_s, n_accelerators, accelerator):
    peak = number("dense_peak_flop_per_s", dense_peak_flop_per_s, above=True)
    rate = flop / number("time_s", time_s, above=True) / count("n_accelerators", n_accelerators)
    if rate > peak * (1 + 1e-12):
        says = f"{name} must be at most 100 %, got {rate / peak:.1%}: {format_flop_per_s(rate)} of a peak of "
        raise ValueError(f"{says}{format_flop_per_s(peak)}. {_explanation(rate, peak, accelerator)}")
    return min(1.0, rate / peak)


def _explanation(rate, peak, accelerator):
    """Which other denominators would bring `rate` to 100 % or less."""
    if accelerator is None:
        doubled = (
            "the 2:4 sparse rate, FP16 instead of FP32 accumulate, a package of two dies, a dtype of half the width"
        )
        if rate <= 2 * peak:
            return f"A peak of twice that would explain it ({doubled}): {rate / peak / 2:.1%}"
        return f"Not even a peak of twice that would explain it ({doubled}); count FLOP, seconds and accelerators again"
    rates = sorted(
        (row.value, ", ".join((row.quantity.removeprefix("matmul_"), *row.condition)))
        for row in accelerator.numbers
        if row.quantity.startswith("matmul_") and row.unit.endswith("OP/s") and row.used and row.value >= rate
    )
    if not rates:
        return f"No rate of the {accelerator.name} explains it; count FLOP, seconds and accelerators again"
    listed = "; ".join(f"{label} ({format_flop_per_s(value)}): {rate / value:.1%}" for value, label in rates)
    return f"Rates of the {accelerator.name} that would explain it: {listed}"


def fed_step_s(compute_s, load_s, n_workers):
    """Time of a training step whose batches `n_workers` processes prepare while the accelerator computes, in seconds.

    t = max(compute, load / workers); without workers the program loads by itself, and the times add up.

    Parameters
    ----------
    compute_s : float       time of the step on the accelerator
    load_s : float          time in which one worker reads and prepares one batch
    n_workers : int         0 or more

    Ignores the start, uneven batches, and workers that share cores or a disk.

    >>> [fed_step_s(0.1, 0.35, n_workers) for n_workers in (0, 1, 2, 4)]
    [0.44999999999999996, 0.35, 0.175, 0.1]
    """
    compute_s, load_s = number("compute_s", compute_s, above=True), number("load_s", load_s)
    n_workers = count("n_workers", n_workers, 0)
    return max(compute_s, load_s / n_workers) if n_workers else compute_s + load_s


def mfu_on_more(mfu_frac, measured_on, n_accelerators, lost_frac):
    """MFU on `n_accelerators` where each doubling beyond `measured_on` takes `lost_frac` of it: a share, 0 to 1.

    An assumption to plan with, not a law: what is lost depends on network and model. On fewer, it stays what it is.

    >>> mfu_on_more(0.5, 64, 256, 0.1)
    0.405
    """
    frac, lost = number("mfu_frac", mfu_frac, above=True), number("lost_frac", lost_frac)
    if frac > 1 or lost >= 1:
        raise ValueError(f"mfu_frac and lost_frac are shares, not percent; got {mfu_frac!r} and {lost_frac!r}")
    n_doublings = math.log2(count("n_accelerators", n_accelerators) / count("measured_on", measured_on))
    return frac * (1 - lost) ** max(0.0, n_doublings)
