"""Time and money of a training run, from its FLOP; and how large a run ought to be.

C = 6 N D / (n x peak x MFU): FLOP of the run over the rate of the machines.
"""

import math

from aiinfra.units import count, number


def training_s(model_flop, n_accelerators, dense_peak_flop_per_s, mfu_frac):
    """Time of a training run in seconds: t = C / (n x peak x MFU).

    Parameters
    ----------
    model_flop : float              C of the whole run: 6 N D, or tokens x `flops.training_flop_per_token`
    n_accelerators : int
    dense_peak_flop_per_s : float   of one accelerator
    mfu_frac : float                above 0, at most 1; the share of the peak that is reached

    Ignores restarts, evaluation and waiting, unless the MFU was measured over them.

    >>> training_s(624e12, 1, 312e12, 0.5)
    4.0
    """
    flop = number("model_flop", model_flop)
    peak = number("dense_peak_flop_per_s", dense_peak_flop_per_s, above=True)
    frac = number("mfu_frac", mfu_frac, above=True)
    if frac > 1:
        raise ValueError(f"mfu_frac must be at most 1 (a share, not percent), got {mfu_frac!r}")
    return flop / (count("n_accelerators", n_accelerators) * peak * frac)


def training_days(model_flop, n_accelerators, dense_peak_flop_per_s, mfu_frac):
    """`training_s` in days.

    >>> from aiinfra import flops
    >>> round(training_days(flops.approximate_training_flop(70e9, 2e12), 2048, 312e12, 0.45), 1)
    33.8
    """
    return training_s(model_flop, n_accelerators, dense_peak_flop_per_s, mfu_frac) / 86400


def accelerator_hours(model_flop, dense_peak_flop_per_s, mfu_frac):
    """Accelerator-hours of a training run, however many accelerators share it: C / (peak x MFU) / 3600.

    >>> from aiinfra import flops
    >>> round(accelerator_hours(flops.approximate_training_flop(70e9, 2e12), 312e12, 0.435))
    1719226
    """
    return training_s(model_flop, 1, dense_peak_flop_per_s, mfu_frac) / 3600


def training_usd(model_flop, dense_peak_flop_per_s, mfu_frac, usd_per_accelerator_hour):
    """Rent of a training run in US dollars: accelerator-hours x price. Ignores storage, network and failed runs.

    >>> from aiinfra import flops
    >>> round(training_usd(flops.approximate_training_flop(70e9, 2e12), 312e12, 0.435, 2.0) / 1e6, 2)
    3.44
    """
    price = number("usd_per_accelerator_hour", usd_per_accelerator_hour)
    return accelerator_hours(model_flop, dense_peak_flop_per_s, mfu_frac) * price


def unbeaten(plans):
    """Indices of the plans that no other one beats: none is at least as fast and as cheap, and better in one.

    Time and money are two measures. A plan that loses in both can be dropped without knowing what a day is worth; to
    choose among the rest, that must be known.

    Parameters
    ----------
    plans : list of (time, money)     in any units, the same for all

    >>> unbeaten([(10, 100), (5, 200), (12, 150)])
    [0, 1]
    """
    plans = [tuple(number(f"plans[{index}]", value) for value in plan) for index, plan in enumerate(plans)]

    def beaten(plan):
        return any(other != plan and all(a <= b for a, b in zip(other, plan, strict=True)) for other in plans)

    return [index for index, plan in enumerate(plans) if not beaten(plan)]


def chinchilla_tokens(n_parameters, tokens_per_parameter=20.0):
    """Tokens that make the best model of this size for its training FLOP: about 20 a parameter.  [hoffmann2022]

    A rule for training alone: a model that will be used much is worth training on more.

    >>> chinchilla_tokens(70e9)
    1400000000000.0
    """
    ratio = number("tokens_per_parameter", tokens_per_parameter, above=True)
    return number("n_parameters", n_parameters, above=True) * ratio


def chinchilla_parameters(model_flop, tokens_per_parameter=20.0):
    """Size of the best model for a budget of training FLOP: N = sqrt(C / 6r) at r tokens a parameter. [hoffmann2022]

    >>> round(chinchilla_parameters(6 * 70e9 * 1.4e12) / 1e9, 3)
    70.0
    """
    flop = number("model_flop", model_flop, above=True)
    return math.sqrt(flop / (6 * number("tokens_per_parameter", tokens_per_parameter, above=True)))
