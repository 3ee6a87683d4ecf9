"""One layer of a transformer as the operators that run one after the other, for the roofline.

A layer of the LLaMA kind: norm, attention, norm, MLP, two residual adds. Attention is fused unless asked otherwise;
rotary positions are ignored, a thousandth of the FLOP.
"""

from aiinfra import precision, roofline
from aiinfra.roofline import Work
from aiinfra.units import count, number


def prefill(model, seq_len, n_sequences=1, dtype="bf16", *, fused=True):
    """Operators of one layer's forward pass over whole sequences, as in training or reading a prompt: name -> `Work`.

    Attention counts all S x S pairs.

    >>> from aiinfra import models
    >>> round(prefill(models.get("Llama 3 8B"), 4096)["MLP, up and gate"].flop_per_byte)
    1911
    """
    attention = roofline.attention(
        seq_len, model.n_heads, model.d_head, fused=fused, n_kv_heads=model.n_kv_heads, batch=n_sequences, dtype=dtype
    )
    return _operators(model, count("n_sequences", n_sequences) * seq_len, attention, dtype)


def decode(model, context, n_sequences=1, dtype="bf16"):
    """Operators of one layer for one new token of each of `n_sequences`, after `context` tokens each: name -> `Work`.

    >>> from aiinfra import models
    >>> round(decode(models.get("Llama 3 8B"), 4096)["MLP, up and gate"].flop_per_byte, 2)
    1.0
    """
    attention = decode_attention(context, model.n_heads, model.d_head, model.n_kv_heads, n_sequences, dtype)
    return _operators(model, count("n_sequences", n_sequences), attention, dtype)


def decode_attention(context, n_heads, d_head, n_kv_heads, n_sequences=1, dtype="bf16"):
    """One query of each head against the keys and values of `context` tokens: reads the cache once.

    4 H d FLOP for each cached token, and 2 K d values read: the intensity is H / K FLOP/byte in a 2-byte dtype,
    whatever the context and the batch. Ignores the query, the result and the softmax's FLOP.

    >>> decode_attention(4096, 32, 128, 8).flop_per_byte
    4.0
    """
    n_cached = count("context", context) * count("n_sequences", n_sequences)
    flop = 4 * count("n_heads", n_heads) * count("d_head", d_head) * n_cached
    return Work(flop, 2 * count("n_kv_heads", n_kv_heads) * d_head * n_cached * precision.get(dtype).bytes)


def _operators(model, n_tokens, attention, dtype):
    if model.n_experts or model.d_latent_kv:
        raise ValueError(f"{model.name} has experts or latent attention; only dense layers are described here")
    d_model, d_qkv = model.d_model, (model.n_heads + 2 * model.n_kv_heads) * model.d_head
    n_up = (model.mlp_matrices - 1) * model.d_ff
    norm = roofline.layer_norm(n_tokens, d_model, dtype)
    add = roofline.elementwise(n_tokens * d_model, 1, n_read=2, dtype=dtype)
    gate = roofline.elementwise(n_tokens * model.d_ff, 8, n_read=model.mlp_matrices - 1, dtype=dtype)
    return {
        "norms": norm + norm,
        "queries, keys, values": roofline.matmul(n_tokens, d_model, d_qkv, dtype),
        "attention": attention,
        "attention's output": roofline.matmul(n_tokens, model.n_heads * model.d_head, d_model, dtype),
        "MLP, up and gate": roofline.matmul(n_tokens, d_model, n_up, dtype),
        "activation": gate,
        "MLP, down": roofline.matmul(n_tokens, model.d_ff, d_model, dtype),
        "residual adds": add + add,
    }


def time_s(operators, peak_flop_per_s, bytes_per_s, *, overlap_frac=1.0, launch_s=0.0):
    """Time of operators that run one after the other: the sum of each one's `roofline.time_s`.

    Not the maximum of the sums: while a norm moves its bytes, the matmul that waits for it computes nothing.
    """
    number("launch_s", launch_s)
    times = (
        roofline.time_s(work, peak_flop_per_s, bytes_per_s, overlap_frac=overlap_frac, launch_s=launch_s)
        for work in operators.values()
    )
    return sum(times)
