"""Memory: published bandwidths, states and activations, limits, and bytes that PyTorch really keeps."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aiinfra import accelerators, dram, memory, models, precision, published

BUILT = [name for name in accelerators.names() if accelerators.get(name).has("memory_pin_rate")]


@pytest.mark.parametrize("name", BUILT)
def test_bandwidth_is_what_the_pins_deliver(name):
    """Published: memory bandwidths of the catalogue, against the clocks that drivers report.

    2.5 %: datasheets print few digits, and round down (H100 PCIe 2.039 to 2 TB/s, H200 4.92 to 4.8).
    """
    chip = accelerators.get(name)
    assert memory.built_bytes_per_s(chip) == pytest.approx(chip.memory_bytes_per_s, rel=0.025)
    assert memory.built_bytes_per_s(chip) > 0.99 * chip.memory_bytes_per_s


def test_shipping_parts_do_not_run_beyond_their_standards_highest_rate():
    """But for rounding: the A100's HBM2 runs at 2.43 Gbit/s a pin, where the standard says 2.4."""
    assert len(BUILT) >= 9
    for name in BUILT:
        chip = accelerators.get(name)
        standard = dram.get(chip.value("memory_type")) if chip.value("memory_type") in dram.names() else None
        if standard and standard.name not in ("GDDR6", "GDDR6X"):  # whose makers went beyond what they first sold
            assert 8 * chip.value("memory_pin_rate") < 1.02 * standard.pin_bits_per_s


@pytest.mark.parametrize(
    ("name", "gb_per_s"),
    [("HBM", 128), ("HBM2", 307.2), ("HBM2e", 460.8), ("HBM3", 819.2), ("HBM3e", 1228.8), ("HBM4", 2048), ("GDDR6", 64),
     ("GDDR6X", 84), ("GDDR7", 192)],
)  # fmt: skip
def test_standards_give_the_bandwidths_that_their_announcements_print(name, gb_per_s):
    """Published: one stack or chip; 128 to 1,229 GB/s and 2 TB/s for HBM, 64, 84 and 192 GB/s for GDDR."""
    standard = dram.get(name)
    assert memory.dram_bytes_per_s(standard.pin_bits_per_s, standard.interface_bits) == pytest.approx(gb_per_s * 1e9)


@pytest.mark.parametrize(
    ("name", "gib"), [("HBM", 4), ("HBM2", 24), ("HBM2e", 24), ("HBM3", 64), ("HBM3e", 48), ("HBM4", 64)]
)
def test_the_largest_stack_of_each_generation(name, gib):
    found = memory.stack_bytes(int(dram.value(name, "n_dies")), 8 * dram.value(name, "die"))
    assert found == gib * 2**30


def test_the_hierarchy_grows_and_slows_down():
    levels = memory.hierarchy(accelerators.get("H100 SXM"))
    assert [level.name for level in levels] == ["registers", "L1 and shared memory", "L2", "memory"]
    assert levels[0].bytes == 132 * 256 * 2**10
    assert levels[1].bytes_per_s == pytest.approx(132 * 128 * 1.98e9, rel=1e-12)
    latencies = [level.latency_s for level in levels if level.latency_s]
    assert latencies == sorted(latencies)
    a100 = {level.name: level.bytes_per_s for level in memory.hierarchy(accelerators.get("A100 80GB SXM"))}
    assert a100["L1 and shared memory"] > a100["L2"] > a100["memory"]


def test_the_flash_attention_papers_rate_of_on_chip_memory():
    """Published: section 2.1 of arXiv:2205.14135: 19 TB/s for the A100's SRAM, to two digits."""
    level = {level.name: level for level in memory.hierarchy(accelerators.get("A100 80GB SXM"))}["L1 and shared memory"]
    assert f"{level.bytes_per_s / 1e12:.0f}" == "19"


def test_measured_streams_stay_below_the_datasheet():
    measured = [
        accelerators.get(name) for name in accelerators.names() if accelerators.get(name).has("scale_bandwidth")
    ]
    assert len(measured) >= 5
    assert all(0.7 < chip.value("scale_bandwidth") / chip.memory_bytes_per_s < 0.95 for chip in measured)


@pytest.mark.parametrize(("pin_gbit", "gb_per_s"), [(1.0, 128), (2.0, 256), (3.6, 460.8), (6.4, 819.2), (9.6, 1228.8)])
def test_one_stack_of_each_generation(pin_gbit, gb_per_s):
    """Published: the standards' highest rates, HBM to HBM3e, 1,024 pins a stack."""
    assert memory.dram_bytes_per_s(pin_gbit * 1e9, 1024) == pytest.approx(gb_per_s * 1e9, rel=1e-12)


@given(st.floats(1e8, 1e11), st.integers(1, 4096), st.integers(1, 16))
def test_stacks_add_up(pin, pins, n):
    one = memory.dram_bytes_per_s(pin, pins)
    assert memory.dram_bytes_per_s(pin, pins, n) == pytest.approx(n * one, rel=1e-12)
    assert memory.dram_bytes_per_s(pin, n * pins) == pytest.approx(n * one, rel=1e-12)


@pytest.mark.parametrize(
    ("recipe", "bytes_per_parameter"),
    [
        ({}, 16),
        ({"gradients": "fp32"}, 18),
        ({"weights": "fp32", "gradients": "fp32", "master": None}, 16),
        ({"optimizer": "momentum"}, 12),
        ({"optimizer": "sgd", "master": None}, 4),
        ({"state": "int8"}, 10),
        ({"state": "bf16", "master": None}, 8),
    ],
)
def test_recipes_of_training(recipe, bytes_per_parameter):
    assert memory.training_state(1e9, **recipe).total_bytes == bytes_per_parameter * 1e9


ZERO = published.get("zero_model_states")


@pytest.mark.parametrize("row", ZERO.rows, ids=lambda row: f"dp{row['dp']:g}")
@pytest.mark.parametrize("size", ["7.5B", "128B", "1T"])
def test_parts_of_the_state_are_those_that_zero_divides(row, size):
    """Published: table 1 of arXiv:1910.02054: optimizer, gradients and weights divided one after the other.

    One unit of the last printed digit: some cells are cut off, some rounded.
    """
    parts = memory.training_state({"7.5B": 7.5e9, "128B": 128e9, "1T": 1e12}[size])
    expected = {
        "os": parts.optimizer_bytes / row["dp"] + parts.gradient_bytes + parts.weight_bytes,
        "osg": (parts.optimizer_bytes + parts.gradient_bytes) / row["dp"] + parts.weight_bytes,
        "osgp": parts.total_bytes / row["dp"],
    }
    for stage, value in expected.items():
        printed = row[f"p{size}_{stage}"]
        digit = 1e9 if printed >= 128e9 else 0.1e9 if printed >= 10e9 else 0.01e9
        assert value == pytest.approx(printed, abs=digit)


def test_a_tiny_network_and_its_optimizer_keep_those_bytes():
    """Cross-check: PyTorch's own Adam in fp32, whose step counters are left out."""
    network = torch.nn.Linear(40, 30)
    optimizer = torch.optim.Adam(network.parameters())
    network(torch.ones(2, 40)).sum().backward()
    optimizer.step()
    weights = list(network.parameters())
    moments = [value for state in optimizer.state.values() for value in state.values() if value.dim()]
    n = sum(weight.numel() for weight in weights)
    state = memory.training_state(n, weights="fp32", gradients="fp32", master=None)
    assert sum(weight.nbytes for weight in weights) == state.weight_bytes == memory.weight_bytes(n, "fp32")
    assert sum(weight.grad.nbytes for weight in weights) == state.gradient_bytes
    assert sum(moment.nbytes for moment in moments) == state.optimizer_bytes


# heads, width, layers, micro-batch, pipeline stages and chunks a stage: arXiv:2205.05198, table 3
SHAPES = {
    "22B": (64, 6144, 48, 4, 1, 1),
    "175B": (96, 12288, 96, 1, 8, 3),
    "530B": (128, 20480, 105, 1, 35, 3),
    "1T": (160, 25600, 128, 1, 64, 1),
}


def layer_bytes(name, **how):
    heads, d_model, _, micro_batch, _, _ = SHAPES[name]
    return memory.activation_bytes_per_layer(2048, micro_batch, d_model, heads, tp=8, **how)


ACTIVATIONS = {row["model"]: row for row in published.get("activation_memory").rows}


@pytest.mark.parametrize("name", SHAPES)
def test_activations_of_a_whole_device(name):
    """Published: figure 7 of arXiv:2205.05198, within half of the last printed digit.

    The first stage holds the activations of all layers' worth of micro-batches, and interleaving adds
    (p - 1)/(p m) of that for m chunks.
    """
    _, _, n_layers, _, pp, chunks = SHAPES[name]
    held = n_layers * (1 + (pp - 1) / (pp * chunks) if chunks > 1 else 1) / 2**30
    both = {"recomputation": "selective", "sequence_parallel": True}
    printed = ACTIVATIONS[name]
    assert layer_bytes(name) * held == pytest.approx(printed["activations"] / 2**30, abs=0.0051)
    assert layer_bytes(name, **both) * held == pytest.approx(printed["activations_both"] / 2**30, abs=0.0051)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    ("column", "how"),
    [
        ("sequence_percent", {"sequence_parallel": True}),
        ("selective_percent", {"recomputation": "selective"}),
        ("both_percent", {"recomputation": "selective", "sequence_parallel": True}),
        ("full_percent", {"recomputation": "full"}),
    ],
)
def test_activations_as_a_share(name, column, how):
    """Published: figure 1 of arXiv:2205.05198, read off its bars: a quarter of a percentage point."""
    share = 100 * layer_bytes(name, **how) / layer_bytes(name)
    assert share == pytest.approx(ACTIVATIONS[name][column], abs=0.25)


@pytest.mark.parametrize(("s", "b", "h", "a"), [(16, 2, 32, 4), (32, 1, 64, 8), (8, 3, 48, 3)])
def test_a_gpt_layer_keeps_those_bytes(s, b, h, a):
    """Cross-check: everything that PyTorch saves for the backward pass of one layer in bf16, but weights and the
    statistics of norms (one number or two a token)."""
    kept, alive = {}, []

    layer = GPTLayer(h, a).to(torch.bfloat16)
    weights = {weight.untyped_storage().data_ptr() for weight in layer.parameters()}

    def save_activation(tensor):
        pointer = tensor.untyped_storage().data_ptr()
        alive.append(tensor)  # so that no address is used twice
        if pointer not in weights and tensor.numel() > b * s:
            kept[pointer] = tensor.nbytes
        return tensor

    x_BSD = torch.randn(b, s, h, dtype=torch.bfloat16, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(save_activation, lambda tensor: tensor):
        layer(x_BSD)
    assert sum(kept.values()) == memory.activation_bytes_per_layer(s, b, h, a)


class GPTLayer(torch.nn.Module):
    """A GPT layer with dropout in three places, whose masks take a byte each, as on a GPU."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        linear = torch.nn.Linear
        self.n_heads = n_heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(d_model) for _ in range(2))
        self.qkv = torch.nn.ModuleList(linear(d_model, d_model) for _ in range(3))
        self.out, self.up, self.down = (
            linear(d_model, d_model), linear(d_model, 4 * d_model), linear(4 * d_model, d_model),
        )  # fmt: skip

    def forward(self, x_BSD):
        x_BSD = x_BSD + drop(self.attention(self.norms[0](x_BSD)))
        return x_BSD + drop(self.down(torch.nn.functional.gelu(self.up(self.norms[1](x_BSD)))))

    def attention(self, x_BSD):
        query, key, value = (part(x_BSD).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in self.qkv)
        weights_BHSS = drop((query @ key.transpose(2, 3)).softmax(dim=-1))
        return self.out((weights_BHSS @ value).transpose(1, 2).flatten(2))


def drop(x):
    return torch.native_dropout(x, 0.1, True)[0]


KV_BYTES_PER_TOKEN = {  # of a 16-bit cache
    "Llama 2 7B": 32 * 2 * 4096 * 2,
    "Llama 2 70B": 80 * 2 * 1024 * 2,
    "PaLM 540B": 118 * 2 * 256 * 2,
    "DeepSeek-V3": 61 * (512 + 64) * 2,
}


@pytest.mark.parametrize(("name", "expected"), KV_BYTES_PER_TOKEN.items())
def test_kv_cache_of_a_token(name, expected):
    """Layers x (keys and values, or latent and rotary key) x 2 bytes: all heads, grouped, one head, latent."""
    assert memory.kv_cache_bytes(models.get(name), 1) == expected


@given(st.sampled_from(models.names()), st.integers(0, 10**6), st.integers(0, 1000), st.sampled_from(precision.NAMES))
def test_kv_cache_is_proportional(name, n_tokens, n_sequences, dtype):
    model = models.get(name)
    one = memory.kv_cache_bytes(model, 1, 1, dtype)
    assert memory.kv_cache_bytes(model, n_tokens, n_sequences, dtype) == one * n_tokens * n_sequences


def test_one_head_of_keys_keeps_a_share():
    model = models.get("Llama 2 7B")
    assert 32 * memory.kv_cache_bytes(replace(model, n_kv_heads=1), 100) == memory.kv_cache_bytes(model, 100)


@given(st.integers(1, 64), st.integers(1, 4), st.integers(1, 8), st.integers(1, 8), st.sampled_from([1, 2, 4]))
def test_recomputing_more_keeps_less(s, b, d_head, groups, tp):
    heads = 4 * groups
    shape = (s, b, heads * d_head, heads)
    none, selective, full = (
        memory.activation_bytes_per_layer(*shape, recomputation=kind, tp=tp) for kind in memory.RECOMPUTATIONS
    )
    assert none > selective > full
    divided = memory.activation_bytes_per_layer(*shape, tp=tp, sequence_parallel=True)
    assert divided * tp == pytest.approx(memory.activation_bytes_per_layer(*shape), rel=1e-12)


LLAMA = models.get("Llama 2 7B")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: memory.dram_bytes_per_s(-1.0, 1024), "pin_bits_per_s must be .* at least 0, got -1.0"),
        (lambda: memory.dram_bytes_per_s(1e9, 0), "interface_bits must be .* at least 1, got 0"),
        (lambda: memory.built_bytes_per_s(accelerators.get("TPU v4")), "TPU v4 has no memory_interface"),
        (lambda: dram.get("HBM2E"), "memory 'HBM2E' is not known; nearest: .*'HBM2e'"),
        (lambda: dram.value("HBM3", "read_bandwidth"), "memory.csv has no read_bandwidth of 'HBM3'"),
        (lambda: memory.stack_bytes(2.5, 1e9), "n_dies must be a whole number of at least 1, got 2.5"),
        (lambda: memory.weight_bytes(math.nan), "n_parameters must be a finite number .*, got nan"),
        (lambda: memory.weight_bytes(1e9, "bf61"), "dtype 'bf61' is not known; nearest: 'bf16'"),
        (lambda: memory.training_state(1e9, optimizer="adma"), "optimizer 'adma' is not known; nearest: 'adam'"),
        (lambda: memory.activation_bytes_per_layer(8, 1, 64, 4, recomputation="part"), "recomputation 'part' is not"),
        (lambda: memory.activation_bytes_per_layer(8, 1, 64, 4, tp=3), "tp must divide n_heads, got tp=3, n_heads=4"),
        (lambda: memory.activation_bytes_per_layer(8, 0, 64, 4), "micro_batch must be .* at least 1, got 0"),
        (lambda: memory.kv_cache_bytes(LLAMA, -1), "n_tokens must be a whole number of at least 0, got -1"),
    ],
)
def test_bad_input_is_refused_by_name_and_value(call, says):
    with pytest.raises(ValueError, match=says):
        call()
