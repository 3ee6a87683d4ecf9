# %% [markdown]
# # Lab: why is the chip waiting?
#
# **Question.** Computing is fast and reading is slow. For which operators does that matter, and by how much?
#
# **You will** build a memory's bandwidth from its pins, count the FLOP and the bytes of operators, predict the time of a
# layer, find the batch at which a matmul turns compute-bound, and write the softmax that makes FlashAttention possible.
# Then you measure: the bandwidth of this machine, its roofline, the bytes of three attentions, and what a compiler saves.
#
# **Time.** 60 to 90 minutes. **You need** a CPU; a C++ compiler for one of the measurements. Read the chapter
# [Why is the chip waiting?](../book/hbm.md) first, or come back to it when a check sends you there.

# %%
import math
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from aiinfra import accelerators, charts, models, roofline, transformer_layer
from aiinfra.checks import check
from aiinfra.explorers.hbm import fusion, roofline_explorer
from aiinfra.measure import record
from aiinfra.measure.attention import fused_attention, naive_attention, tiled_attention
from aiinfra.measure.bandwidth import memory_bandwidth
from aiinfra.measure.best_matmul import best_matmul
from aiinfra.measure.fusion import CompilerMissing, bias_gelu_residual, compile_and_count
from aiinfra.measure.operators import measure_operators
from aiinfra.measure.traffic import MemoryTraffic
from aiinfra.predictions import predict, reveal, show_calibration

plt.rcParams.update(charts.MATPLOTLIB_STYLE)
h100 = accelerators.get("H100 SXM")

# %% [markdown]
# ## Predict first
#
# Four questions, before you compute anything. Replace each `...` by two numbers, `low=` and `high=`, that you are 90 %
# sure hold the answer between them.

# %% tags=["prediction"]
predict(
    "hbm-decode-share",
    "Share of an H100's BF16 peak that the matmuls of decoding one sequence reach at most, in percent",
    # BEGIN ANSWER
    low=0.1,
    high=2,
    # END ANSWER
)

# %% tags=["prediction"]
predict(
    "hbm-batch",
    "Batch at which a matmul with 8,192 x 28,672 BF16 weights turns compute-bound on an H100 SXM",
    # BEGIN ANSWER
    low=150,
    high=400,
    # END ANSWER
)

# %% tags=["prediction"]
predict(
    "hbm-attention-bytes",
    "How many times fewer bytes attention moves when it is fused: 4,096 tokens, heads of 128",
    # BEGIN ANSWER
    low=10,
    high=60,
    # END ANSWER
)

# %% tags=["prediction"]
predict(
    "hbm-triad",
    "Gigabytes per second that this machine's memory delivers to the triad a = b + 3 c, which moves three arrays",
    # BEGIN ANSWER
    low=8,
    high=80,
    # END ANSWER
)

# %% [markdown]
# ## Task 1: bandwidth from pins
#
# A chip has `n_stacks` stacks of memory (or as many GDDR chips) around it. Each has `interface_bits` data pins, and each
# pin carries `pin_gbit_per_s` gigabits in a second. Return the bandwidth of all of them together in **bytes** per second.


# %% tags=["answer"] task="bandwidth_from_pins"
def bandwidth_from_pins(pin_gbit_per_s, interface_bits, n_stacks):
    """Bandwidth of all stacks together, in bytes/s."""
    # BEGIN ANSWER
    bits_per_s = pin_gbit_per_s * 1e9 * interface_bits * n_stacks
    return bits_per_s / 8
    # END ANSWER


# %%
check("hbm", bandwidth_from_pins)

# %% [markdown]
# ## Task 2: the intensity of three operators
#
# All values take `value_bytes` bytes. Nothing stays in a cache between operators, and each operator reads and writes each
# of its tensors once. Return a list of three intensities, in FLOP per byte:
#
# 1. a matmul of an `m` x `k` matrix by a `k` x `n` matrix, a multiply-add being two FLOP;
# 2. a softmax over the rows of its `m` x `n` product, 5 FLOP for each value;
# 3. the matmul again, but with a single row: a vector of `k` by the `k` x `n` matrix.


# %% tags=["answer"] task="intensities"
def intensities(m, k, n, value_bytes):
    """FLOP per byte of [matmul, softmax of its product, vector times matrix]."""

    # BEGIN ANSWER
    def matmul(rows):
        return 2 * rows * k * n / (value_bytes * (rows * k + k * n + rows * n))

    softmax = 5 * m * n / (value_bytes * 2 * m * n)
    return [matmul(m), softmax, matmul(1)]
    # END ANSWER


# %%
check("hbm", intensities)

# %% [markdown]
# Now move an operator over the roof. Which of the controls moves a dot to the right? Which one moves the roof?

# %%
roofline_explorer()

# %% [markdown]
# The first dot is your third operator: the matmul of decoding one token.

# %%
ridge = roofline.ridge_flop_per_byte(h100)
reveal("hbm-decode-share", 100 * roofline.gemv(8192, 8192).flop_per_byte / ridge)

# %% [markdown]
# ## Task 3: the time of a transformer layer
#
# `operators` is a list of dicts, in the order in which they run, one after the other. A matmul has `kind` "matmul" and
# its `m`, `k`, `n`. An elementwise operator has `kind` "elementwise", `n` values in each of its tensors, `flop_per_value`,
# and how many tensors it reads and writes, `n_read` and `n_written`. All values take `value_bytes` bytes.
#
# Return the least time of the whole list in seconds, by the roofline: computing and moving bytes overlap within one
# operator, and not between operators. `peak_flop_per_s` holds for all of them.


# %% tags=["answer"] task="layer_s"
def layer_s(operators, value_bytes, peak_flop_per_s, bytes_per_s):
    """Least time of the operators one after the other, in seconds."""
    # BEGIN ANSWER
    seconds = 0.0
    for op in operators:
        if op["kind"] == "matmul":
            m, k, n = op["m"], op["k"], op["n"]
            flop, values = 2 * m * k * n, m * k + k * n + m * n
        else:
            flop, values = op["n"] * op["flop_per_value"], op["n"] * (op["n_read"] + op["n_written"])
        seconds += max(flop / peak_flop_per_s, values * value_bytes / bytes_per_s)
    return seconds
    # END ANSWER


# %%
check("hbm", layer_s)

# %% [markdown]
# The package has such lists for real models. One layer of Llama 3 8B on an H100, while it reads a prompt of 4,096 tokens
# and while it decodes one token: which operators wait for memory?

# %%
rates = h100.matmul_flop_per_s("bf16"), h100.memory_bytes_per_s
llama = models.get("Llama 3 8B")
phases = {"prompt": transformer_layer.prefill(llama, 4096), "decode": transformer_layer.decode(llama, 4096)}
for phase, operators in phases.items():
    print(f"{phase}: {transformer_layer.time_s(operators, *rates) * 1e6:,.1f} µs for a layer")
    for name, work in operators.items():
        bound = "compute" if work.flop_per_byte > ridge else "memory"
        print(f"  {name:24} {work.flop_per_byte:8,.1f} FLOP/byte, {bound:7}", end=" ")
        print(f"{roofline.time_s(work, *rates) * 1e6:8,.2f} µs")

# %% [markdown]
# ## Task 4: the batch that keeps the chip busy
#
# A weight matrix of `k` x `n` meets a batch of `b` rows: a matmul of (b, k) by (k, n). All values take `value_bytes`
# bytes. Return the smallest whole `b` whose intensity reaches the chip's ridge, `peak_flop_per_s / bytes_per_s`. The
# matrices are large enough that there is one.


# %% tags=["answer"] task="compute_bound_batch"
def compute_bound_batch(k, n, value_bytes, peak_flop_per_s, bytes_per_s):
    """Smallest batch at which the matmul is compute-bound."""
    # BEGIN ANSWER
    batch = 1
    while 2 * batch * k * n / peak_flop_per_s < value_bytes * (batch * k + k * n + batch * n) / bytes_per_s:
        batch += 1
    return batch
    # END ANSWER


# %%
check("hbm", compute_bound_batch)

# %%
reveal("hbm-batch", roofline.compute_bound_batch(8192, 28672, ridge))

# %% [markdown]
# ## Task 5: the bytes of attention
#
# One layer's attention over a sequence of `s` tokens has `n_heads` heads of width `d`; queries, keys, values and result
# of one head are `s` x `d` each, of `value_bytes` bytes a value. **Naive** attention is three kernels: queries times keys
# writes the `s` x `s` scores; the softmax reads them and writes the `s` x `s` weights; weights times values reads those.
# **Fused** attention reads queries, keys and values once and writes the result, and nothing else.
#
# Return `[naive, fused]`, the bytes of all heads.


# %% tags=["answer"] task="attention_bytes"
def attention_bytes(s, n_heads, d, value_bytes):
    """[bytes of naive attention, bytes of fused attention]."""
    # BEGIN ANSWER
    tensor, square = s * d, s * s
    naive = (2 * tensor + square) + (square + square) + (square + tensor + tensor)
    return [n_heads * value_bytes * naive, n_heads * value_bytes * 4 * tensor]
    # END ANSWER


# %%
check("hbm", attention_bytes)

# %%
naive, fused = (roofline.attention(4096, 32, 128, fused=fused) for fused in (False, True))
reveal("hbm-attention-bytes", naive.bytes / fused.bytes)

# %%
fusion()

# %% [markdown]
# ## Task 6: the softmax in one pass
#
# A softmax needs the largest score $m$, so that nothing overflows, and the sum $l$ of $e^{\text{score} - m}$. Written
# down plainly, that takes one pass for $m$ and a second one for $l$, over scores that must be kept somewhere. Fused
# attention has them one block at a time and cannot go back.
#
# `blocks` is a list of lists of scores. Go over it **once** and return `[m, l]` for all scores together. When a block has
# a larger maximum than all before it, what do you do to the sum so far?


# %% tags=["answer"] task="online_softmax"
def online_softmax(blocks):
    """[largest score, sum of exp(score - largest)] in one pass over the blocks."""
    # BEGIN ANSWER
    maximum, total = -math.inf, 0.0
    for block in blocks:
        larger = max([maximum, *block])
        total *= math.exp(maximum - larger)
        total += sum(math.exp(score - larger) for score in block)
        maximum = larger
    return [maximum, total]
    # END ANSWER


# %%
check("hbm", online_softmax)

# %% [markdown]
# ## Measure: same numbers, fewer bytes
#
# `tiled_attention` of the package is your Task 6 with tensors: besides $m$ and $l$ it keeps the sum of
# $e^{\text{score} - m} \times \text{value}$, and shrinks it likewise. First: are the numbers the same?

# %% tags=["measurement"]
torch.manual_seed(0)
query, key, value = (torch.randn(1, 4, 1024, 64) for _ in range(3))
expected = fused_attention(query, key, value)
for attention in (naive_attention, tiled_attention):
    found = attention(query, key, value)
    print(f"{attention.__name__:16} equals PyTorch's fused kernel: {torch.allclose(found, expected, atol=1e-5)}")

# %% [markdown]
# Now the bytes, counted and not guessed: `MemoryTraffic` sees every operator that PyTorch runs and adds up the tensors
# that it reads and writes. Between operators and memory it can put a cache. Predict the two columns of `naive_attention`
# with your Task 5 before you run the cell. What does the cache do for `tiled_attention`, and why not for the naive one?

# %% tags=["measurement"]
print("counted bytes:      without a cache   cache of 4 MiB   predicted by the formula")
for attention in (naive_attention, tiled_attention, fused_attention):
    counted = []
    for cache_bytes in (0, 4 * 2**20):
        with torch.no_grad(), MemoryTraffic(cache_bytes) as traffic:
            result = attention(query, key, value)
        counted.append(traffic.total_bytes)
    formula = roofline.attention(1024, 4, 64, fused=attention is not naive_attention, dtype="fp32").bytes
    print(f"{attention.__name__:16} {counted[0]:>18,} {counted[1]:>16,} {formula:>26,.0f}")

# %% [markdown]
# The naive version misses the formula by 2,097,152 bytes: it also divides the queries by $\sqrt d$, reading and writing
# them once. Its scores are 16 MiB, so that no cache of 4 MiB helps. The tiled one, run operator by operator, moves *more*
# bytes than the naive one; but everything that it needs again is small. Behind a cache that holds the keys, the values
# and a block, it moves exactly what the fused kernel moves: each input once, the result once. That is what a GPU's
# kernel does with its registers and shared memory. (The fused kernel's 16 KiB more are one number a row that it keeps
# for the backward pass.)
#
# ## Measure: bandwidth of this machine
#
# `copy` moves two arrays, `triad` three, all far larger than the caches. Close what else runs on this machine: other programs
# use the same memory.

# %% tags=["measurement", "nbval-ignore-output"]
bandwidth = memory_bandwidth(budget_s=10, device="cpu")
print(bandwidth)
reveal("hbm-triad", bandwidth.rates["triad"].median / 1e9)

# %% [markdown]
# ## Measure: a roofline of this very machine
#
# Two numbers make a roofline. Bandwidth you have; the highest matmul rate comes from a short search. Written to a file,
# they are an accelerator like any other.

# %% tags=["measurement", "nbval-ignore-output"]
matmul = best_matmul("fp32", budget_s=5, device="cpu")
with tempfile.TemporaryDirectory() as folder:
    record.write(Path(folder) / "mine.csv", bandwidth)
    record.write(Path(folder) / "mine.csv", matmul)
    mine = accelerators.from_measurement(Path(folder) / "mine.csv")
my_peak, my_bandwidth = mine.matmul_flop_per_s("fp32"), mine.memory_bytes_per_s
print(f"{mine.name}: {my_peak / 1e9:,.0f} GFLOP/s, {my_bandwidth / 1e9:,.1f} GB/s,", end=" ")
print(f"ridge {my_peak / my_bandwidth:.1f} FLOP/byte; an H100's is {ridge:.0f}")

# %% [markdown]
# The model is complete; nothing more is fitted. Now time operators of many intensities, and draw them over its line.

# %% tags=["measurement", "nbval-ignore-output"]
points = measure_operators(budget_s=5, device="cpu")
for point in points:
    roof = roofline.rate_flop_per_s(point.work.flop_per_byte, my_peak, my_bandwidth)
    print(f"{point.name:34} {point.work.flop_per_byte:7.2f} FLOP/byte {point.rates.best / 1e9:7.1f} GFLOP/s,", end=" ")
    print(f"{point.rates.best / roof:.2f} of the roof")

# %% tags=["measurement", "nbval-ignore-output"]
line = [0.05, my_peak / my_bandwidth, 300]
plt.loglog(line, [roofline.rate_flop_per_s(x, my_peak, my_bandwidth) / 1e9 for x in line], label="model")
groups = {"layer, batch 1 to 256": points[:9], "elementwise": points[9:12], "layer in a cache": points[12:]}
for (label, group), marker in zip(groups.items(), "os^", strict=True):
    x = [point.work.flop_per_byte for point in group]
    plt.loglog(x, [point.rates.best / 1e9 for point in group], marker, markersize=8, label=label)
plt.xlabel("FLOP per byte")
plt.ylabel("GFLOP/s")
plt.title("A roofline of this machine, and what runs under it")
plt.legend()
plt.show()

# %% [markdown]
# Read the misses; they teach more than the hits.
#
# - Batch 1 to 4 climb along the slope: twice the batch, twice the rate, in the same time. Reading the weights is all
#   that takes time, and a second row is free. That is why servers batch.
# - Around the ridge the points hang below the corner. Computing and reading do not overlap in full, and thin matrices do
#   not keep all units busy: max() is too kind.
# - Some points lie *above* the roof. Where a layer stays in a cache, its bytes never come from memory: it has another
#   roof, the cache's. Operators that only read may beat the triad by up to a third as well, since a CPU reads a line
#   before it writes it, and the triad's count leaves that out.
# - On a machine that does other things at the same time, everything moves by tens of percent from run to run.
#
# ## Measure: let a compiler fuse
#
# The end of an MLP block adds a bias, takes a GELU and adds the residual: three kernels, seven tensors through memory.
# `torch.compile` writes one kernel that reads three tensors' worth and writes... count for yourself before you run the
# cell. It needs a C++ compiler (on Colab there is one) and takes up to a minute, since it compiles in a temporary folder.

# %% tags=["measurement", "nbval-ignore-output"]
x, bias, residual = torch.randn(4096, 1024), torch.randn(1024), torch.randn(4096, 1024)
try:
    fused_chain = compile_and_count(bias_gelu_residual, x, bias, residual)
except CompilerMissing as error:
    fused_chain = None
    print(error)
if fused_chain:
    print(f"apart: {fused_chain.kernels_apart} kernels, {fused_chain.bytes_apart / 1e6:.1f} MB", end="; ")
    print(f"compiled: {fused_chain.kernels_fused} kernel, {fused_chain.bytes_fused / 1e6:.1f} MB", end="; ")
    same = torch.allclose(fused_chain.function(x, bias, residual), bias_gelu_residual(x, bias, residual), atol=1e-5)
    print(f"same numbers: {same}; compiled in {fused_chain.compile_s:.0f} s")

# %% tags=["measurement", "nbval-ignore-output"]
if fused_chain:
    from torch.utils.benchmark import Timer

    chains = {"apart": bias_gelu_residual, "compiled": fused_chain.function}
    for name, chain in chains.items():
        timer = Timer(
            "chain(x, bias, residual)", globals={**globals(), "chain": chain}, num_threads=torch.get_num_threads()
        )
        print(f"{name:9} {timer.blocked_autorange(min_run_time=1).median * 1e3:6.2f} ms")
    print(f"fewer bytes predict a factor of {fused_chain.bytes_apart / fused_chain.bytes_fused:.2f} at most")

# %% [markdown]
# A factor near the prediction says that the chain waits for memory. A smaller one says that computing the GELU takes part
# of the time here, which fewer bytes cannot shorten, or that a cache of this machine holds the tensors of 17 MB. A larger
# one says that the separate kernels paid for something else, such as claiming fresh memory for every result. On a GPU
# the chain waits for memory, and the factor comes near.
#
# ## What to take away
#
# - Time is the longer one of computing and moving bytes, for each operator; the ridge, peak over bandwidth, says which.
# - Decoding reads every weight for one token. A batch shares the reading; fusion and tiling avoid it.
# - A formula's bytes can be counted, and a machine's roof can be measured. Look where the points leave it.

# %% tags=["nbval-ignore-output"]
show_calibration()
