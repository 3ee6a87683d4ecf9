# %% [markdown]
# # Lab: how much of it am I using?
#
# **Question.** You pay for a peak. How much of it does your program use, and where does the rest go?
#
# **You will** count the FLOP of a layer and the parameters of a real model, find the right denominator of an MFU, turn FLOP
# into days and dollars, read a staircase, and decide between plans by two measures. Then you measure: the highest matmul
# rate of this machine, its own staircase, a small transformer in training, and a loader that is too slow.
#
# **Time.** 60 to 90 minutes. **You need** a CPU; nothing else. Read the chapter
# [How much of it am I using?](../book/mfu.md) first, or come back to it when a check sends you there.

# %%
import statistics

import matplotlib.pyplot as plt
import torch

from aiinfra import charts, flops, models, published, utilization
from aiinfra.accelerators import get
from aiinfra.checks import check
from aiinfra.explorers.mfu import days_and_dollars, feed, same_run, staircase
from aiinfra.measure import staircase as stairs
from aiinfra.measure.best_matmul import best_matmul
from aiinfra.measure.feeding import fed_step_s
from aiinfra.measure.training import train
from aiinfra.measure.transformer import counted_flop
from aiinfra.predictions import predict, reveal, show_calibration

plt.rcParams.update(charts.MATPLOTLIB_STYLE)

# %% [markdown]
# ## Predict first
#
# Four questions, before you compute anything. Replace each `...` by two numbers, `low=` and `high=`, that you are 90 % sure
# hold the answer between them.

# %% tags=["prediction"]
predict(
    "mfu-attention-share",
    "Percent that attention's S x S part adds to the 6 N FLOP of a token: Llama 2 70B, sequences of 32,768 tokens",
    # BEGIN ANSWER
    low=30,
    high=90,
    # END ANSWER
)

# %% tags=["prediction"]
predict(
    "mfu-llama2-70b",
    "MFU in percent that the published GPU-hours of Llama 2 70B imply (A100, restarts included)",
    # BEGIN ANSWER
    low=30,
    high=55,
    # END ANSWER
)

# %% tags=["prediction"]
predict(
    "mfu-one-more-column",
    "Percent of its rate that a matmul on one core of this machine loses at most for four columns more",
    # BEGIN ANSWER
    low=5,
    high=60,
    # END ANSWER
)

# %% tags=["prediction"]
predict(
    "mfu-small-transformer",
    "Training a small transformer on one core: its FLOP/s in percent of the highest matmul rate of that core",
    # BEGIN ANSWER
    low=20,
    high=85,
    # END ANSWER
)

# %% [markdown]
# ## Task 1: FLOP of a layer
#
# One layer of a LLaMA: queries of `n_heads` heads, keys and values of `n_kv_heads` heads, each `d_model / n_heads` wide; the
# output projection; a gated MLP (SwiGLU) of width `d_ff`, which has three matrices. One sequence of `seq_len` tokens goes
# through it. Return the FLOP of the **forward** pass: matmuls only, and **all** $S \times S$ pairs of query and key.


# %% tags=["answer"] task="layer_flop"
def layer_flop(d_model, n_heads, n_kv_heads, d_ff, seq_len):
    """FLOP of one forward pass of one sequence through one layer."""
    # BEGIN ANSWER
    d_head = d_model // n_heads
    queries_and_output = 2 * d_model * d_model
    keys_and_values = 2 * d_model * n_kv_heads * d_head
    mlp = 3 * d_model * d_ff
    weights = queries_and_output + keys_and_values + mlp
    pairs = seq_len * seq_len
    scores_and_values = 2 * pairs * d_model
    return 2 * seq_len * weights + 2 * scores_and_values
    # END ANSWER


# %%
check("mfu", layer_flop)

# %% [markdown]
# ### Does PyTorch agree?
#
# `FlopCounterMode` sees every operator that PyTorch runs. On the *meta* device, tensors have shapes and no values: the 70
# billion weights of Llama 2 70B take no memory there, and its FLOP can be counted on a laptop in seconds.

# %%
llama = models.get("Llama 2 70B")
n_counted, forward, forward_and_backward = counted_flop(llama, 4096)
print(f"parameters          {n_counted:>22,}  as by formula: {n_counted == llama.n_parameters}")
print(f"forward FLOP        {forward:>22,}  as by formula: {forward == flops.forward_flop(llama, 4096).total}")
print(f"and backward: {forward_and_backward / forward:.4f} times the forward pass")

# %%
whole = flops.forward_flop(llama, 32768)
reveal(
    "mfu-attention-share", 100 * 3 * whole.attention / 32768 / flops.approximate_training_flop(llama.n_parameters, 1)
)

# %% [markdown]
# The counter has one convention of its own, and it is the usual one: it counts all pairs of query and key, though a causal
# model needs half of them.
#
# ## Task 2: parameters of a real configuration
#
# A model on the hub comes with a `config.json`. Return the number of parameters of a LLaMA-like model from the dict `config`
# with `hidden_size`, `intermediate_size`, `num_hidden_layers`, `num_attention_heads`, `num_key_value_heads`, `vocab_size`
# and `tie_word_embeddings`. No biases; a norm is one vector of `hidden_size` weights; each layer has two, and there is one
# before the output head. Tied embeddings: the table at the input serves as the output head, too.


# %% tags=["answer"] task="n_parameters"
def n_parameters(config):
    """Number of parameters."""
    # BEGIN ANSWER
    d = config["hidden_size"]
    d_kv = d // config["num_attention_heads"] * config["num_key_value_heads"]
    attention = 2 * d * d + 2 * d * d_kv
    mlp = 3 * d * config["intermediate_size"]
    tables = 1 if config["tie_word_embeddings"] else 2
    layers = config["num_hidden_layers"] * (attention + mlp + 2 * d)
    return layers + tables * config["vocab_size"] * d + d
    # END ANSWER


# %%
check("mfu", n_parameters)

# %% [markdown]
# ## Task 3: MFU, with the right denominator
#
# First move the figure: one run, one speed, and the many numbers that are printed for it.

# %%
same_run()

# %% [markdown]
# Now `run` is a dict from a log and a datasheet: `n_parameters`, `n_tokens`, `training_s` (seconds in training steps),
# `billed_hours` (hours for which each package was paid: restarts, evaluation and waiting included), `n_packages`,
# `n_devices` (as programs see them: two dies in a package) and `rates`, what the datasheet prints **for a package**: a list
# of dicts with `sparse`, `sums` ("fp16" or "fp32") and `tflops`. It was trained in BF16 with sums in FP32. Return the MFU
# while it trained, as a share (0 to 1), by $6ND$.


# %% tags=["answer"] task="mfu"
def mfu(run):
    """Model FLOP utilization, 0 to 1."""
    # BEGIN ANSWER
    flop = 6 * run["n_parameters"] * run["n_tokens"]
    peak = next(rate["tflops"] for rate in run["rates"] if not rate["sparse"] and rate["sums"] == "fp32")
    return flop / run["training_s"] / (run["n_packages"] * peak * 1e12)
    # END ANSWER


# %%
check("mfu", mfu)

# %%
llama_hours = next(row for row in published.get("llama2_gpu_hours").rows if row["model"] == "Llama 2 70B")
run_flop = flops.approximate_training_flop(llama.n_parameters, llama_hours["n_tokens"])
peak = get("A100 80GB SXM").matmul_flop_per_s("bf16")
reveal("mfu-llama2-70b", 100 * utilization.mfu(run_flop, 3600 * llama_hours["gpu_hours"], peak))

# %% [markdown]
# ## Task 4: days and dollars
#
# Return `[days, usd]`: how long a training run of `n_tokens` tokens takes on `n_gpus`, and what all of them cost in rent.
# `peak_tflops` is one GPU's dense peak in TFLOP/s, `mfu_percent` is in percent, by $6ND$.

# %%
days_and_dollars()


# %% tags=["answer"] task="cost_of_run"
def cost_of_run(n_parameters, n_tokens, n_gpus, peak_tflops, mfu_percent, usd_per_gpu_hour):
    """[days, US dollars] of a training run."""
    # BEGIN ANSWER
    flop = 6 * n_parameters * n_tokens
    seconds = flop / (n_gpus * peak_tflops * 1e12 * mfu_percent / 100)
    hours = seconds / 3600
    return [hours / 24, hours * n_gpus * usd_per_gpu_hour]
    # END ANSWER


# %%
check("mfu", cost_of_run)

# %% [markdown]
# ## Task 5: the useful share
#
# A GPU cuts an `m` x `n` product into tiles of `tile_m` x `tile_n` and gives one to each of its `n_sms` multiprocessors, wave
# after wave. A tile that is cut short takes as long as a whole one, and so does a wave that is not full. Return the share of
# the time in which something is computed that was asked for.

# %%
staircase()


# %% tags=["answer"] task="useful_share"
def useful_share(m, n, tile_m, tile_n, n_sms):
    """Share of a product's time that computes something wanted, 0 to 1."""
    # BEGIN ANSWER
    n_tiles = -(-m // tile_m) * -(-n // tile_n)
    n_waves = -(-n_tiles // n_sms)
    return m * n / (n_waves * n_sms * tile_m * tile_n)
    # END ANSWER


# %%
check("mfu", useful_share)

# %% [markdown]
# ## Task 6: read a staircase
#
# Somebody measured the rate of a product for growing `sizes` (a list, small to large, in even steps): `rates`, in the same
# order. One unit works here, tile after tile, and a start takes some time, too. Inside a tile the rate grows, and right
# after a full tile it falls. Return the width of a tile.


# %% tags=["answer"] task="tile_width"
def tile_width(sizes, rates):
    """Width of the tile that the staircase shows."""
    # BEGIN ANSWER
    for i in range(1, len(sizes)):
        if rates[i] < rates[i - 1]:
            return sizes[i - 1]
    # END ANSWER


# %%
check("mfu", tile_width)

# %% [markdown]
# ## Measure: the staircase of this machine
#
# Now a real one. All measurements of this lab use one core: what else runs on this machine then disturbs them less. A CPU
# cuts a product, too: into blocks that fit its vector registers. The cell multiplies (512 x 512) by (512 x n) for growing
# n. Look for the drops before you read the line below the plot: how wide is a block here?

# %% tags=["measurement", "nbval-ignore-output"]
torch.set_num_threads(1)
measured = stairs.staircase(range(8, 132, 4), m=512, k=512, budget_s=2.0, device="cpu")
best = measured.best()
plt.plot(list(best), [rate / 1e9 for rate in best.values()], "o-", markersize=4)
plt.xlabel("columns n")
plt.ylabel("best rate (GFLOP/s)")
plt.title("A matmul of this machine, as one size grows")
plt.show()
drop = max((1 - best[n + 4] / best[n], n) for n in list(best)[:-1])
print(f"steps end after n = {measured.drops()}; the deepest drop: {drop[0]:.0%} after n = {drop[1]}")
reveal("mfu-one-more-column", 100 * drop[0])

# %% [markdown]
# Where the drops lie at multiples of one number, that is the width of a block: 16 for FP32 on many CPUs, one vector register
# of 512 bits or two of 256. As n grows, each drop weighs less, since one block of many is wasted. On a GPU a wave has more
# than a hundred tiles, so the same drops come at larger sizes: that is why widths of models are multiples of 128, and why a
# vocabulary of 50,257 tokens is padded to 50,304.
#
# ## Measure: the highest matmul rate
#
# What should a program be compared with? A datasheet's peak stands on a clock that may not hold. So search for the fastest
# product. In a terminal, on all cores, for two minutes and while the machine does nothing else, this is
# `aiinfra measure matmul`; here it gets one core and a few seconds. It reports how the rates are distributed, not only the best: which of them would you plan with?

# %% tags=["measurement", "nbval-ignore-output"]
found = best_matmul("fp32", budget_s=3.0, device="cpu")
print(found)

# %% [markdown]
# ## Measure: train a transformer, and find out where its time goes
#
# A transformer of three million parameters learns to count up. Its FLOP are counted by PyTorch and by formula. Between its
# steps the cell times the fastest product from above and the step's own matmuls alone, in turns: if something else uses this
# machine, it disturbs all three.

# %%
small = models.Transformer(
    "small", n_layers=4, d_model=256, n_heads=4, n_kv_heads=2, d_ff=704, vocab_size=512, seq_len=128
)
print(f"{small.n_parameters:,} parameters, {flops.training_flop_per_token(small, 128):,} FLOP a token")

# %% tags=["measurement", "nbval-ignore-output"]
m, n, k = found.shape
a, b = torch.randn(m, k), torch.randn(k, n)
run = train(small, seq_len=128, n_sequences=8, budget_s=3.0, yardstick=lambda: a @ b, device="cpu")
print(run)
print("counted FLOP of a step as by formula:", run.counted_flop == run.formula_flop)
highest = found.shape.flop / statistics.median(run.yardstick_s)
print(f"highest matmul rate: {highest / 1e9:.0f} GFLOP/s; training: {run.flop_per_s / 1e9:.0f}")
reveal("mfu-small-transformer", 100 * run.flop_per_s / highest)

# %% [markdown]
# This share is not an MFU by the book: an MFU divides by the peak of a datasheet, this divides by what was measured. It is
# the better number for finding out what to improve. (It can pass 100 % only where the search had too little time.)
#
# Where is the rest? Before you run the cell: does the missing time go into matmuls that are too small, into everything that
# is no matmul, or into the optimizer?

# %% tags=["measurement", "nbval-ignore-output"]
step_s = statistics.median(run.step_s)
parts = {
    "matmuls, if they ran at the highest rate": run.formula_flop / highest,
    "more, since they are small": run.matmuls_alone_s - run.formula_flop / highest,
    "more, since the rest empties the caches": run.parts["matmuls"] * step_s - run.matmuls_alone_s,
    "optimizer": run.parts["optimizer"] * step_s,
    "softmax, norms, activations, copies": run.parts["everything else"] * step_s,
}
for part, seconds in parts.items():
    print(f"{part:42} {1e3 * seconds:7.1f} ms  {seconds / step_s:5.0%}")
print(f"{'one step':42} {1e3 * step_s:7.1f} ms")

# %% [markdown]
# A row below zero says that this machine was disturbed. On a virtual machine with Xeon cores (PyTorch 2.13, November 2026),
# training reached about half of the rate: the largest missing part, three tenths of the time, was in operators that count no FLOP at all. They move
# bytes; the chapter on memory is about them, and fusing them is how such a share grows. The wider a model, the more FLOP its
# matmuls have for each of those bytes: a model of three million parameters pays more for them than one of 70 billion.
#
# ### In words
#
# Your manager reads the list above and proposes to buy a machine whose matmuls are twice as fast. By your own numbers, how much
# faster would this training become at best? What would you do first, and which number would you print in the report: the
# share of the highest matmul rate, or the MFU by the datasheet?

# %% [markdown] tags=["written"] task="explain_gap" points=4
# *Your answer:*
#
# BEGIN ANSWER
# With my numbers, matmuls take six tenths of a step in all. Twice as fast, they save three tenths of the time: a step
# takes 70 %, so training becomes 1.4 times as fast, for a machine of twice the rate. The larger part of what can be won
# without buying is in the operators that count no FLOP: fuse them, or make the model wider, so that each of their bytes
# belongs to more FLOP. For finding out what to improve I print the share of the measured rate, because that is what the
# program could still reach; to compare with other people's machines, the MFU by the dense peak. I say which one it is.
# END ANSWER

# %% [markdown]
# ## Measure: feed the furnace
#
# A stoker who is too slow lets the best furnace go cold. Here each step computes for 20 ms, and a batch takes 60 ms to
# prepare. The formula: with $w$ processes that prepare batches, a step takes $\max(\text{compute}, \text{load} / w)$.

# %%
feed()

# %% tags=["measurement", "nbval-ignore-output"]
for n_workers in (0, 1, 2, 4):
    measured_s = fed_step_s(0.020, 0.060, n_workers, n_steps=12)
    modelled_s = utilization.fed_step_s(0.020, 0.060, n_workers)
    print(f"{n_workers} workers: {1e3 * measured_s:5.1f} ms a step, modelled {1e3 * modelled_s:5.1f} ms;", end=" ")
    print(f"the accelerator works {0.020 / measured_s:.0%} of the time")

# %% [markdown]
# ## Task 7: what is worth a look?
#
# Time and money are two measures. A plan that another one beats in both can be dropped at once; the others are worth a look.
# Each plan is a dict with `name`, `n_gpus`, `dense_tflops` (of one), `mfu_percent` and `usd_per_gpu_hour`. The run takes
# `flop`. Return the names, in the order given, of the plans that no other plan beats: none is at least as fast **and** at
# least as cheap for the whole run.


# %% tags=["answer"] task="worth_a_look"
def worth_a_look(flop, plans):
    """Names of the plans that no other one beats in time and money."""
    # BEGIN ANSWER
    measures = []
    for plan in plans:
        rate = plan["n_gpus"] * plan["dense_tflops"] * 1e12 * plan["mfu_percent"] / 100
        hours = flop / rate / 3600
        measures.append((hours, hours * plan["n_gpus"] * plan["usd_per_gpu_hour"]))
    kept = []
    for plan, (time, money) in zip(plans, measures, strict=True):
        beaten = any(t <= time and m <= money and (t, m) != (time, money) for t, m in measures)
        if not beaten:
            kept.append(plan["name"])
    return kept
    # END ANSWER


# %%
check("mfu", worth_a_look)

# %% [markdown]
# ## What to take away
#
# - Count the FLOP of the model, divide by time, machines and the **dense** peak: and say what you counted.
# - The gap has parts, and they can be measured: shapes, operators that count nothing, waiting for data.
# - Plan with $C = 6ND / (n \times \text{peak} \times \text{MFU})$, and ask what a day is worth before you choose $n$.

# %% tags=["nbval-ignore-output"]
show_calibration()
