"""A small transformer, really trained: its FLOP, counted and by formula, its rate, and where its time goes."""

import statistics
import time
from collections import Counter
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from aiinfra import flops
from aiinfra.measure import device as devices
from aiinfra.measure.transformer import PlainTransformer
from aiinfra.units import count, format_flop_per_s, number

PARTS = ("matmuls", "optimizer", "everything else")
_LEARNING_RATE = 3e-3
_MATMULS = ("mm", "bmm", "addmm")
_OPTIMIZER = ("lerp_", "addcmul_", "addcdiv_", "sqrt", "mul_")  # the network itself has none of them


@dataclass(frozen=True, repr=False)
class Training:
    """What one short training run did.

    losses              of each step, in nats a token
    step_s              seconds of each timed step: forward, backward and optimizer
    yardstick_s         seconds of the yardstick, timed after each step; empty where none was given
    n_tokens            of one step
    counted_flop        of one step, by PyTorch's counter, all S x S scores
    formula_flop        of one step, by `flops.training_flop_per_token`
    parts               part of the step -> its share of the time
    matmuls_alone_s     seconds of the step's matmuls when they are run alone, one after another
    """

    losses: tuple[float, ...]
    step_s: tuple[float, ...]
    yardstick_s: tuple[float, ...]
    n_tokens: int
    counted_flop: int
    formula_flop: int
    parts: dict[str, float]
    matmuls_alone_s: float
    about: dict

    @property
    def flop_per_s(self):
        """Model FLOP of a step over its median time."""
        return self.formula_flop / statistics.median(self.step_s)

    def __repr__(self):
        median_ms = statistics.median(self.step_s) * 1e3
        return (
            f"{len(self.step_s)} steps of {self.n_tokens} tokens, median {median_ms:.0f} ms, "
            f"{format_flop_per_s(self.flop_per_s, 3)}; loss {self.losses[0]:.2f} to {self.losses[-1]:.2f}"
        )


def train(model, seq_len, n_sequences, budget_s=5.0, *, yardstick=None, device=None):
    """Train `model` in fp32 on made-up sequences that count up, for about `budget_s` seconds: a `Training`.

    The first step, in which libraries load, is counted by PyTorch's counter and not timed. Then timed steps, the same
    matmuls alone, the yardstick, and steps whose operators are timed follow each other in turns, so that what disturbs
    the machine disturbs all of them.

    Parameters
    ----------
    model : models.Transformer      a small one: its weights, gradients and Adam's moments must fit the memory
    seq_len, n_sequences : int      of one step
    budget_s : float                at least two steps are timed
    yardstick : callable or None    called after each timed step; its time is taken
    device : str                    "cpu" or "cuda"; the GPU where there is one unless given

    Raises ValueError for an argument that makes no sense.
    """
    seq_len, n_sequences = count("seq_len", seq_len), count("n_sequences", n_sequences)
    budget_s = number("budget_s", budget_s, above=True)
    formula = flops.training_flop_per_token(model, seq_len) * seq_len * n_sequences
    device = devices.get(device)
    with torch.random.fork_rng():
        step, watch = _Step(model, seq_len, n_sequences, device), Watch(device)
        with FlopCounterMode(display=False) as counter:
            losses = [step()]
        with watch:
            losses.append(step())
        seconds = _in_turns(step, watch, losses, yardstick, budget_s)
    with devices.threads() as n_threads:
        about = devices.about(device, n_threads)
    return Training(
        losses=tuple(losses),
        step_s=tuple(seconds["step"]),
        yardstick_s=tuple(seconds["yardstick"]),
        n_tokens=seq_len * n_sequences,
        counted_flop=counter.get_total_flops(),
        formula_flop=formula,
        parts=watch.parts(),
        matmuls_alone_s=statistics.median(seconds["alone"]),
        about=about,
    )


def _in_turns(step, watch, losses, yardstick, budget_s):
    """Seconds of steps, of their matmuls alone and of the yardstick; between them, steps that are watched."""
    matmuls = watch.matmuls_alone()
    seconds: dict[str, list[float]] = {"step": [], "alone": [], "yardstick": []}
    deadline = time.perf_counter() + budget_s
    while len(seconds["step"]) < 2 or time.perf_counter() < deadline:
        seconds["step"].append(_seconds(lambda: losses.append(step()), step.device))
        seconds["alone"].append(_seconds(matmuls, step.device))
        if yardstick:
            seconds["yardstick"].append(_seconds(yardstick, step.device))
        with watch:
            losses.append(step())
    return seconds


def _seconds(function, device):
    devices.wait(device)
    start = time.perf_counter()
    function()
    devices.wait(device)
    return time.perf_counter() - start


class _Step:
    """One step of training, to be called again and again."""

    def __init__(self, model, seq_len, n_sequences, device):
        self.shape, self.vocab_size, self.device = (n_sequences, seq_len + 1), model.vocab_size, device
        self.generator = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        with torch.device(device):
            self.network = PlainTransformer(model)
        for embedding in (self.network.tokens, self.network.positions):
            if embedding is not None:
                torch.nn.init.normal_(embedding.weight, std=0.02)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=_LEARNING_RATE)

    def __call__(self):
        """Forward, backward, optimizer; returns the loss."""
        ids_BS = self._sequences()
        logits_BSV = self.network(ids_BS[:, :-1])
        loss = cross_entropy(logits_BSV.flatten(0, 1), ids_BS[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def _sequences(self):
        """Sequences that count up from a random token: after each token follows the next one."""
        first = torch.randint(self.vocab_size, (self.shape[0], 1), generator=self.generator)
        return ((first + torch.arange(self.shape[1])) % self.vocab_size).to(self.device)


class Watch(TorchDispatchMode):
    """Inside `with Watch(device)`, takes the time of every operator that runs, and the shapes of the matmuls.

    A GPU is waited for after each operator, which makes the program slower; the shares stay about right.
    """

    def __init__(self, device):
        super().__init__()
        self.device = device
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.products: Counter = Counter()  # shapes of both operands -> how often

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        devices.wait(self.device)
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        devices.wait(self.device)
        name = func.overloadpacket.__name__
        self.seconds[_part(name)] += time.perf_counter() - start
        if name in _MATMULS:
            self.products[tuple(tuple(operand.shape) for operand in args[-2:])] += 1
        return result

    def parts(self):
        """Part of what ran -> its share of the time."""
        total = sum(self.seconds.values())
        return {part: self.seconds[part] / total for part in PARTS}

    def matmuls_alone(self):
        """A function that runs the matmuls that were seen, with random operands, and nothing else."""
        products = [
            (torch.randn(a, device=self.device), torch.randn(b, device=self.device), n_times)
            for (a, b), n_times in self.products.items()
        ]

        def run():
            for a, b, n_times in products:
                for _ in range(n_times):
                    a @ b

        return run


def _part(operator):
    """Which of PARTS an operator belongs to."""
    if operator in _MATMULS:
        return PARTS[0]
    return PARTS[1] if operator in _OPTIMIZER or "foreach" in operator or "adam" in operator else PARTS[2]
