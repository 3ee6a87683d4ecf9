"""Floating-point operations of a transformer.

A multiply-add is two FLOP. Only matmuls are counted, as `torch.utils.flop_counter.FlopCounterMode` counts them:
norms, softmax, activations, rotary positions and biases are ignored (a thousandth or less of the total for large
models), and looking up an embedding is no FLOP. Counts are whole numbers, without rounding.
"""

from dataclasses import dataclass

from aiinfra.units import count, nearest, number

RECOMPUTATIONS = ("none", "selective", "full")


def matmul_flop(m, k, n):
    """FLOP of an (m, k) matrix times a (k, n) matrix: 2 m k n, a multiply and an add for each of m k n products.

    >>> matmul_flop(4096, 8192, 8192)
    549755813888
    """
    return 2 * count("m", m, 0) * count("k", k, 0) * count("n", n, 0)


@dataclass(frozen=True)
class ForwardFlop:
    """FLOP of one forward pass, by part.

    projections     queries, keys, values and output of attention, with the down and up maps of latent attention
    attention       queries times keys, and weights times values: the part that grows with seq_len squared
    mlp             the MLPs; of experts, those that a token goes to, and the router
    logits          the output head
    """

    projections: int
    attention: int
    mlp: int
    logits: int

    @property
    def layers(self):
        """Everything but the output head: what full recomputation repeats."""
        return self.projections + self.attention + self.mlp

    @property
    def total(self):
        return self.layers + self.logits


def forward_flop(model, seq_len, n_sequences=1, *, causal=False):
    """FLOP of one forward pass over whole sequences, as in training or prefill, as a `ForwardFlop`.

    Every weight that is multiplied takes 2 FLOP a token. Attention takes 2 H (d_qk + d_v) for each pair of a query
    and a key, of which a sequence has S^2, or S (S + 1) / 2 where each token sees only those before it and itself.
    [kaplan2020] [chowdhery2022]

    Parameters
    ----------
    model : models.Transformer
    seq_len : int           tokens in a sequence, S
    n_sequences : int       sequences in the batch
    causal : bool           False counts all S x S pairs, as PyTorch's counter, PaLM's MFU and Megatron do, though a
                            causal kernel skips half; True counts the pairs that the mask leaves

    Ignores everything but matmuls (see the module), padding, and tokens that experts drop. Latent attention is
    counted as it is trained, with keys and values expanded; decoding with absorbed matrices takes another count.
    Raises ValueError where learned positions end before seq_len.

    >>> from aiinfra import models
    >>> forward_flop(models.get("Llama 2 7B"), 4096).total
    62921270886400
    """
    seq_len, n_sequences = count("seq_len", seq_len), count("n_sequences", n_sequences)
    if model.n_positions and seq_len > model.n_positions:
        raise ValueError(f"seq_len must be at most the {model.n_positions} positions of {model.name}, got {seq_len}")
    n_tokens = n_sequences * seq_len
    n_pairs = n_sequences * (seq_len * (seq_len + 1) // 2 if causal else seq_len**2)
    d_query_and_value = model.n_heads * (2 * model.d_head + (model.d_rope if model.d_latent_kv else 0))
    return ForwardFlop(
        projections=2 * n_tokens * model.n_layers * _projection_weights(model),
        attention=2 * n_pairs * model.n_layers * d_query_and_value,
        mlp=2 * n_tokens * _mlp_weights(model),
        logits=matmul_flop(n_tokens, model.d_model, model.vocab_size),
    )


def _projection_weights(model):
    """Weights of one layer's attention that a token is multiplied with."""
    d_heads = model.n_heads * model.d_head
    if model.d_latent_kv:
        query = (model.d_model + d_heads + model.n_heads * model.d_rope) * model.d_latent_q
        down = model.d_model * (model.d_latent_kv + model.d_rope)
        return query + down + model.d_latent_kv * 2 * d_heads + d_heads * model.d_model
    return model.d_model * (2 * d_heads + 2 * model.n_kv_heads * model.d_head)


def _mlp_weights(model):
    """Weights of all MLPs that a token is multiplied with."""
    dense = model.mlp_matrices * model.d_model * model.d_ff
    if not model.n_experts:
        return model.n_layers * dense
    n_used = model.n_experts_per_token + model.n_shared_experts
    sparse = model.d_model * (model.n_experts + n_used * model.mlp_matrices * model.d_expert)
    return (model.n_layers - model.n_dense_layers) * sparse + model.n_dense_layers * dense


def backward_flop(forward):
    """FLOP of the backward pass: twice the forward pass.

    Each matmul Y = X W has two gradients, dX = dY W^T and dW = X^T dY, and each takes as many FLOP as Y. The first
    layer's dX is needed too, by the embedding. Ignores the scores that a fused attention kernel computes again
    (FlashAttention: 5 matmuls instead of 4 in its backward pass), which belong to hardware FLOP.

    >>> backward_flop(1_000)
    2000
    """
    return 2 * forward


def training_flop_per_token(model, seq_len, *, causal=False):
    """Model FLOP of training on one token: forward and backward, three times the forward pass, without recomputation.

    Parameters and what is ignored are those of `forward_flop`. A whole number.

    >>> from aiinfra import models
    >>> round(training_flop_per_token(models.get("PaLM 540B"), 2048) / 1e12, 3)
    3.278
    """
    forward = forward_flop(model, seq_len, causal=causal).total
    return (forward + backward_flop(forward)) // seq_len


def hardware_flop_per_token(model, seq_len, *, recomputation="none", causal=False):
    """FLOP that the hardware does for one token of training: model FLOP, and the forward pass that is done again.

    Parameters
    ----------
    recomputation : str     "none"; "selective" repeats scores and weighted values of attention, the activations that
                            grow with seq_len squared [korthikanti2022]; "full" repeats every layer but not the
                            output head, 96 B s l h^2 (1 + s/6h + V/16lh) for a GPT of l layers [narayanan2021]

    The other parameters and what is ignored are those of `forward_flop`. PyTorch's own checkpointing stops before the
    last matmul of a layer, whose result the backward pass does not need: a little less than "full".

    >>> from aiinfra import models
    >>> gpt = models.get("Megatron GPT 145.6B")
    >>> round(hardware_flop_per_token(gpt, 2048, recomputation="full") / training_flop_per_token(gpt, 2048), 3)
    1.332
    """
    if recomputation not in RECOMPUTATIONS:
        raise ValueError(f"recomputation {recomputation!r} is not known; {nearest(recomputation, RECOMPUTATIONS)}")
    forward = forward_flop(model, seq_len, causal=causal)
    again = {"none": 0, "selective": forward.attention, "full": forward.layers}[recomputation]
    return training_flop_per_token(model, seq_len, causal=causal) + again // seq_len


def approximate_training_flop(n_parameters, n_tokens, *, full_recomputation=False):
    """FLOP of a training run by the rule of thumb C = 6 N D; 8 N D with full recomputation.    [kaplan2020]

    For each weight and token one multiply and one add in the forward pass, in the gradient of the input and in the
    gradient of the weight: 3 x 2.

    Parameters
    ----------
    n_parameters : float            of a mixture of experts, those that are active for a token
    n_tokens : float                tokens seen in the whole run, repeated ones included
    full_recomputation : bool       counts the forward pass twice; the result then is hardware FLOP, not model FLOP

    Ignores scores and weighted values of attention (Llama 2 70B at 4,096 tokens: 7.8 % more with all pairs, half of
    that causal), and counts weights that are never multiplied: the embedding table where it is not the output head
    too (0.4 % of the same model), norms and biases.

    >>> approximate_training_flop(70e9, 2e12)
    8.4e+23
    """
    factor = 8 if full_recomputation else 6
    return factor * number("n_parameters", n_parameters, above=True) * number("n_tokens", n_tokens, above=True)
