"""A training loop that waits for its data, or does not: PyTorch's DataLoader with a slow data set, measured."""

import itertools
import statistics
import time
import warnings

import torch
from torch.utils.data import DataLoader, Dataset

from aiinfra.units import count, number


class SlowData(Dataset):
    """`n_batches` batches of which each takes `load_s` seconds to prepare, as reading and decoding files would."""

    def __init__(self, n_batches, load_s):
        self.n_batches, self.load_s = count("n_batches", n_batches), number("load_s", load_s)

    def __len__(self):
        return self.n_batches

    def __getitem__(self, index):
        time.sleep(self.load_s)
        return torch.zeros(1)


def fed_steps_s(compute_s, load_s, n_workers, n_steps=20):
    """Seconds of each step of a loop that takes a batch and then computes for `compute_s`.

    Computing is waiting here, as the CPU waits for an accelerator: so this measures the loader and nothing else, on
    any machine. The first steps, in which the workers start and fill their queues, are left out.

    Parameters
    ----------
    compute_s : float       time of a step on the accelerator
    load_s : float          time in which one worker prepares one batch
    n_workers : int         processes of the loader; 0 loads in the program itself
    n_steps : int           that count
    """
    compute_s, n_workers = number("compute_s", compute_s), count("n_workers", n_workers, 0)
    n_skipped = 2 * max(1, n_workers) + 1
    data = SlowData(count("n_steps", n_steps) + n_skipped, load_s)
    ends = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than cores: these only wait
        for _ in DataLoader(data, batch_size=None, num_workers=n_workers):
            time.sleep(compute_s)
            ends.append(time.perf_counter())
    return [end - begin for begin, end in itertools.pairwise(ends)][n_skipped - 1 :]


def fed_step_s(compute_s, load_s, n_workers, n_steps=20):
    """Mean of `fed_steps_s`: workers hand over in bunches, so that a median would miss the waiting."""
    return statistics.fmean(fed_steps_s(compute_s, load_s, n_workers, n_steps))
