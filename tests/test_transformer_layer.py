"""A layer's operators: their FLOP against the FLOP formulas, their bytes against the weights and the cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinfra import accelerators, flops, memory, models, roofline, transformer_layer

DENSE = [
    name for name in models.names() if not models.get(name).n_experts and not models.get(name).d_latent_kv
    and models.get(name).norms_per_layer == 2
]  # fmt: skip
MATMULS = ("queries, keys, values", "attention's output", "MLP, up and gate", "MLP, down")


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("seq_len", [1, 128, 1024])
def test_matmuls_of_all_layers_have_the_flop_of_the_formula(name, seq_len):
    model = models.get(name)
    operators = transformer_layer.prefill(model, seq_len, 3)
    forward = flops.forward_flop(model, seq_len, 3)
    assert model.n_layers * sum(operators[key].flop for key in MATMULS) == forward.projections + forward.mlp
    softmax_flop = roofline.softmax(3 * model.n_heads * seq_len, seq_len).flop
    assert model.n_layers * (operators["attention"].flop - softmax_flop) == forward.attention


@pytest.mark.parametrize("name", DENSE)
def test_decoding_one_token_reads_every_weight_and_the_whole_cache(name):
    model = models.get(name)
    operators = transformer_layer.decode(model, 1000)
    activations = sum(
        roofline.matmul(1, k, n).bytes - 2 * k * n
        for k, n in (
            (model.d_model, (model.n_heads + 2 * model.n_kv_heads) * model.d_head),
            (model.n_heads * model.d_head, model.d_model),
            (model.d_model, (model.mlp_matrices - 1) * model.d_ff),
            (model.d_ff, model.d_model),
        )
    )
    matrices = model.attention_parameters + model.mlp_parameters(model.d_ff)
    if model.biases:
        matrices -= (model.n_heads + 2 * model.n_kv_heads) * model.d_head + model.d_ff + 2 * model.d_model
    assert sum(operators[key].bytes for key in MATMULS) - activations == 2 * matrices
    assert model.n_layers * operators["attention"].bytes == memory.kv_cache_bytes(model, 1000)


@given(st.integers(1, 5000), st.integers(1, 64), st.sampled_from(["bf16", "fp8", "fp32"]))
def test_attention_of_decoding_has_one_intensity_whatever_the_batch(context, batch, dtype):
    one = transformer_layer.decode_attention(1, 32, 128, 8, 1, dtype).flop_per_byte
    assert transformer_layer.decode_attention(context, 32, 128, 8, batch, dtype).flop_per_byte == pytest.approx(one)


def test_time_is_the_sum_of_maxima_not_the_maximum_of_sums():
    chip, model = accelerators.get("H100 SXM"), models.get("Llama 3 8B")
    rates = chip.matmul_flop_per_s("bf16"), chip.memory_bytes_per_s
    operators = transformer_layer.prefill(model, 4096)
    times = [roofline.time_s(work, *rates) for work in operators.values()]
    assert transformer_layer.time_s(operators, *rates) == pytest.approx(sum(times), rel=1e-12)
    total = sum(operators.values(), roofline.Work(0, 0))
    assert transformer_layer.time_s(operators, *rates) > roofline.time_s(total, *rates)
    with_launches = transformer_layer.time_s(operators, *rates, launch_s=1e-6)
    assert with_launches == pytest.approx(sum(times) + 8e-6, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: transformer_layer.decode(models.get("Mixtral 8x7B"), 10), "Mixtral 8x7B has experts"),
        (lambda: transformer_layer.prefill(models.get("DeepSeek-V3"), 10), "DeepSeek-V3 has experts or latent"),
        (lambda: transformer_layer.decode(models.get("Llama 2 7B"), 0), "context must be .* at least 1, got 0"),
        (lambda: transformer_layer.decode(models.get("Llama 2 7B"), 9, 0), "n_sequences must be .* at least 1, got 0"),
        (lambda: transformer_layer.time_s({}, 1.0, 1.0, launch_s=-1.0), "launch_s must be .* at least 0, got -1.0"),
    ],
)
def test_bad_input_is_refused_by_name(call, says):
    with pytest.raises(ValueError, match=says):
        call()
