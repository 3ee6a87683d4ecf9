"""FLOP: counted ones against PyTorch's counter and published formulas, and limits."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

from aiinfra import flops, models, published
from aiinfra.measure.transformer import counted_flop
from aiinfra.models import Transformer

# name -> sequence length and sequences that PyTorch counts; between them every variant that `models` knows
COUNTED = {
    "Llama 2 7B": (4096, 2),
    "Llama 2 70B": (4096, 1),
    "Llama 3.1 405B": (8192, 1),
    "Llama 3.2 1B": (2048, 3),
    "Mixtral 8x7B": (4096, 1),
    "GPT-3 175B": (2048, 1),
    "PaLM 540B": (2048, 1),
    "BLOOM 176B": (2048, 1),
    "Megatron GPT 1.7B": (2048, 16),
}


@pytest.mark.parametrize(("name", "batch"), COUNTED.items())
def test_real_shapes_count_what_pytorch_counts(name, batch):
    """Cross-check: FlopCounterMode on the meta device, exactly. It counts all S x S scores."""
    model, forward = models.get(name), flops.forward_flop(models.get(name), *batch).total
    assert counted_flop(model, *batch) == (model.n_parameters, forward, forward + flops.backward_flop(forward))
    assert flops.training_flop_per_token(model, batch[0]) * math.prod(batch) == 3 * forward


def test_deepseek_v3_counts_what_pytorch_counts():
    """Latent attention, shared experts and dense leading layers, at full width; fewer layers and experts save time."""
    model = replace(models.get("DeepSeek-V3"), n_layers=5, n_experts=32)
    forward = flops.forward_flop(model, 1024).total
    assert counted_flop(model, 1024) == (model.n_parameters, forward, 3 * forward)


def test_a_fused_kernel_computes_the_scores_again():
    """PyTorch counts 5 matmuls in the backward pass of fused attention, 4 in that of the naive one."""
    model, shape = models.get("Llama 2 7B"), (1, 32, 4096, 128)
    attention = flops.forward_flop(model, 4096).attention // model.n_layers
    assert sdpa_flop_count(shape, shape, shape) == attention
    assert sdpa_backward_flop_count(shape, shape, shape, shape) == flops.backward_flop(attention) * 5 // 4


def test_recomputing_every_layer_counts_what_pytorch_counts():
    model = models.get("Megatron GPT 1.7B")
    counted = counted_flop(model, 2048, recompute=True)[2]
    assert counted == flops.hardware_flop_per_token(model, 2048, recomputation="full") * 2048


shapes = st.builds(
    lambda n_layers, n_kv, group, d_head, d_ff, vocab, gate, biases, tied: Transformer(
        "any", n_layers, n_kv * group * d_head, n_kv * group, n_kv, d_ff, vocab, 64,
        mlp_matrices=3 if gate else 2, biases=biases, tied_embeddings=tied,
    ),
    *(st.integers(1, 3) for _ in range(4)), st.integers(1, 40), st.integers(1, 50), *(st.booleans() for _ in range(3)),
)  # fmt: skip


@settings(max_examples=8, deadline=None)
@given(shapes, st.integers(1, 12), st.integers(1, 3))
def test_small_networks_that_really_run_count_the_same(model, seq_len, n_sequences):
    """Cross-check on the CPU: real tensors, not shapes alone."""
    forward = flops.forward_flop(model, seq_len, n_sequences).total
    assert counted_flop(model, seq_len, n_sequences, device="cpu")[1:] == (forward, 3 * forward)


@given(shapes, st.integers(1, 500), st.integers(1, 9))
def test_every_multiplied_weight_takes_two_flop_a_token(model, seq_len, n_sequences):
    """The parts outside attention's quadratic one, from the parameters: all but tables, norms and biases."""
    forward = flops.forward_flop(model, seq_len, n_sequences)
    bare = replace(model, biases=False)
    norms = (2 * bare.n_layers + 1) * bare.d_model
    looked_up = 0 if model.tied_embeddings else model.vocab_size * model.d_model
    multiplied = bare.n_parameters - norms - looked_up
    assert forward.total - forward.attention == 2 * multiplied * seq_len * n_sequences


@given(shapes, st.integers(1, 500))
def test_a_causal_mask_leaves_half_and_the_diagonal(model, seq_len):
    full, causal = (flops.forward_flop(model, seq_len, causal=causal) for causal in (False, True))
    assert causal.attention * 2 * seq_len == full.attention * (seq_len + 1)
    assert (causal.projections, causal.mlp, causal.logits) == (full.projections, full.mlp, full.logits)
    assert causal.total <= full.total


@given(shapes, st.integers(1, 500), st.integers(1, 9))
def test_batches_add_up_and_recomputation_only_adds(model, seq_len, n):
    assert flops.forward_flop(model, seq_len, n).total == n * flops.forward_flop(model, seq_len).total
    none, selective, full = (
        flops.hardware_flop_per_token(model, seq_len, recomputation=kind) for kind in flops.RECOMPUTATIONS
    )
    assert none == flops.training_flop_per_token(model, seq_len)
    assert none < selective < full <= none * 4 / 3


MEGATRON = published.get("megatron_weak_scaling")


@pytest.mark.parametrize("row", MEGATRON.rows, ids=lambda row: f"{row['n_parameters'] / 1e9:g}B")
def test_full_recomputation_is_the_formula_of_megatron(row):
    """Published: equation 3 of arXiv:2104.04473, F = 96 B s l h^2 (1 + s/6h + V/16lh), at the shapes of its table 1.

    The two agree to rounding, since both count matmuls and repeat all layers but not the head.
    """
    model = models.get(f"Megatron GPT {row['n_parameters'] / 1e9:g}B")
    s, h, layers, vocab = 2048, row["d_model"], row["n_layers"], 51200
    paper = 96 * row["global_batch"] * s * layers * h**2 * (1 + s / (6 * h) + vocab / (16 * layers * h))
    per_token = flops.hardware_flop_per_token(model, s, recomputation="full")
    assert per_token * s * row["global_batch"] == pytest.approx(paper, rel=1e-12)


@pytest.mark.parametrize("name", ["PaLM 540B", "GPT-3 175B", "MT-NLG 530B", "Llama 2 70B"])
def test_6n_and_12lhqt_a_token(name):
    """Published: appendix B of arXiv:2204.02311, 6 N + 12 L H Q T a token. It counts norms and looked-up tables, too:
    half a percent at most."""
    m = models.get(name)
    paper = flops.approximate_training_flop(m.n_parameters, 1) + 12 * m.n_layers * m.n_heads * m.d_head * m.seq_len
    exact = flops.training_flop_per_token(m, m.seq_len)
    assert 0.995 * paper < exact < paper


def test_6nd_and_8nd():
    assert flops.approximate_training_flop(70e9, 2e12) == 8.4e23
    assert flops.approximate_training_flop(70e9, 2e12, full_recomputation=True) == 11.2e23


GPT = models.get("Megatron GPT 1.7B")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: flops.matmul_flop(-1, 2, 3), "m must be a whole number of at least 0, got -1"),
        (lambda: flops.forward_flop(GPT, 0), "seq_len must be a whole number of at least 1, got 0"),
        (lambda: flops.forward_flop(GPT, 4096), "seq_len must be at most the 2048 positions of .* 1.7B, got 4096"),
        (lambda: flops.hardware_flop_per_token(GPT, 8, recomputation="some"), "recomputation 'some' is not known"),
        (lambda: flops.approximate_training_flop(0, 1e12), "n_parameters must be .* greater than 0, got 0"),
    ],
)
def test_bad_input_is_refused_by_name_and_value(call, says):
    with pytest.raises(ValueError, match=says):
        call()
