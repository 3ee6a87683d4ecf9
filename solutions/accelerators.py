# %% [markdown]
# # Lab: what am I buying?
#
# **Question.** Datasheets print one number. What does it buy?
#
# **You will** compute a chip's peak from its parts, rank offers under one condition, find a wrong cell in a table, turn
# a printed link rate into one that a message can use, decide a purchase under constraints, and then measure: this
# machine's own peak, a ring of real processes, and what half of the weights being zero is worth.
#
# **Time.** 60 to 90 minutes. **You need** a CPU; nothing else. Read the chapter
# [What am I buying?](../book/accelerators.md) first, or come back to it when a check sends you there.

# %%
import time

import matplotlib.pyplot as plt
import torch
import torch.distributed as dist

from aiinfra import accelerators, charts, collectives, models
from aiinfra.checks import check, example
from aiinfra.explorers.accelerators import all_reduce, clock, footnote
from aiinfra.measure.machine import (
    bind,
    cores_of_node,
    parse_lscpu,
    peak_flop_per_s,
    this_cpu,
    usable_cpus,
    vector_bits,
)
from aiinfra.measure.matmul import matmul_flop_per_s
from aiinfra.measure.ranks import run_ranks
from aiinfra.measure.sparsity import bytes_2_of_4, dense_and_pruned_matmul_s, pruning_experiment
from aiinfra.predictions import predict, reveal, show_calibration

plt.rcParams.update(charts.MATPLOTLIB_STYLE)

# %% tags=["parameters"]
scenario = 0  # which offers lie on your desk after Task 6; in a class, everyone may have another number

# %% [markdown]
# ## Predict first
#
# Three questions, before you compute anything. Replace each `...` by two numbers, `low=` and `high=`, that you are 90 %
# sure hold the answer between them. The range matters more than its middle: a range that is honest about what you don't
# know is a good prediction.

# %% tags=["prediction"]
predict(
    "accelerators-h100-over-4090",
    "Rate of an H100 SXM over that of an RTX 4090: FP16, dense, sums in FP32",
    # BEGIN ANSWER
    low=3,
    high=8,
    # END ANSWER
)

# %% tags=["prediction"]
predict(
    "accelerators-all-reduce-ms",
    "Milliseconds to all-reduce 13.5 GB of gradients over 8 H100 SXM, whose NVLink prints 900 GB/s",
    # BEGIN ANSWER
    low=30,
    high=80,
    # END ANSWER
)

# %% tags=["prediction"]
predict(
    "accelerators-cpu-share",
    "Share of this machine's computed FP32 peak that a large matmul reaches, in percent",
    # BEGIN ANSWER
    low=20,
    high=130,
    # END ANSWER
)

# %% [markdown]
# ## Task 1: peak from clocks
#
# A chip has `n_sms` SMs with `units_per_sm` matrix units each. One unit does `fma_per_clock` multiply-adds in every
# clock, at `clock_ghz`. Return the peak in FLOP/s. First move the figure: what does the clock alone do?

# %%
clock()


# %% tags=["answer"] task="peak_from_clock"
def peak_from_clock(n_sms, units_per_sm, fma_per_clock, clock_ghz):
    """Peak of the matrix units in FLOP/s."""
    # BEGIN ANSWER
    flop_per_clock = n_sms * units_per_sm * fma_per_clock * 2
    return flop_per_clock * clock_ghz * 1e9
    # END ANSWER


# %%
check("accelerators", peak_from_clock)

# %% [markdown]
# ## Task 2: rank five offers
#
# Each offer is a dict with `name`, `tflops` as printed, `sparse` (True where the print counts skipped multiplications),
# `accumulate` ("fp16" or "fp32": the width of the sums; with FP32 sums such a card runs at half of its FP16 rate) and
# `price_usd`. Return the names, best first, by **dense** rate with **FP32 sums** for each dollar.

# %%
footnote()


# %% tags=["answer"] task="rank_offers"
def rank_offers(offers):
    """Names of the offers, best rate for each dollar first."""

    # BEGIN ANSWER
    def worth(offer):
        rate = offer["tflops"]
        if offer["sparse"]:
            rate /= 2
        if offer["accumulate"] == "fp16":
            rate /= 2
        return rate / offer["price_usd"]

    return [offer["name"] for offer in sorted(offers, key=worth, reverse=True)]
    # END ANSWER


# %%
check("accelerators", rank_offers)

# %%
h100, rtx4090 = accelerators.get("H100 SXM"), accelerators.get("RTX 4090")
reveal("accelerators-h100-over-4090", h100.matmul_flop_per_s("fp16") / rtx4090.matmul_flop_per_s("fp16"))

# %% [markdown]
# ## Task 3: find the wrong cell
#
# A comparison table came with an offer. Each row is a dict with `name`, `n_sms`, `units_per_sm`, `fma_per_clock` (FP16),
# `clock_ghz`, and three rates as printed: `dense_tflops`, `sparse_tflops` and `fp8_tflops` (dense). For these chips sparse
# is twice dense, and so is FP8. Exactly one of the rates is wrong, by more than a tenth; rounding is well below a
# hundredth. Return its place as a list: `[name, column]`.


# %% tags=["answer"] task="wrong_cell"
def wrong_cell(rows):
    """[name, column] of the rate that does not follow from units and clock."""
    # BEGIN ANSWER
    for row in rows:
        flop_per_clock = 2 * row["n_sms"] * row["units_per_sm"] * row["fma_per_clock"]
        dense = flop_per_clock * row["clock_ghz"] * 1e9 / 1e12
        for column, factor in (("dense_tflops", 1), ("sparse_tflops", 2), ("fp8_tflops", 2)):
            if abs(row[column] / (factor * dense) - 1) > 0.05:
                return [row["name"], column]
    # END ANSWER


# %%
check("accelerators", wrong_cell)

# %% [markdown]
# ## Explore a ring
#
# Move one control at a time. Find out: what happens to the time when the number of ranks doubles from 8 to 16? From
# which latency on does the number of ranks matter?

# %%
all_reduce()

# %% [markdown]
# ## Task 4: from the printed rate to a usable one
#
# An accelerator has `n_links` links. The datasheet prints `link_gb_per_s` for one link, in GB/s, **both directions
# added up**. Return the rate of all its links together, in bytes per second, in **one direction**.


# %% tags=["answer"] task="one_way_bytes_per_s"
def one_way_bytes_per_s(n_links, link_gb_per_s):
    """Rate of all links of one accelerator, in bytes/s, in one direction."""
    # BEGIN ANSWER
    return n_links * link_gb_per_s * 1e9 / 2
    # END ANSWER


# %%
check("accelerators", one_way_bytes_per_s)

# %% [markdown]
# ## Task 5: the time of a ring all-reduce
#
# `n_ranks` ranks stand in a ring. Each holds a message of `message_bytes`, cut into `n_ranks` chunks. In each step
# every rank sends one chunk to its right neighbour, and a step costs `alpha_s` seconds before the first byte flows.
# First the chunks are added up on their way (reduce-scatter), then the finished chunks are passed on (all-gather).
#
# Return the time in seconds. `link_bytes_per_s` is one direction, as your first function returns it.


# %% tags=["answer"] task="ring_all_reduce_s"
def ring_all_reduce_s(message_bytes, n_ranks, link_bytes_per_s, alpha_s):
    """Time of a ring all-reduce in seconds."""
    # BEGIN ANSWER
    chunk_bytes = message_bytes / n_ranks
    steps = 2 * (n_ranks - 1)
    return steps * (alpha_s + chunk_bytes / link_bytes_per_s)
    # END ANSWER


# %%
check("accelerators", ring_all_reduce_s)

# %% [markdown]
# ### The answer to your prediction
#
# Gradients in bf16 take two bytes a parameter, and 5 µs a step is a fair latency for NVLink.

# %%
gradient_bytes = 2 * models.get("Llama 2 7B").n_parameters
one_way = accelerators.get("H100 SXM").link_bytes_per_s
reveal("accelerators-all-reduce-ms", 1e3 * collectives.ring_all_reduce_s(gradient_bytes, 8, one_way, alpha_s=5e-6))

# %% [markdown]
# ## Task 6: decide
#
# You have `budget_usd` and a rack that feeds `power_w` watts. The model needs `memory_gb` over all accelerators together.
# Each offer is a dict with `name`, `dense_tflops`, `memory_gb`, `power_w` and `price_usd`. Buy one kind only. Return
# `[name, count]` with the highest total dense rate that the constraints allow.


# %% tags=["answer"] task="choose_offer"
def choose_offer(offers, budget_usd, power_w, memory_gb):
    """[name, count] of the best purchase within budget, power and memory."""
    # BEGIN ANSWER
    best, best_tflops = None, 0
    for offer in offers:
        count = min(budget_usd // offer["price_usd"], power_w // offer["power_w"])
        tflops = count * offer["dense_tflops"]
        if count * offer["memory_gb"] >= memory_gb and tflops > best_tflops:
            best, best_tflops = [offer["name"], count], tflops
    return best
    # END ANSWER


# %%
check("accelerators", choose_offer)

# %% [markdown]
# ### Your desk
#
# Now use it. These offers, this budget and this rack are yours: they follow from `scenario`, above.

# %%
offers, budget_usd, power_w, memory_gb = example("accelerators", "choose_offer", scenario)
print(f"scenario {scenario}: budget {budget_usd:,} USD, power {power_w:,} W, memory needed {memory_gb:,} GB")
for offer in offers:
    print("  ".join(f"{name} {value:>6}" for name, value in offer.items()))
print("your function buys", choose_offer(offers, budget_usd, power_w, memory_gb))

# %% [markdown]
# **Explain it** in three or four sentences, in the next cell (double-click it). Which limit decides what you can buy:
# money, power or memory? Is there a faster purchase that just fails one limit? What would you ask for, and what would it
# bring?

# %% [markdown] tags=["written"] task="explain_purchase" points=4
# *Your answer:*
#
# BEGIN ANSWER
# Power decides. 18,000 W feed 60 of offer C, 31,080 TFLOP/s together, while the money would pay for 148 of them. Offer D
# would be faster: the rack feeds 24 of them, 44,088 TFLOP/s, but they hold 1,152 GB, and the model needs 1,400. So I would
# ask for 4,500 W more. They make it 30 of offer D, for 465,000 of the 520,000 USD: 1,440 GB and 55,110 TFLOP/s, 77 % more
# than now.
# END ANSWER

# %% [markdown]
# ## Measure: a machine, from `lscpu` to FLOP/s
#
# Your own CPU has the same structure as an accelerator: cores instead of SMs, vector units instead of tensor cores. The
# tool `lscpu` prints it. First a printout of a server with two sockets. Before you run the cell: how many cores is
# `CPU(s): 192`, and is one of the three clocks the highest that the chip can run?

# %%
server = parse_lscpu("""Architecture: x86_64
Model name: AMD EPYC 7642 48-Core Processor
CPU(s): 192
Thread(s) per core: 2
Core(s) per socket: 48
Socket(s): 2
CPU MHz: 1500.000
CPU max MHz: 2300.0000
BogoMIPS: 4600.12
NUMA node0 CPU(s): 0-47,96-143
NUMA node1 CPU(s): 48-95,144-191""")
print(f"{server.n_cores} cores, {server.n_threads} threads; base clock {server.base_clock_hz / 1e9:.1f} GHz")
print("to use the cores of node 1 only, bind to", cores_of_node(server, 1)[0], "to", cores_of_node(server, 1)[-1])

# %% [markdown]
# `CPU(s)` counts hardware threads; two of them share the units of one core. And none of the clocks is the boost clock
# of this chip, 3.3 GHz: 1500 is what an idle core happened to run at. Now your machine, and its peak by the formula of
# Task 1: cores x FMA units x lanes x 2 x clock.

# %% tags=["measurement", "nbval-ignore-output"]
cpu = this_cpu()
n_cores = min(cpu.n_cores or len(usable_cpus()), len(usable_cpus()))
clock_hz = cpu.clock_hz or 3.0e9  # no clock printed: put in the vendor's
cpu_peak = peak_flop_per_s(cpu, n_cores=n_cores, clock_hz=clock_hz)
print(f"{cpu.model}: {cpu.n_cores} cores, {cpu.n_threads} threads, of which this notebook may use {len(usable_cpus())}")
print(f"clock {clock_hz / 1e9:.2f} GHz, read from {cpu.clock_source}")
print(
    f"{n_cores} cores x 2 FMA units x {vector_bits(cpu) // 32} lanes x 2 x clock = {cpu_peak / 1e9:,.0f} GFLOP/s in FP32"
)

# %% tags=["measurement", "nbval-ignore-output"]
rates = {n: matmul_flop_per_s(n, n_threads=n_cores, budget_s=0.7, device="cpu") for n in (16, 64, 256, 1024, 2048)}
for n, rate in rates.items():
    print(f"n = {n:>4}: median {rate.median / 1e9:>7,.1f} GFLOP/s, {rate.median / cpu_peak:.0%} of the computed peak")
reveal("accelerators-cpu-share", 100 * rates[2048].median / cpu_peak)

# %% [markdown]
# Explain your share before you read on. Small matrices pay for the call. For large ones, the formula stands on three
# things that `lscpu` does not tell: the clock under load (boost raises it), how many FMA units a core has, and whether the
# library uses the widest vectors. So a share above 100 % says that an assumption was wrong, and one of 60 % need not mean
# that 40 % was wasted. A datasheet's peak hides the same questions.
#
# **Core binding** keeps a process on chosen cores. Here it takes all but one away; on a server with two sockets,
# `bind(cores_of_node(cpu, 0))` keeps a process next to its memory.

# %% tags=["measurement", "nbval-ignore-output"]
for cpus in (usable_cpus()[:1], usable_cpus()):
    with bind(cpus) as bound:
        rate = matmul_flop_per_s(1024, n_threads=len(bound), budget_s=0.7, device="cpu")
    print(f"bound to {len(bound)} CPUs, as many threads: {rate.median / 1e9:,.0f} GFLOP/s")

# %% [markdown]
# ## Measure: does a real ring send what the formula says?
#
# `run_ranks` starts real processes on this machine, connected by PyTorch's gloo backend, and runs the function below
# on each. The function is a ring all-reduce by hand: read it beside the two phases of Task 2. The course counts every
# byte that a rank hands to `send`.


# %%
def ring_by_hand(n_values):
    """All-reduce `n_values` floats around the ring; True where this rank holds the sum in the end."""
    rank, n = dist.get_rank(), dist.get_world_size()
    chunks = list(torch.full((n_values,), rank + 1.0).chunk(n))
    for step in range(2 * (n - 1)):
        outgoing, index = chunks[(rank - step) % n], (rank - step - 1) % n
        incoming = torch.empty_like(chunks[index])
        sending = dist.isend(outgoing, (rank + 1) % n)
        dist.recv(incoming, (rank - 1) % n)
        sending.wait()
        chunks[index] = chunks[index] + incoming if step < n - 1 else incoming
    return bool((torch.cat(chunks) == n * (n + 1) / 2).all())


# %% tags=["measurement"]
for n_ranks in (2, 4):
    result = run_ranks(ring_by_hand, n_ranks, 1_000_000)
    predicted_bytes = collectives.ring_all_reduce_sent_bytes(4_000_000, n_ranks)
    print(f"{n_ranks} ranks: every rank holds the sum: {all(result.values)};", end=" ")
    print(f"bytes sent by each rank: {result.payload_bytes('send')[0]:,}, predicted {predicted_bytes:,.0f}")

# %% [markdown]
# The bytes agree exactly: that part of the formula is arithmetic. Time is another matter.
#
# ## Measure: how good is the time?
#
# Two ranks all-reduce messages from 1 KB to 64 MB with PyTorch's own `all_reduce`. Their link is this machine's memory.
# We take **two** of the measured points to set the two parameters, the smallest message for $\alpha$ and the largest for
# the bandwidth, and look at how well the formula says all the others, which it has not seen.


# %%
def time_all_reduce(sizes_bytes, repeats):
    """Fastest of `repeats` all-reduces for each size, in seconds."""
    fastest = []
    for size in sizes_bytes:
        message, seconds = torch.ones(size // 4), []
        for _ in range(repeats):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(message)
            seconds.append(time.perf_counter() - start)
        fastest.append(min(seconds))
    return fastest


sizes_bytes = [2**exponent for exponent in range(10, 27, 2)]

# %% tags=["measurement", "nbval-ignore-output"]
measured_s = run_ranks(time_all_reduce, 2, sizes_bytes, repeats=10).values[0]
alpha_s = measured_s[0] / 2  # two steps between two ranks, and hardly any bytes
link_bytes_per_s = sizes_bytes[-1] / (measured_s[-1] - measured_s[0])
print(f"this machine, two ranks: latency {alpha_s * 1e6:.0f} µs a step, {link_bytes_per_s / 1e9:.2f} GB/s one way")
for size, seconds in zip(sizes_bytes, measured_s, strict=True):
    modelled_s = collectives.ring_all_reduce_s(size, 2, link_bytes_per_s, alpha_s)
    print(f"{size / 1e3:>10,.0f} KB  {seconds * 1e6:>9,.0f} µs  measured / modelled {seconds / modelled_s:.2f}")

# %% tags=["measurement", "nbval-ignore-output"]
modelled_s = [collectives.ring_all_reduce_s(size, 2, link_bytes_per_s, alpha_s) for size in sizes_bytes]
plt.loglog(sizes_bytes, modelled_s, "--", label="modelled, two points fitted")
plt.loglog(sizes_bytes, measured_s, "o", label="measured")
plt.xlabel("message (bytes)")
plt.ylabel("time of an all-reduce (s)")
plt.title("Two processes of this machine: latency first, then bandwidth")
plt.legend()
plt.show()

# %% [markdown]
# Small messages lie on a flat line: they cost latency and nothing else. Large ones lie on a slope: they cost bandwidth.
# Between them the formula misses by some tens of percent, up to a factor of two, because a real link has no single rate:
# buffers fit in a cache or do not, and the library changes its algorithm with the size. That is why the chapter
# tells you to plan with a measured rate where you can get one, and with three quarters of the datasheet where you
# can't.
#
# ## Measure: what half of the weights being zero is worth
#
# A *sparse* peak counts 2:4 sparsity: of every four weights in a row, two are zero. `pruning_experiment` trains a small
# network to read noisy digits, sets two of every four weights to zero, and trains the others on. The network is small and
# has few weights to spare; large ones lose less.

# %% tags=["measurement"]
result = pruning_experiment(seed=0)
print(f"accuracy, dense                            {result.dense:.3f}")
print(f"half of the weights zero, wherever small   {result.half_of_all:.3f}")
print(f"two of every four zero                     {result.pruned_2_of_4:.3f}")
print(f"the same zeros, trained on                 {result.fine_tuned_2_of_4:.3f}")
print(f"bytes of the weights in FP16: {bytes_2_of_4(4096 * 4096) / (2 * 4096 * 4096):.4f} of dense")

# %% tags=["measurement", "nbval-ignore-output"]
dense_s, pruned_s = dense_and_pruned_matmul_s()
print(f"a 1024 x 1024 matmul here: dense {dense_s * 1e3:.1f} ms, pruned {pruned_s * 1e3:.1f} ms")

# %% [markdown]
# Pruning cost accuracy, and training on brought most of it back: work that the datasheet's footnote leaves to you. And
# on this CPU the pruned matmul takes as long as the dense one, because its units multiply by zero like by any number. The
# doubled peak is real on tensor cores that know the 2:4 pattern, for weights that have it, and nowhere else.
#
# ## What to take away
#
# - Bring every rate to one condition before you compare: dense, sums in FP32, this very product, one direction.
# - Peak is units times clock, on this CPU as on an H100; what a program reaches is another number, and it can be measured.
# - Fit two parameters, predict the rest, look at the miss: that is the method of this whole course.

# %% tags=["nbval-ignore-output"]
show_calibration()
