"""The roofline: FLOP and bytes of an operator, and the time that it takes at least on an accelerator.

Bytes are those that must cross the memory bus if nothing stays in a cache from one operator to the next and nothing
crosses twice within one. [williams2009]
"""

import math
from dataclasses import dataclass

from aiinfra import precision
from aiinfra.flops import matmul_flop
from aiinfra.units import count, number


@dataclass(frozen=True)
class Work:
    """What an operator does: `flop` operations and `bytes` read and written. Operators add up with +."""

    flop: float
    bytes: float

    def __add__(self, other):
        return Work(self.flop + other.flop, self.bytes + other.bytes)

    @property
    def flop_per_byte(self):
        """Arithmetic intensity; infinite where nothing crosses the bus."""
        return self.flop / self.bytes if self.bytes else math.inf


def matmul(m, k, n, dtype="bf16", batch=1):
    """`batch` matmuls of (m, k) by (k, n): 2 m k n FLOP each; reads both and writes the product, in `dtype`.

    A square one of width n in a 2-byte dtype has n / 3 FLOP/byte.

    >>> matmul(4096, 4096, 4096).flop_per_byte
    1365.3333333333333
    """
    flop, n_values = matmul_flop(m, k, n), m * k + k * n + m * n
    return Work(count("batch", batch) * flop, batch * n_values * precision.get(dtype).bytes)


def gemv(m, k, dtype="bf16"):
    """An (m, k) matrix times a vector, as in decoding one token: each weight is read for one multiply-add.

    >>> round(gemv(8192, 8192).flop_per_byte, 3)
    1.0
    """
    return matmul(m, k, 1, dtype)


def elementwise(n_elements, flop_per_element=1, n_read=1, n_written=1, dtype="bf16"):
    """An operator on `n_read` tensors of `n_elements` that writes `n_written`, such as an add (2 and 1)."""
    n_elements, flop = number("n_elements", n_elements), number("flop_per_element", flop_per_element)
    n_moved = count("n_read", n_read, 0) + count("n_written", n_written, 0)
    return Work(flop * n_elements, n_moved * n_elements * precision.get(dtype).bytes)


def elementwise_chain(n_elements, n_operators, *, fused, dtype="bf16"):
    """`n_operators` of one input and one output in a row: each reads and writes memory, or fused into one, once.

    >>> apart, fused = (elementwise_chain(1e6, 4, fused=fused) for fused in (False, True))
    >>> apart.flop == fused.flop, apart.bytes / fused.bytes
    (True, 4.0)
    """
    n_operators = count("n_operators", n_operators)
    if fused:
        return elementwise(n_elements, n_operators, dtype=dtype)
    one = elementwise(n_elements, dtype=dtype)
    return Work(n_operators * one.flop, n_operators * one.bytes)


def softmax(n_rows, n_columns, dtype="bf16"):
    """Softmax along rows that fit on the chip: reads and writes once; maximum, subtract, exp, sum, divide: 5 FLOP.

    An exp is counted as one, as each of the other steps; kernels of several passes read more often.
    """
    return elementwise(count("n_rows", n_rows) * count("n_columns", n_columns), 5, dtype=dtype)


def layer_norm(n_rows, n_columns, dtype="bf16"):
    """Layer norm along rows that fit on the chip: reads and writes once; 7 FLOP for each element.

    Mean 1, subtract 1, square and sum 2, divide by the deviation 1, scale and shift 2. Ignores the bytes of scale and
    shift, one row each.
    """
    return elementwise(count("n_rows", n_rows) * count("n_columns", n_columns), 7, dtype=dtype)


def attention(seq_len, n_heads, d_head, *, fused, n_kv_heads=None, batch=1, dtype="bf16"):
    """Attention between projections, over whole sequences of S tokens.    [dao2022]

    Naive: two batched matmuls and a softmax between them; scores are written, read, written as weights and read
    again: 4 S^2 values a head. Fused (FlashAttention): reads queries, keys and values and writes the result once,
    with the same FLOP.

    Parameters
    ----------
    seq_len, n_heads, d_head, batch : int
    fused : bool
    n_kv_heads : int or None    heads of keys and values; n_heads where None. The naive one repeats them in memory

    Counts all S x S pairs. Ignores mask and dropout, and that a fused kernel reads keys and values once for every
    block of queries where the cache does not hold them.

    >>> naive, fused = (attention(4096, 32, 128, fused=fused) for fused in (False, True))
    >>> naive.flop == fused.flop, round(naive.bytes / fused.bytes)
    (True, 33)
    """
    s, heads = count("seq_len", seq_len), count("n_heads", n_heads) * count("batch", batch)
    n_kv_heads = n_heads if n_kv_heads is None else count("n_kv_heads", n_kv_heads)
    if n_heads % n_kv_heads:
        raise ValueError(f"n_kv_heads must divide n_heads, got {n_kv_heads} and {n_heads}")
    apart = matmul(s, d_head, s, dtype, heads) + softmax(heads * s, s, dtype) + matmul(s, s, d_head, dtype, heads)
    if not fused:
        return apart
    n_values = 2 * (n_heads + n_kv_heads) * batch * s * d_head
    return Work(apart.flop, n_values * precision.get(dtype).bytes)


def adam_step(n_parameters, dtype="bf16"):
    """One fused step of mixed-precision Adam: reads gradient, master weight and both moments, writes all but the
    gradient, and the weight in `dtype`: 2 + 12 + 12 + 2 bytes of a parameter, and 14 FLOP.

    First moment 3, second moment 4, bias corrections 2, root, sum and quotient 3, step 2; no weight decay.

    >>> adam_step(1).bytes, adam_step(1).flop_per_byte
    (28.0, 0.5)
    """
    n_parameters = number("n_parameters", n_parameters)
    return Work(14 * n_parameters, n_parameters * (2 * precision.get(dtype).bytes + 2 * 3 * 4))


def embedding(n_tokens, d_model, dtype="bf16"):
    """Looking up embeddings: reads and writes a row for each token, no FLOP. Ignores the 8 bytes of its number."""
    return elementwise(count("n_tokens", n_tokens) * count("d_model", d_model), 0, dtype=dtype)


def ridge_flop_per_byte(accelerator, dtype="bf16"):
    """Intensity at which dense matmuls of `dtype` turn from bound by memory to bound by compute: peak / bandwidth.

    >>> from aiinfra import accelerators
    >>> round(ridge_flop_per_byte(accelerators.get("A100 80GB SXM")))
    153
    """
    return accelerator.matmul_flop_per_s(dtype) / accelerator.memory_bytes_per_s


def time_s(work, peak_flop_per_s, bytes_per_s, *, overlap_frac=1.0, launch_s=0.0):
    """Least time of an operator in seconds: the longer one of computing and moving bytes.    [williams2009]

    t = max(FLOP / peak, bytes / bandwidth)

    Too kind: it assumes that both overlap in full, that both peaks can be had, and that a launch costs nothing. The
    two options take the first and the last back:

    t = launch + max(c, m) + (1 - overlap) min(c, m)    with c = FLOP / peak, m = bytes / bandwidth

    Parameters
    ----------
    work : Work
    peak_flop_per_s, bytes_per_s : float
    overlap_frac : float        share of the shorter one that hides behind the longer; 0 does one after the other
    launch_s : float            what starting a kernel costs before its first byte

    >>> time_s(Work(312e12, 0.5e12), 312e12, 2e12), time_s(Work(312e12, 0.5e12), 312e12, 2e12, overlap_frac=0.0)
    (1.0, 1.25)
    """
    compute_s = number("flop", work.flop) / number("peak_flop_per_s", peak_flop_per_s, above=True)
    memory_s = number("bytes", work.bytes) / number("bytes_per_s", bytes_per_s, above=True)
    overlap_frac = number("overlap_frac", overlap_frac)
    if overlap_frac > 1:
        raise ValueError(f"overlap_frac must be at most 1, got {overlap_frac!r}")
    shorter, longer = sorted((compute_s, memory_s))
    return number("launch_s", launch_s) + longer + (1 - overlap_frac) * shorter


def rate_flop_per_s(flop_per_byte, peak_flop_per_s, bytes_per_s):
    """The roofline itself: the most FLOP/s at an intensity, min(peak, intensity x bandwidth)."""
    peak = number("peak_flop_per_s", peak_flop_per_s, above=True)
    return min(peak, number("flop_per_byte", flop_per_byte) * number("bytes_per_s", bytes_per_s, above=True))


def compute_bound_batch(k, n, ridge, dtype="bf16"):
    """Smallest batch at which a (k, n) weight's matmul is compute-bound; infinite for a matrix too small for any.

    2 b k n / (w (b k + k n + b n)) >= ridge, so b >= ridge w k n / (2 k n - ridge w (k + n)), w bytes a value. For
    large matrices of a 2-byte dtype it is the ridge itself.

    Parameters
    ----------
    k, n : int          shape of the weight
    ridge : float       in FLOP/byte, of `ridge_flop_per_byte`

    >>> compute_bound_batch(8192, 28672, 153.0), compute_bound_batch(128, 128, 153.0)
    (157, inf)
    """
    moved = number("ridge", ridge) * precision.get(dtype).bytes
    product = count("k", k) * count("n", n)
    slack = 2 * product - moved * (k + n)
    return max(1, math.ceil(moved * product / slack)) if slack > 0 else math.inf


def tiled_matmul_bytes(m, k, n, tile_m, tile_n, dtype="bf16"):
    """Bytes that the thread blocks of a tiled matmul read and write, from whichever level serves them.

    Each tile of the product reads its own tile_m rows and tile_n columns in full: w k (tile_m + tile_n) bytes, and is
    written once. Every tile of the row reads the same rows again: an L2 cache serves those, and its bandwidth is a
    second roof.

    >>> work = Work(matmul(8192, 8192, 8192).flop, tiled_matmul_bytes(8192, 8192, 8192, 128, 128))
    >>> round(work.flop_per_byte)
    64
    """
    n_read = n_tiles(m, n, tile_m, tile_n) * count("k", k) * (tile_m + tile_n)
    return (n_read + m * n) * precision.get(dtype).bytes


def tile_efficiency(m, n, tile_m, tile_n):
    """Share of an (m, n) product in the whole tiles that cover it; the rest of the last tiles is computed in vain.

    >>> tile_efficiency(257, 128, 256, 128)
    0.501953125
    """
    return m * n / (n_tiles(m, n, tile_m, tile_n) * tile_m * tile_n)


def n_tiles(m, n, tile_m, tile_n):
    """Tiles of tile_m by tile_n that cover an (m, n) product."""
    tile_m, tile_n = count("tile_m", tile_m), count("tile_n", tile_n)
    return -(-count("m", m) // tile_m) * -(-count("n", n) // tile_n)


def wave_efficiency(m, n, tile_m, tile_n, n_sms):
    """Share of a matmul's time that computes something wanted: tile and wave quantization.    [nvidia-matmul-guide]

    Tiles run in waves of one a streaming multiprocessor; the last wave takes as long as a full one:
    m n / (waves x n_sms x tile_m x tile_n).

    Parameters
    ----------
    m, n : int                  shape of the product
    tile_m, tile_n : int        shape of the tile that one thread block computes, such as 256 by 128
    n_sms : int                 streaming multiprocessors

    Ignores kernels that divide the sum between blocks (split-K, stream-K), two blocks on one multiprocessor, and
    that libraries choose among tiles by the shape.

    >>> wave_efficiency(2304, 1536, 256, 128, 108), round(wave_efficiency(2304, 1537, 256, 128, 108), 3)
    (1.0, 0.5)
    """
    n_waves = -(-n_tiles(m, n, tile_m, tile_n) // count("n_sms", n_sms))
    return m * n / (n_waves * n_sms * tile_m * tile_n)
