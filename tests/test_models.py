"""Transformers: counted parameters against published ones, against the papers' own formulas, and at the limits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinfra import models
from aiinfra.models import Transformer
from aiinfra.units import UNITS

# "70B" is a name: the checkpoint has 68,976,648,192 parameters, as Meta's 7B has 6.7 and its 13B 13.0 billion.
NAMED_BY_SIZE = {"Llama 2 70B"}


def last_digit(number):
    """One unit of the last printed digit, in base units: authors round some counts and truncate others."""
    _, _, decimals = number.printed.partition(".")
    return UNITS[number.unit][1] * 10.0 ** -len(decimals)


@pytest.mark.parametrize("name", models.names())
def test_counted_parameters_are_the_published_ones(name):
    """Published: the source of each row in models.csv. Tolerance: one unit of the last printed digit."""
    expected = models.published(name)
    actual = models.get(name).n_parameters
    tolerance = 0.02 * expected.value if name in NAMED_BY_SIZE else last_digit(expected)
    assert abs(actual - expected.value) < tolerance or actual == expected.value


@pytest.mark.parametrize("name", ["Mixtral 8x7B", "DeepSeek-V3"])
def test_counted_active_parameters_are_the_published_ones(name):
    expected = models.published(name, "n_active_parameters")
    assert abs(models.get(name).n_active_parameters - expected.value) < last_digit(expected)


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("Llama 2 7B", 6_738_415_616),
        ("Llama 2 70B", 68_976_648_192),
        ("BLOOM 176B", 176_247_271_424),
        ("Mixtral 8x7B", 46_702_792_704),
        ("Llama 3.1 405B", 405_853_388_800),
    ],
)
def test_counted_parameters_are_exact(name, exact):
    """Published: the sizes of the checkpoints (bytes of the weight files over two); BLOOM's model card."""
    assert models.get(name).n_parameters == exact


MEGATRON = [name for name in models.names() if name.startswith("Megatron")]


@pytest.mark.parametrize("name", MEGATRON)
def test_megatron_shapes_follow_the_formula_of_their_paper(name):
    """P = 12 l h^2 (1 + 13/12h + (V + s)/12lh), equation 2 of arXiv:2104.04473, which leaves out the last norm."""
    m = models.get(name)
    bracket = 1 + 13 / (12 * m.d_model) + (m.vocab_size + m.seq_len) / (12 * m.n_layers * m.d_model)
    assert m.n_parameters - 2 * m.d_model == pytest.approx(12 * m.n_layers * m.d_model**2 * bracket, rel=1e-12)


shapes = st.builds(
    lambda n_layers, n_kv, group, d_head, d_ff, vocab: Transformer(
        "any", n_layers, n_kv * group * d_head, n_kv * group, n_kv, d_ff, vocab, 128
    ),
    *(st.integers(1, 8) for _ in range(4)),
    st.integers(1, 512),
    st.integers(1, 1000),
)


@given(shapes)
def test_parameters_are_the_matrices_one_by_one(m):
    """Cross-check: every weight of a LLaMA written out as (rows, columns), summed."""
    d, kv = m.d_model, m.n_kv_heads * m.d_head
    layer = [(d, d), (d, kv), (d, kv), (d, d), (d, m.d_ff), (d, m.d_ff), (m.d_ff, d), (d, 1), (d, 1)]
    matrices = [(m.vocab_size, d), (m.vocab_size, d), (d, 1), *layer * m.n_layers]
    assert m.n_parameters == sum(math.prod(shape) for shape in matrices)


@given(shapes, st.integers(1, 16), st.integers(1, 300))
def test_one_expert_of_the_same_width_is_a_dense_model_with_a_router(m, top, d_expert):
    base = {**vars(m), "d_head": m.d_head}
    one = Transformer(**{**base, "n_experts": 1, "n_experts_per_token": 1, "d_expert": m.d_ff})
    assert one.n_parameters == one.n_active_parameters == m.n_parameters + m.n_layers * m.d_model
    many = Transformer(**{**base, "n_experts": 16, "n_experts_per_token": top, "d_expert": d_expert})
    idle = (16 - top) * m.n_layers * m.mlp_parameters(d_expert)
    assert many.n_parameters - many.n_active_parameters == idle


@given(shapes)
def test_tying_saves_one_table_and_grouping_saves_keys_and_values(m):
    tied = Transformer(**{**vars(m), "tied_embeddings": True})
    assert m.n_parameters - tied.n_parameters == m.vocab_size * m.d_model
    mha = Transformer(**{**vars(m), "n_kv_heads": m.n_heads})
    saved = 2 * m.n_layers * m.d_model * (m.n_heads - m.n_kv_heads) * m.d_head
    assert mha.n_parameters - m.n_parameters == saved


def test_palm_has_heads_wider_than_its_share_of_the_model():
    palm = models.get("PaLM 540B")
    assert (palm.d_head, palm.d_model / palm.n_heads) == (256, 384.0)


def test_everything_is_active_in_a_dense_model():
    assert models.get("GPT-3 175B").n_active_parameters == models.get("GPT-3 175B").n_parameters


GOOD = dict(name="any", n_layers=2, d_model=8, n_heads=4, n_kv_heads=2, d_ff=16, vocab_size=10, seq_len=4)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"n_layers": 0}, "n_layers must be a whole number of at least 1, got 0"),
        ({"d_model": 8.0}, "d_model must be a whole number of at least 1, got 8.0"),
        ({"n_positions": -1}, "n_positions must be a whole number of at least 0, got -1"),
        ({"n_heads": 3}, "n_heads must divide d_model, got n_heads=3, d_model=8"),
        ({"n_kv_heads": 3}, "n_kv_heads must divide n_heads, got 3 and 4"),
        ({"n_experts": 4, "n_experts_per_token": 5, "d_expert": 8}, "n_experts_per_token must be 1 to 4, got 5"),
    ],
)
def test_a_shape_that_makes_no_sense_is_refused(change, says):
    with pytest.raises(ValueError, match=says):
        Transformer(**{**GOOD, **change})


def test_an_unknown_model_names_the_nearest():
    with pytest.raises(ValueError, match=r"model 'Llama2 70B' is not known; nearest: 'Llama 2 70B'"):
        models.get("Llama2 70B")
    with pytest.raises(ValueError, match="is not known"):
        models.published("GPT-5")


def test_a_published_number_that_is_not_there_is_none():
    assert models.published("Llama 2 7B", "n_active_parameters") is None
