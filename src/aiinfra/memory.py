"""Bytes: how fast memory delivers them, and how many weights, gradients, optimizer, activations and KV cache take.

For one device that holds everything; sharding over devices is the business of other modules. Bytes are exact: a
card sold as "80 GB" is compared in bytes, not in GB or GiB.
"""

from dataclasses import dataclass

from aiinfra import precision
from aiinfra.units import count, nearest, number

# optimizer -> values that it keeps for each parameter: Adam two moments, SGD with momentum one
OPTIMIZER_VALUES = {"adam": 2, "momentum": 1, "sgd": 0}
RECOMPUTATIONS = ("none", "selective", "full")


def dram_bytes_per_s(pin_bits_per_s, interface_bits, n_stacks=1):
    """Bandwidth of memory by construction: pins x bits per second of a pin / 8, in byte/s.

    Parameters
    ----------
    pin_bits_per_s : float      data rate of one pin, such as 6.4e9
    interface_bits : int        data pins of one stack: 1,024 of HBM to HBM3e; 32 of a GDDR chip
    n_stacks : int              stacks or chips beside the accelerator

    A peak: ignores refresh, turning the bus from reading to writing, and bits spent on error correction.

    >>> dram_bytes_per_s(6.4e9, 1024)
    819200000000.0
    """
    pins = count("interface_bits", interface_bits) * count("n_stacks", n_stacks)
    return pins * number("pin_bits_per_s", pin_bits_per_s) / 8


def built_bytes_per_s(accelerator):
    """Bandwidth of an accelerator's memory by construction, from the width and the rate of its pins, in byte/s.

    Datasheets print it rounded; ValueError where the catalogue does not know the width or the rate.

    >>> from aiinfra import accelerators
    >>> built_bytes_per_s(accelerators.get("A100 80GB SXM"))
    2039040000000.0
    """
    per_package = ("per package",) if accelerator.has("memory_interface", "per package") else ()
    width = int(accelerator.value("memory_interface", *per_package))
    return dram_bytes_per_s(8 * accelerator.value("memory_pin_rate"), width)


def read_s(n_bytes, capacity_bytes, bytes_per_s, link_bytes_per_s=None):
    """Time to read `n_bytes` once where only `capacity_bytes` fit beside the chip and the rest comes over a link.

    t = max(what fits / bandwidth, the rest / link): both flow at once, at best.

    Parameters
    ----------
    n_bytes, capacity_bytes, bytes_per_s : float
    link_bytes_per_s : float or None        one direction, from host memory; None: ValueError where something is left

    >>> read_s(140e9, 96e9, 4e12, 450e9) / read_s(140e9, 140e9, 4e12)
    2.7936507936507935
    """
    fits = min(number("n_bytes", n_bytes), number("capacity_bytes", capacity_bytes))
    seconds = fits / number("bytes_per_s", bytes_per_s, above=True)
    if n_bytes <= capacity_bytes:
        return seconds
    if link_bytes_per_s is None:
        raise ValueError(
            f"n_bytes must be at most capacity_bytes without a link, got {n_bytes!r} and {capacity_bytes!r}"
        )
    return max(seconds, (n_bytes - fits) / number("link_bytes_per_s", link_bytes_per_s, above=True))


def stack_bytes(n_dies, die_bits):
    """Capacity of one stack: dies on top of each other x bits of one die / 8. The base die holds no data.

    Memory makers give a die in Gbit (of 2^30 bits): 16 Gbit are 2 GiB.

    >>> stack_bytes(8, 16 * 2**30) / 2**30
    16.0
    """
    return count("n_dies", n_dies) * number("die_bits", die_bits) / 8


@dataclass(frozen=True)
class Level:
    """One level of the memory hierarchy of a whole accelerator; rate and latency are None where unknown."""

    name: str
    bytes: float
    bytes_per_s: float | None
    latency_s: float | None


def hierarchy(accelerator):
    """Registers, L1, L2 and memory of an accelerator, fastest first, as far as the catalogue knows them.

    The rate of L1 is SMs x bytes of a clock x clock; latencies are measured in clocks, and become seconds at the boost
    clock. What each SM has is added up, though no SM can reach another one's registers.

    >>> from aiinfra import accelerators
    >>> [level.name for level in hierarchy(accelerators.get("H100 SXM"))]
    ['registers', 'L1 and shared memory', 'L2', 'memory']
    """
    n_sms, clock_hz = accelerator.value("sm_count"), accelerator.clock_hz("vector units")

    def known(quantity, factor=1.0):
        return factor * accelerator.value(quantity) if accelerator.has(quantity) else None

    levels = (
        Level("registers", known("registers_per_sm", n_sms), None, None),
        Level(
            "L1 and shared memory",
            known("l1_per_sm", n_sms),
            known("l1_bytes_per_clock", n_sms * clock_hz),
            known("l1_latency", 1 / clock_hz),
        ),
        Level("L2", known("l2"), known("l2_bandwidth"), known("l2_latency", 1 / clock_hz)),
        Level(
            "memory", accelerator.memory_bytes, accelerator.memory_bytes_per_s, known("memory_latency", 1 / clock_hz)
        ),
    )
    return tuple(level for level in levels if level.bytes is not None)


@dataclass(frozen=True)
class TrainingState:
    """Bytes of everything that training keeps for its parameters from step to step; gradients until they are used."""

    weight_bytes: float
    gradient_bytes: float
    optimizer_bytes: float

    @property
    def total_bytes(self):
        return self.weight_bytes + self.gradient_bytes + self.optimizer_bytes


def weight_bytes(n_parameters, dtype="bf16"):
    """Bytes of weights: parameters x width of `dtype`. Ignores scales that quantized blocks have beside their values.

    >>> weight_bytes(68_976_648_192)
    137953296384.0
    """
    return number("n_parameters", n_parameters) * precision.get(dtype).bytes


def training_state(n_parameters, *, weights="bf16", gradients="bf16", optimizer="adam", state="fp32", master="fp32"):
    """Bytes of weights, gradients and optimizer, as a `TrainingState`.    [rajbhandari2020]

    The defaults are mixed-precision Adam, 16 bytes a parameter: 2 of weights, 2 of gradients, and 12 of optimizer
    (4 of master weights and 2 x 4 of moments). Gradients in fp32, as Megatron-LM adds them up, make 18; all in fp32
    without a master copy, 16 again.

    Parameters
    ----------
    n_parameters : float            all that are stored, idle experts too
    weights, gradients : str        dtypes of what the forward and backward pass read and write
    optimizer : str                 "adam", "momentum" or "sgd": two, one or no values for each parameter
    state : str                     dtype of those values
    master : str or None            dtype of the optimizer's own copy of the weights; None where it has none

    Ignores buckets and other temporary copies, such as those of a fused optimizer step.

    >>> training_state(7.5e9).total_bytes
    120000000000.0
    """
    if optimizer not in OPTIMIZER_VALUES:
        raise ValueError(f"optimizer {optimizer!r} is not known; {nearest(optimizer, OPTIMIZER_VALUES)}")
    copy_bytes = precision.get(master).bytes if master is not None else 0
    return TrainingState(
        weight_bytes=weight_bytes(n_parameters, weights),
        gradient_bytes=number("n_parameters", n_parameters) * precision.get(gradients).bytes,
        optimizer_bytes=n_parameters * (copy_bytes + OPTIMIZER_VALUES[optimizer] * precision.get(state).bytes),
    )


def activation_bytes_per_layer(
    seq_len, micro_batch, d_model, n_heads, *, recomputation="none", tp=1, sequence_parallel=False
):
    """Bytes that the forward pass of one GPT layer keeps for the backward pass: s b h (34 + 5 a s / h).

    Recomputation        bytes of a layer                       [korthikanti2022]
    none                 s b h (10 + 24/t + 5 a s / h t)
    selective            s b h (10 + 24/t): scores and weights of attention are computed again
    full                 2 s b h: the layer's input alone
    sequence parallelism divides the 10 by t, too (and here the input that full recomputation keeps)

    Parameters
    ----------
    seq_len, micro_batch, d_model, n_heads : int        s, b, h and a
    recomputation : str             "none", "selective" or "full"
    tp : int                        ranks that tensor parallelism divides the layer over, t; divides n_heads
    sequence_parallel : bool        divides norms and dropouts between them along the sequence

    Holds for a GPT of that paper: 16-bit activations, as many heads of keys as of queries, an MLP of width 4 h
    without a gate, dropout, and a kernel of attention that writes its scores. FlashAttention keeps about what
    "selective" keeps. Ignores the statistics of norms, embeddings, logits and loss.

    >>> activation_bytes_per_layer(2048, 4, 6144, 64) * 48 / 2**30
    316.5
    >>> activation_bytes_per_layer(2048, 4, 6144, 64, tp=8) * 48 / 2**30
    59.25
    """
    if recomputation not in RECOMPUTATIONS:
        raise ValueError(f"recomputation {recomputation!r} is not known; {nearest(recomputation, RECOMPUTATIONS)}")
    sbh = count("seq_len", seq_len) * count("micro_batch", micro_batch) * count("d_model", d_model)
    if count("n_heads", n_heads) % count("tp", tp):
        raise ValueError(f"tp must divide n_heads, got tp={tp}, n_heads={n_heads}")
    whole = tp if sequence_parallel else 1
    if recomputation == "full":
        return 2 * sbh / whole
    scores = 5 * n_heads * seq_len**2 * micro_batch / tp if recomputation == "none" else 0.0
    return sbh * (10 / whole + 24 / tp) + scores


def kv_cache_bytes(model, n_tokens, n_sequences=1, dtype="bf16"):
    """Bytes of the keys and values that decoding keeps: L x 2 K d for each token, K heads of width d.    [touvron2023b]

    Multi-head attention keeps all heads (K = H), grouped queries fewer, multi-query one. Latent attention keeps the
    latent and the rotary key instead: L x (d_latent + d_rope).    [deepseek2024]

    Parameters
    ----------
    model : models.Transformer
    n_tokens : int              tokens of one sequence, of prompt and answer
    n_sequences : int           sequences that are decoded together
    dtype : str                 of the cache, not of the weights

    Ignores blocks that are not full and scales of a quantized cache.

    >>> from aiinfra import models
    >>> kv_cache_bytes(models.get("Llama 2 70B"), 4096)
    1342177280
    """
    n_values = 2 * model.n_kv_heads * model.d_head
    if model.d_latent_kv:
        n_values = model.d_latent_kv + model.d_rope
    n_cached = count("n_tokens", n_tokens, 0) * count("n_sequences", n_sequences, 0)
    return model.n_layers * n_values * n_cached * precision.get(dtype).bytes
