"""Tasks of the chapter `mfu`."""

import itertools

from aiinfra.checks.tasks import Misconception, Task
from aiinfra.flops import approximate_training_flop, forward_flop
from aiinfra.models import Transformer
from aiinfra.roofline import n_tiles, tile_efficiency, wave_efficiency
from aiinfra.training_cost import training_days, training_usd, unbeaten

# FLOP of a layer --------------------------------------------------------------------------------------------------


def _layer_inputs(rng):
    n_kv_heads, group, d_head = rng.choice((1, 2, 4, 8)), rng.choice((2, 4, 8)), rng.choice((64, 128))
    n_heads = n_kv_heads * group
    return n_heads * d_head, n_heads, n_kv_heads, rng.randrange(1024, 30000, 128), rng.choice((1024, 2048, 4096, 8192))


def _layer(d_model, n_heads, n_kv_heads, d_ff, seq_len, mlp_matrices=3):
    shape = Transformer("one layer", 1, d_model, n_heads, n_kv_heads, d_ff, 1, seq_len, mlp_matrices=mlp_matrices)
    return forward_flop(shape, seq_len)


LAYER = Task(
    name="layer_flop",
    reference=lambda *shape: _layer(*shape).layers,
    inputs=_layer_inputs,
    points=6,
    read_again="mfu.html#counting-flop",
    misconceptions=(
        Misconception(
            "multiply-add as one",
            lambda *shape: _layer(*shape).layers // 2,
            "This counts a multiply-add as one. It is two FLOP: a multiplication and an addition.",
        ),
        Misconception(
            "keys and values of every head",
            lambda d, h, k, f, s: _layer(d, h, h, f, s).layers,
            "This gives every query head its own keys and values. There are only n_kv_heads of them (GQA).",
        ),
        Misconception(
            "no gate",
            lambda d, h, k, f, s: _layer(d, h, k, f, s, mlp_matrices=2).layers,
            "This is an MLP of two matrices. SwiGLU has three: up, gate and down.",
        ),
        Misconception(
            "scores forgotten",
            lambda *shape: _layer(*shape).projections + _layer(*shape).mlp,
            "This counts the weights alone. Queries meet keys, and scores meet values: S x S pairs, without a weight.",
        ),
        Misconception(
            "half of attention",
            lambda *shape: _layer(*shape).layers - _layer(*shape).attention // 2,
            "Half of attention is missing: scores and weighted values are two products, over all S x S pairs here.",
        ),
        Misconception(
            "backward counted",
            lambda *shape: 3 * _layer(*shape).layers,
            "This is forward and backward. The question is one forward pass.",
        ),
    ),
)

# Parameters of a configuration ------------------------------------------------------------------------------------


def _configuration(rng):
    n_kv_heads, group = rng.choice((4, 8, 16)), rng.choice((2, 4, 8))
    n_heads = n_kv_heads * group
    return (
        {
            "hidden_size": 128 * n_heads,
            "intermediate_size": rng.randrange(4096, 30000, 256),
            "num_hidden_layers": rng.randint(16, 90),
            "num_attention_heads": n_heads,
            "num_key_value_heads": n_kv_heads,
            "vocab_size": rng.choice((32000, 50304, 128256)),
            "tie_word_embeddings": rng.random() < 0.5,
        },
    )


def _parameters(config, *, n_kv_heads=None, tied=None, mlp_matrices=3, norms_per_layer=2):
    return Transformer(
        "config",
        config["num_hidden_layers"],
        config["hidden_size"],
        config["num_attention_heads"],
        n_kv_heads or config["num_key_value_heads"],
        config["intermediate_size"],
        config["vocab_size"],
        4096,
        mlp_matrices=mlp_matrices,
        norms_per_layer=norms_per_layer,
        tied_embeddings=config["tie_word_embeddings"] if tied is None else tied,
    ).n_parameters


PARAMETERS = Task(
    name="n_parameters",
    reference=_parameters,
    inputs=_configuration,
    points=6,
    rel_tol=1e-9,
    read_again="mfu.html#six-and-more-real-models",
    misconceptions=(
        Misconception(
            "MHA for GQA",
            lambda config: _parameters(config, n_kv_heads=config["num_attention_heads"]),
            "This gives every query head its own keys and values. num_key_value_heads says how many there are.",
        ),
        Misconception(
            "no gate",
            lambda config: _parameters(config, mlp_matrices=2),
            "This is an MLP of two matrices. LLaMA's has three: gate, up and down.",
        ),
        Misconception(
            "embeddings the other way",
            lambda config: _parameters(config, tied=not config["tie_word_embeddings"]),
            "This has the embeddings the wrong way round: tied means that one table serves at both ends.",
        ),
        Misconception(
            "norms forgotten",
            lambda config: _parameters(config, norms_per_layer=0) - config["hidden_size"],
            "This leaves out the norms: two in each layer and one at the end, hidden_size weights each.",
        ),
    ),
)

# MFU with the right denominator -----------------------------------------------------------------------------------


def _run(rng):
    """A run on packages of two dies, and the rates that its datasheet prints for one package."""
    dense = round(rng.uniform(150, 400), 1)
    n_packages, n_parameters = rng.choice((64, 128, 256, 512)), rng.uniform(1e9, 70e9)
    training_s, mfu = rng.uniform(5e5, 5e6), rng.uniform(0.25, 0.45)
    return (
        {
            "n_parameters": round(n_parameters),
            "n_tokens": round(mfu * training_s * n_packages * dense * 1e12 / (6 * n_parameters)),
            "training_s": round(training_s),
            "billed_hours": round(training_s / 3600 * rng.uniform(1.1, 1.5), 1),
            "n_packages": n_packages,
            "n_devices": 2 * n_packages,
            "rates": [
                {"sparse": False, "sums": "fp32", "tflops": dense},
                {"sparse": False, "sums": "fp16", "tflops": round(2 * dense - 0.1, 1)},
                {"sparse": True, "sums": "fp32", "tflops": round(2 * dense + 0.1, 1)},
            ],
        },
    )


def _mfu(run, rate=0, n="n_packages", seconds=lambda run: run["training_s"], recompute=False):
    flop = approximate_training_flop(run["n_parameters"], run["n_tokens"], full_recomputation=recompute)
    return flop / (seconds(run) * run[n] * run["rates"][rate]["tflops"] * 1e12)


MFU = Task(
    name="mfu",
    reference=_mfu,
    inputs=_run,
    points=6,
    read_again="mfu.html#how-much-of-it-mfu-and-hfu",
    misconceptions=(
        Misconception(
            "sparse peak",
            lambda run: _mfu(run, rate=2),
            "This divides by the 2:4 sparse rate. The run multiplies every weight: take the dense one.",
        ),
        Misconception(
            "FP16 sums",
            lambda run: _mfu(run, rate=1),
            "This divides by the rate with FP16 sums. Training adds up in FP32.",
        ),
        Misconception(
            "package rate for each die",
            lambda run: _mfu(run, n="n_devices"),
            "This gives each device the rate of a whole package. A package is two devices: count packages.",
        ),
        Misconception(
            "hours with restarts",
            lambda run: _mfu(run, seconds=lambda run: 3600 * run["billed_hours"]),
            "This divides by the hours that were billed, restarts and evaluation included. Take the time in training.",
        ),
        Misconception(
            "recomputation as work",
            lambda run: _mfu(run, recompute=True),
            "This is HFU: it counts the recomputed forward pass. MFU counts 6 FLOP for a parameter and token.",
        ),
    ),
)

# Days and dollars -------------------------------------------------------------------------------------------------


def _cost(flop_per_parameter=6, factor=1.0, pay_for=None):
    """[days, USD] of a run; the arguments make the misconceptions."""

    def cost(n_parameters, n_tokens, n_gpus, peak_tflops, mfu_percent, usd_per_gpu_hour):
        flop = approximate_training_flop(n_parameters, n_tokens) * flop_per_parameter / 6
        peak, frac = peak_tflops * 1e12, mfu_percent / 100
        days = training_days(flop, n_gpus, peak, frac) * factor
        usd = training_usd(flop, peak, frac, usd_per_gpu_hour) * factor
        return [days, usd / n_gpus if pay_for == "one" else usd]

    return cost


COST = Task(
    name="cost_of_run",
    reference=_cost(),
    inputs=lambda rng: (
        round(rng.uniform(1e9, 400e9)),
        round(rng.uniform(1e11, 15e12)),
        rng.choice((64, 256, 1024, 4096)),
        rng.choice((312.0, 362.1, 989.4, 2250.0)),
        rng.randint(20, 60),
        round(rng.uniform(1, 12), 2),
    ),
    points=6,
    read_again="mfu.html#from-flop-to-days-and-dollars",
    misconceptions=(
        Misconception(
            "forward only",
            _cost(flop_per_parameter=2),
            "This is the forward pass alone, 2 FLOP for a parameter and token. Training takes 6.",
        ),
        Misconception(
            "recomputation on top",
            _cost(flop_per_parameter=8),
            "This adds recomputation. MFU is about model FLOP, so the time it costs is already in the MFU.",
        ),
        Misconception(
            "at the full peak",
            lambda n, d, gpus, peak, percent, usd: _cost()(n, d, gpus, peak, 100, usd),
            "This reckons with the full peak. Divide by the MFU: no run reaches it all.",
        ),
        Misconception(
            "percent as a share",
            _cost(factor=0.01),
            "This takes mfu_percent for a share: 40 per cent is 0.4.",
        ),
        Misconception(
            "rent of one",
            _cost(pay_for="one"),
            "This pays for one accelerator. All n_gpus are rented for those days.",
        ),
    ),
)

# The staircase ----------------------------------------------------------------------------------------------------


def _tiling(rng):
    tile_m, tile_n = rng.choice((64, 128, 256)), rng.choice((64, 128, 256))
    return rng.randint(300, 5000), rng.randint(300, 5000), tile_m, tile_n, rng.choice((80, 108, 114, 128, 132, 148))


def _waves_alone(m, n, tile_m, tile_n, n_sms):
    area = n_sms * tile_m * tile_n
    return m * n / (-(-m * n // area) * area)


def _last_wave(m, n, tile_m, tile_n, n_sms):
    return (n_tiles(m, n, tile_m, tile_n) % n_sms or n_sms) / n_sms


USEFUL = Task(
    name="useful_share",
    reference=wave_efficiency,
    inputs=_tiling,
    points=6,
    read_again="mfu.html#the-staircase",
    misconceptions=(
        Misconception(
            "tiles only",
            lambda m, n, tile_m, tile_n, n_sms: tile_efficiency(m, n, tile_m, tile_n),
            "This counts cut tiles only. The last wave, too, takes as long as a full one.",
        ),
        Misconception(
            "waves only",
            _waves_alone,
            "This counts by area. A tile that is cut short costs a whole one: round up in each direction first.",
        ),
        Misconception(
            "last wave alone",
            _last_wave,
            "This is how full the last wave is. The question is the share of the whole time, all waves together.",
        ),
    ),
)


def _measured_stairs(rng):
    """Sizes and the rates that were measured for them: time goes up by whole tiles, and a start costs time as well."""
    step, tiles = rng.choice((2, 4, 8)), rng.choice((6, 8, 12))
    tile = step * tiles
    sizes = list(range(step, tile * rng.randint(3, 6) + 1, step))
    start = rng.uniform(0.3, 1.5)
    return sizes, [round(n / (start - (-n // tile)), 6) for n in sizes]


def _drops(sizes, rates):
    pairs = itertools.pairwise(zip(sizes, rates, strict=True))
    return [(n, after) for (n, rate), (after, rate_after) in pairs if rate_after < rate]


READ = Task(
    name="tile_width",
    reference=lambda sizes, rates: _drops(sizes, rates)[0][0],
    inputs=_measured_stairs,
    points=4,
    read_again="mfu.html#the-staircase",
    misconceptions=(
        Misconception(
            "size after the drop",
            lambda sizes, rates: _drops(sizes, rates)[0][1],
            "This is the first size after the drop: it already needs one more tile. The full tile is the size before.",
        ),
        Misconception(
            "fastest size",
            lambda sizes, rates: max(zip(rates, sizes, strict=True))[1],
            "This is the fastest size: some whole number of tiles. The tile is the distance from one drop to the next.",
        ),
        Misconception(
            "number of steps",
            lambda sizes, rates: len(_drops(sizes, rates)) + 1,
            "This is how many steps there are. The question is how wide one is.",
        ),
    ),
)

# Two measures -----------------------------------------------------------------------------------------------------


def _plans(rng):
    return (
        rng.uniform(1e22, 1e24),
        [
            {
                "name": name,
                "n_gpus": rng.choice((128, 256, 512, 1024, 2048)),
                "dense_tflops": rng.choice((165.2, 312.0, 362.1, 989.4, 2250.0)),
                "mfu_percent": rng.randint(20, 60),
                "usd_per_gpu_hour": round(rng.uniform(0.4, 12), 2),
            }
            for name in "ABCDE"
        ],
    )


def _measures(flop, plan, mfu=True):
    frac, peak = (plan["mfu_percent"] / 100 if mfu else 1.0), plan["dense_tflops"] * 1e12
    return training_days(flop, plan["n_gpus"], peak, frac), training_usd(flop, peak, frac, plan["usd_per_gpu_hour"])


def _names(measures):
    """The answer that keeps the plans which none beats in the two `measures` of a plan."""

    def answer(flop, plans):
        return [plans[index]["name"] for index in unbeaten([measures(flop, plan) for plan in plans])]

    return answer


def _best_in(measure):
    return lambda flop, plans: [min(plans, key=lambda plan: _measures(flop, plan)[measure])["name"]]


WORTH = Task(
    name="worth_a_look",
    reference=_names(_measures),
    inputs=_plans,
    points=6,
    read_again="mfu.html#time-and-money",
    misconceptions=(
        Misconception(
            "fastest only",
            _best_in(0),
            "This keeps the fastest plan alone. A slower one that costs less is worth a look, too.",
        ),
        Misconception(
            "cheapest only",
            _best_in(1),
            "This keeps the cheapest plan alone. A dearer one that is done earlier is worth a look, too.",
        ),
        Misconception(
            "money by the hour",
            _names(lambda flop, plan: (_measures(flop, plan)[0], plan["n_gpus"] * plan["usd_per_gpu_hour"])),
            "This compares the price of an hour. What is paid is the price of all hours: faster plans need fewer.",
        ),
        Misconception(
            "MFU forgotten",
            _names(lambda flop, plan: _measures(flop, plan, mfu=False)),
            "This reckons with the full peak of each. Plans differ in how much of it they reach.",
        ),
    ),
)

TASKS = (LAYER, PARAMETERS, MFU, COST, USEFUL, READ, WORTH)
