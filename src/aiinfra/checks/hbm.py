"""Tasks of the chapter `hbm`."""

import math
from functools import partial

from aiinfra.checks.tasks import Misconception, Task
from aiinfra.memory import dram_bytes_per_s

# Bandwidth from pins ----------------------------------------------------------------------------------------------


def _pins(pin_gbit_per_s, interface_bits, n_stacks):
    return dram_bytes_per_s(pin_gbit_per_s * 1e9, interface_bits, n_stacks)


PINS = Task(
    name="bandwidth_from_pins",
    reference=_pins,
    inputs=lambda rng: (round(rng.uniform(1.0, 32.0), 2), rng.choice((32, 1024, 2048)), rng.randint(3, 12)),
    points=4,
    read_again="hbm.html#pins-times-rate",
    misconceptions=(
        Misconception(
            "bits for bytes",
            lambda pin, bits, n: 8 * _pins(pin, bits, n),
            "This is in bits per second. A pin sends one bit at a time: divide by 8.",
        ),
        Misconception(
            "one stack",
            lambda pin, bits, n: _pins(pin, bits, 1),
            "This is the rate of one stack. The chip has n_stacks of them, and all work at the same time.",
        ),
        Misconception(
            "doubled once more",
            lambda pin, bits, n: 2 * _pins(pin, bits, n),
            "This doubles for the two edges of the clock. The rate of a pin counts both edges already.",
        ),
        Misconception(
            "GB as GiB",
            lambda pin, bits, n: _pins(pin, bits, n) / 1e9 * 2**30,
            "This takes a Gbit for 2**30 bits. Rates are decimal: 1 Gbit/s is 1e9 bits per second.",
        ),
    ),
)

# Intensity of three operators -------------------------------------------------------------------------------------


def _intensities(m, k, n, value_bytes, fma=2, writes=1, activations=1, softmax_flop=5):
    """[matmul, softmax of its product, matrix times vector]; the other arguments make the misconceptions."""
    matmul = fma * m * k * n / (value_bytes * (activations * m * k + k * n + writes * activations * m * n))
    softmax = softmax_flop / (value_bytes * (1 + writes))
    vector = fma * k * n / (value_bytes * (activations * k + k * n + writes * activations * n))
    return [matmul, softmax, vector]


INTENSITIES = Task(
    name="intensities",
    reference=_intensities,
    inputs=lambda rng: (rng.randint(2, 4000), rng.randint(64, 1000), rng.randint(64, 1000), rng.choice((2, 4))),
    points=6,
    rel_tol=1e-4,
    read_again="hbm.html#work-for-every-byte",
    misconceptions=(
        Misconception(
            "multiply-add as one",
            partial(_intensities, fma=1),
            "The matmuls count a multiply-add as one operation. It is two FLOP.",
        ),
        Misconception(
            "writes forgotten",
            partial(_intensities, writes=0),
            "This counts what is read and not what is written. A result crosses the bus, too.",
        ),
        Misconception(
            "softmax only read",
            lambda m, k, n, w: [_intensities(m, k, n, w)[0], 5 / w, _intensities(m, k, n, w)[2]],
            "The matmuls are right. The softmax reads its m x n values and also writes as many.",
        ),
        Misconception(
            "weights alone",
            partial(_intensities, activations=0),
            "This counts the bytes of the weights alone. The input is read and the product is written as well.",
        ),
        Misconception(
            "values for bytes",
            lambda m, k, n, value_bytes: _intensities(m, k, n, 1),
            "This does not count value_bytes for each value: intensity is FLOP per byte.",
        ),
        Misconception(
            "bytes per FLOP",
            lambda *shape: [1 / intensity for intensity in _intensities(*shape)],
            "This is upside down: intensity is FLOP divided by bytes.",
        ),
    ),
)

# Time of a transformer layer --------------------------------------------------------------------------------------


def _work(operator, value_bytes):
    """(FLOP, bytes) of one operator of the lab's kind."""
    if operator["kind"] == "matmul":
        m, k, n = operator["m"], operator["k"], operator["n"]
        return 2 * m * k * n, value_bytes * (m * k + k * n + m * n)
    n_moved = operator["n_read"] + operator["n_written"]
    return operator["n"] * operator["flop_per_value"], operator["n"] * n_moved * value_bytes


def _layer(combine):
    """Time of a list of operators; `combine` takes lists of seconds of computing and of moving bytes."""

    def layer_s(operators, value_bytes, peak_flop_per_s, bytes_per_s):
        works = [_work(operator, value_bytes) for operator in operators]
        return combine([flop / peak_flop_per_s for flop, _ in works], [moved / bytes_per_s for _, moved in works])

    return layer_s


def _layer_inputs(rng):
    n_tokens, d_model, d_ff = rng.choice((8, 64, 512, 2048)), rng.randint(8, 64) * 64, rng.randint(16, 128) * 64
    elementwise = {"kind": "elementwise", "n_written": 1}
    operators = [
        {**elementwise, "name": "norm", "n": n_tokens * d_model, "flop_per_value": 7, "n_read": 1},
        {"kind": "matmul", "name": "up", "m": n_tokens, "k": d_model, "n": d_ff},
        {**elementwise, "name": "GELU", "n": n_tokens * d_ff, "flop_per_value": 8, "n_read": 1},
        {"kind": "matmul", "name": "down", "m": n_tokens, "k": d_ff, "n": d_model},
        {**elementwise, "name": "add", "n": n_tokens * d_model, "flop_per_value": 1, "n_read": 2},
    ]
    return operators, rng.choice((1, 2, 4)), rng.uniform(20e12, 1000e12), rng.uniform(0.3e12, 5e12)


_layer_s = _layer(lambda compute, move: math.fsum(map(max, compute, move)))

LAYER = Task(
    name="layer_s",
    reference=_layer_s,
    inputs=_layer_inputs,
    points=6,
    read_again="hbm.html#the-roofline",
    misconceptions=(
        Misconception(
            "maximum of the sums",
            _layer(lambda compute, move: max(math.fsum(compute), math.fsum(move))),
            "This is the larger of two sums: all computing, or all moving. But each operator waits for its own bytes: "
            "take the larger one for each operator and add those up.",
        ),
        Misconception(
            "the slowest operator",
            _layer(lambda compute, move: max(map(max, compute, move))),
            "This is the time of the slowest operator. They run one after the other: add them up.",
        ),
        Misconception(
            "no overlap",
            _layer(lambda compute, move: math.fsum(compute) + math.fsum(move)),
            "This adds computing and moving bytes. The roofline lets them overlap: take the longer one.",
        ),
        Misconception(
            "matmuls alone",
            lambda operators, *rest: _layer_s([op for op in operators if op["kind"] == "matmul"], *rest),
            "This counts the matmuls alone. The elementwise operators have few FLOP and many bytes.",
        ),
    ),
)

# The batch that turns a matmul compute-bound ----------------------------------------------------------------------


def _intensity(batch, k, n, value_bytes):
    return 2 * batch * k * n / (value_bytes * (batch * k + k * n + batch * n))


def _first_batch(k, n, value_bytes, peak_flop_per_s, bytes_per_s):
    """Smallest batch whose intensity reaches the ridge, by bisection: no formula that a learner could share."""
    ridge, low, high = peak_flop_per_s / bytes_per_s, 0, 1
    while _intensity(high, k, n, value_bytes) < ridge:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _intensity(middle, k, n, value_bytes) >= ridge else (middle, high)
    return high


def _batch_inputs(rng):
    value_bytes = rng.choice((1, 4, 8))
    ridge = rng.uniform(40, 200)
    k, n = (int(value_bytes * ridge * rng.uniform(3, 12)) for _ in range(2))
    bytes_per_s = rng.uniform(0.5e12, 5e12)
    return k, n, value_bytes, ridge * bytes_per_s, bytes_per_s


BATCH = Task(
    name="compute_bound_batch",
    reference=_first_batch,
    inputs=_batch_inputs,
    points=6,
    read_again="hbm.html#how-large-a-batch",
    misconceptions=(
        Misconception(
            "the ridge itself",
            lambda k, n, value_bytes, peak, rate: math.ceil(peak / rate),
            "This is the ridge, in FLOP per byte. It is the batch only for 2-byte values and endless matrices.",
        ),
        Misconception(
            "weights alone",
            lambda k, n, value_bytes, peak, rate: math.ceil(peak / rate * value_bytes / 2),
            "This counts the bytes of the weights alone. A larger batch also reads and writes more activations.",
        ),
        Misconception(
            "multiply-add as one",
            lambda k, n, value_bytes, peak, rate: _first_batch(k, n, value_bytes, 2 * peak, rate),
            "This counts a multiply-add as one operation, and so finds about twice the batch. It is two FLOP.",
        ),
        Misconception(
            "one too few",
            lambda k, n, value_bytes, peak, rate: _first_batch(k, n, value_bytes, peak, rate) - 1,
            "This batch is still bound by memory: round up, so that the ridge is reached.",
        ),
    ),
)


# Online softmax ---------------------------------------------------------------------------------------------------


def _online(blocks):
    scores = [score for block in blocks for score in block]
    maximum = max(scores)
    return [maximum, math.fsum(math.exp(score - maximum) for score in scores)]


def _block_sums(blocks):
    """(maximum, sum of exp(score - maximum)) of each block by itself."""
    return [(max(block), math.fsum(math.exp(score - max(block)) for score in block)) for block in blocks]


def _growing(blocks, factor):
    """One pass that shrinks the sum by `factor(old, new)` when the maximum grows, wrongly."""
    maximum, total = -math.inf, 0.0
    for block in blocks:
        larger = max(maximum, *block)
        total = total * factor(maximum, larger) if total else 0.0
        total += math.fsum(math.exp(score - larger) for score in block)
        maximum = larger
    return [maximum, total]


def _blocks(rng):
    """Blocks of scores whose maximum grows at least once and never by so much that a sum is lost."""
    return ([[round(rng.uniform(-6, 6) + rng.choice((0, 3)), 3) for _ in range(rng.randint(2, 6))] for _ in range(4)],)


ONLINE = Task(
    name="online_softmax",
    reference=_online,
    inputs=_blocks,
    points=6,
    read_again="hbm.html#flashattention-or-a-softmax-in-one-pass",
    misconceptions=(
        Misconception(
            "sums not shrunk",
            lambda blocks: _growing(blocks, lambda old, new: 1.0),
            "This keeps the old sum when the maximum grows. Its terms were exp(score - old maximum): shrink it by "
            "exp(old - new).",
        ),
        Misconception(
            "shrunk the wrong way",
            lambda blocks: _growing(blocks, lambda old, new: math.exp(new - old)),
            "This grows the old sum. The new maximum is larger, so the old terms become smaller: exp(old - new).",
        ),
        Misconception(
            "blocks added up",
            lambda blocks: [max(m for m, _ in _block_sums(blocks)), math.fsum(s for _, s in _block_sums(blocks))],
            "This adds sums that stand on different maxima. Bring both to the larger maximum before you add.",
        ),
        Misconception(
            "no maximum",
            lambda blocks: [max(map(max, blocks)), math.fsum(math.exp(score) for block in blocks for score in block)],
            "This sums exp(score) as it is. exp(100) is more than FP32 can hold: subtract the largest score first.",
        ),
        Misconception(
            "last block's maximum",
            lambda blocks: [
                max(blocks[-1]),
                math.fsum(math.exp(s - max(blocks[-1])) for block in blocks for s in block),
            ],
            "This ends with the maximum of the last block. Keep the largest score of all blocks so far.",
        ),
    ),
)

# Bytes of attention -----------------------------------------------------------------------------------------------


def _attention_bytes(s, heads, d, value_bytes, score_passes=4, ends=4, square=True):
    per_head = ends * s * d
    scores = score_passes * (s * s if square else s * d)
    return [heads * value_bytes * (per_head + scores), heads * value_bytes * per_head]


ATTENTION = Task(
    name="attention_bytes",
    reference=_attention_bytes,
    inputs=lambda rng: (rng.randint(64, 8192), rng.randint(2, 64), rng.choice((32, 80, 96, 128)), rng.choice((2, 4))),
    points=6,
    read_again="hbm.html#flashattention-or-a-softmax-in-one-pass",
    misconceptions=(
        Misconception(
            "scores once",
            partial(_attention_bytes, score_passes=1),
            "This lets the S x S matrix cross the bus once. It is written and read as scores, and again as weights.",
        ),
        Misconception(
            "scores not read again",
            partial(_attention_bytes, score_passes=2),
            "This writes scores and weights and forgets that the next kernel reads each of them: four times S x S.",
        ),
        Misconception(
            "result forgotten",
            partial(_attention_bytes, ends=3),
            "This reads queries, keys and values and forgets to write the result: four times S x d.",
        ),
        Misconception(
            "one head",
            lambda s, heads, d, value_bytes: _attention_bytes(s, 1, d, value_bytes),
            "This is one head. Each of the n_heads has its own scores.",
        ),
        Misconception(
            "values for bytes",
            lambda s, heads, d, value_bytes: _attention_bytes(s, heads, d, 1),
            "This counts values. Each takes value_bytes bytes.",
        ),
    ),
)

TASKS = (PINS, INTENSITIES, LAYER, BATCH, ATTENTION, ONLINE)
