"""2:4 structured sparsity: what it stores, what it costs in accuracy, and that a CPU gains no time from it.

Of every four neighbouring weights of a row two are zero. Matrix units that know this format skip them and so have
twice the peak; weights are dense until somebody prunes them, and trains on to repair the damage.

Source of the format and of the way to train for it: [mishra2021], https://arxiv.org/abs/2104.08378
"""

import statistics
import time
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch.nn.functional import cross_entropy

from aiinfra import precision
from aiinfra.units import count, number

# ---- the format


def keep_2_of_4(weight):
    """True for the two largest magnitudes in each group of four; of equal ones the first is kept.

    weight : tensor [..., inputs]       inputs a multiple of 4, as in `torch.nn.Linear.weight`
    """
    if weight.dim() == 0 or weight.shape[-1] % 4:
        raise ValueError(f"weight must have a multiple of 4 inputs (its last dimension), got {list(weight.shape)}")
    order = weight.detach().abs().reshape(-1, 4).argsort(dim=-1, descending=True, stable=True)
    keep = torch.zeros_like(order, dtype=torch.bool).scatter_(1, order[:, :2], True)
    return keep.reshape(weight.shape)


def keep_largest_half(weight):
    """True for the larger half of all magnitudes, wherever they stand: unstructured, which no unit can skip."""
    order = weight.detach().abs().flatten().argsort(descending=True, stable=True)
    keep = torch.zeros_like(order, dtype=torch.bool)
    keep[order[: (weight.numel() + 1) // 2]] = True
    return keep.reshape(weight.shape)


def prune_2_of_4(weight):
    """A copy of `weight` with the two smallest magnitudes in each group of four inputs set to zero.

    >>> prune_2_of_4(torch.tensor([[1.0, -4.0, 3.0, 2.0]]))
    tensor([[ 0., -4.,  3.,  0.]])
    """
    return weight.detach().where(keep_2_of_4(weight), 0)


def is_2_of_4(weight):
    """Whether at most two of every four neighbouring inputs differ from zero.

    >>> is_2_of_4(torch.tensor([[0.0, 1.0, 2.0, 0.0]])), is_2_of_4(torch.ones(1, 4))
    (True, False)
    """
    return bool(weight.shape[-1] % 4 == 0 and (weight.reshape(-1, 4).count_nonzero(dim=-1) <= 2).all())


def bytes_2_of_4(n_weights, dtype="fp16"):
    """Bytes of `n_weights` weights in 2:4: half of the values, and two bits for the place of each kept one.

    In fp16 that is 9/16 of dense, not 1/2.

    >>> bytes_2_of_4(16) / (16 * 2)
    0.5625
    """
    n_kept = number("n_weights", n_weights) / 2
    return n_kept * precision.get(dtype).bytes + n_kept * 2 / 8


# ---- what it costs in accuracy

_HEIGHT, _WIDTH, _HIDDEN = 9, 8, 64  # of a picture in pixels; neurons in each of the two hidden layers
_NOISE = 0.3  # standard deviation, beside pixels of 0 and 1

_GLYPHS = """
.###. ..#.. .###. .###. ...#. ##### ..##. ##### .###. .###.
#...# .##.. #...# #...# ..##. #.... .#... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ..##. ..##. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. .#... ....# ##### ....# #...# .#... #...# ....#
#...# ..#.. #.... #...# ...#. #...# #...# .#... #...# ...#.
.###. .###. ##### .###. ...#. .###. .###. .#... .###. .##..
"""


@dataclass(frozen=True)
class PruningResult:
    """Share of 10,000 new pictures that a small network recognises, 0 to 1.

    Attributes
    ----------
    dense : float               as trained
    half_of_all : float         without the smaller half of each layer's weights, wherever they stand
    pruned_2_of_4 : float       without two of every four weights
    fine_tuned_2_of_4 : float   the same zeros, after training the other weights on
    """

    dense: float
    half_of_all: float
    pruned_2_of_4: float
    fine_tuned_2_of_4: float


def pruning_experiment(seed=0):
    """Train a network to read noisy digits, prune all of its layers, train it on: a `PruningResult`.

    Three layers without biases, 72-64-64-10, 8,000 pictures, 800 steps and 400 more with half of the weights held at
    zero: two seconds on one thread. A network this small has few weights to spare; large ones lose less, and
    `mishra2021` repairs them by repeating the whole training. In fp64, so that other vector units print the same.
    """
    threads_before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        generator = torch.Generator().manual_seed(seed)
        train_set, test_set = _digits(8_000, generator), _digits(10_000, generator)
        sizes = (_HEIGHT * _WIDTH, _HIDDEN, _HIDDEN, 10)
        start = [_normal((outputs, inputs), generator) / inputs**0.5 for inputs, outputs in pairwise(sizes)]
        everything = [torch.ones_like(weight, dtype=torch.bool) for weight in start]
        dense = _train(start, everything, train_set, 800, 3e-3, generator)
        half = [weight * keep_largest_half(weight) for weight in dense]
        pruned = [prune_2_of_4(weight) for weight in dense]
        keeps = [keep_2_of_4(weight) for weight in dense]
        tuned = _train(pruned, keeps, train_set, 400, 1e-3, generator)
        return PruningResult(*(_accuracy(weights, test_set) for weights in (dense, half, pruned, tuned)))
    finally:
        torch.set_num_threads(threads_before)


def _normal(shape, generator):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _digits(n, generator):
    """`n` pictures [n, pixels] of digits at random places, with noise, and the digits [n]."""
    rows = [line.split() for line in _GLYPHS.split("\n") if line]
    glyphs = torch.tensor([[[pixel == "#" for pixel in row[digit]] for row in rows] for digit in range(10)])
    digits = torch.randint(10, (n,), generator=generator)
    tops = torch.randint(_HEIGHT - 6, (n,), generator=generator)
    lefts = torch.randint(_WIDTH - 4, (n,), generator=generator)
    pictures = _NOISE * _normal((n, _HEIGHT, _WIDTH), generator)
    for top in range(_HEIGHT - 6):
        for left in range(_WIDTH - 4):
            here = (tops == top) & (lefts == left)
            pictures[here, top : top + 7, left : left + 5] += glyphs[digits[here]]
    return pictures.reshape(n, -1), digits


def _scores(weights, pictures):
    for weight in weights[:-1]:
        pictures = torch.relu(pictures @ weight.T)
    return pictures @ weights[-1].T


def _accuracy(weights, data):
    pictures, digits = data
    return (_scores(weights, pictures).argmax(dim=1) == digits).double().mean().item()


def _train(weights, keeps, data, n_steps, learning_rate, generator):
    """Weights after `n_steps` of Adam on batches of 256; where `keeps` is False they are held at zero."""
    weights = [weight.clone().requires_grad_() for weight in weights]
    optimizer = torch.optim.Adam(weights, lr=learning_rate)
    pictures, digits = data
    for _ in range(n_steps):
        batch = torch.randint(len(digits), (256,), generator=generator)
        optimizer.zero_grad()
        cross_entropy(_scores(weights, pictures[batch]), digits[batch]).backward()
        optimizer.step()
        with torch.no_grad():
            for weight, keep in zip(weights, keeps, strict=True):
                weight *= keep
    return [weight.detach() for weight in weights]


# ---- what it gains in time


def dense_and_pruned_matmul_s(n=1024, repeats=9):
    """Median seconds on the CPU of x @ W.T for a dense n x n matrix W in fp32, and for the same one pruned 2:4.

    The two are the same: a multiplication by zero takes as long as any other. Only a unit that is given half of the
    values and their places can skip them, such as the tensor cores of NVIDIA's GPUs since Ampere.

    n : int             a multiple of 4
    repeats : int       timings of each, in turns, so that a disturbance hits both
    """
    generator = torch.Generator().manual_seed(0)
    x, dense = (torch.randn(count("n", n), n, generator=generator) for _ in range(2))
    pruned = prune_2_of_4(dense)
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(count("repeats", repeats) + 1):
        for weight, taken in zip((dense, pruned), seconds, strict=True):
            start = time.perf_counter()
            x @ weight.T
            taken.append(time.perf_counter() - start)
    return tuple(statistics.median(taken[1:]) for taken in seconds)  # the first warms up
