"""A plain PyTorch transformer of any shape that `aiinfra.models` knows, to count the FLOP of and to train.

Shapes: B sequences, S tokens, D d_model, H heads, K heads of keys and values. The naive attention forms all S x S
scores, so that every matmul is seen; experts take equal shares of the tokens, as a balanced router would send them.
"""

import torch
from torch import nn
from torch.nn.functional import gelu, silu
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode


class Attention(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, d_kv = model, model.n_kv_heads * model.d_head
        self.query = nn.Linear(model.d_model, model.n_heads * model.d_head, bias=model.biases)
        self.key = nn.Linear(model.d_model, d_kv, bias=model.biases)
        self.value = nn.Linear(model.d_model, d_kv, bias=model.biases)
        self.out = nn.Linear(model.n_heads * model.d_head, model.d_model, bias=model.biases)

    def forward(self, x_BSD):
        b, s, _ = x_BSD.shape
        query, key, value = (
            part(x_BSD).view(b, s, -1, self.model.d_head) for part in (self.query, self.key, self.value)
        )
        group = self.model.n_heads // self.model.n_kv_heads
        key, value = (part.repeat_interleave(group, dim=2) for part in (key, value))
        return self.out(attend(query, key, value))


class LatentAttention(nn.Module):
    """DeepSeek's, as it is trained: keys and values are expanded from their latent. Rotary positions are left out."""

    def __init__(self, model):
        super().__init__()
        self.model, d_heads = model, model.n_heads * model.d_head
        self.query_down = nn.Linear(model.d_model, model.d_latent_q, bias=False)
        self.query_norm = nn.RMSNorm(model.d_latent_q)
        self.query_up = nn.Linear(model.d_latent_q, d_heads + model.n_heads * model.d_rope, bias=False)
        self.kv_down = nn.Linear(model.d_model, model.d_latent_kv + model.d_rope, bias=False)
        self.kv_norm = nn.RMSNorm(model.d_latent_kv)
        self.kv_up = nn.Linear(model.d_latent_kv, 2 * d_heads, bias=False)
        self.out = nn.Linear(d_heads, model.d_model, bias=False)

    def forward(self, x_BSD):
        (b, s, _), m = x_BSD.shape, self.model
        query = self.query_up(self.query_norm(self.query_down(x_BSD))).view(b, s, m.n_heads, m.d_head + m.d_rope)
        latent, rotary = self.kv_down(x_BSD).split([m.d_latent_kv, m.d_rope], dim=-1)
        key, value = self.kv_up(self.kv_norm(latent)).view(b, s, m.n_heads, 2 * m.d_head).chunk(2, dim=-1)
        key = torch.cat([key, rotary.unsqueeze(2).expand(b, s, m.n_heads, m.d_rope)], dim=-1)
        return self.out(attend(query, key, value))


def attend(query_BSHd, key_BSHd, value_BSHd):
    """Causal attention with all S x S scores, as (B, S, D)."""
    query, key, value = (part.transpose(1, 2) for part in (query_BSHd, key_BSHd, value_BSHd))
    scores_BHSS = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5
    seen = torch.ones(scores_BHSS.shape[-2:], dtype=torch.bool, device=scores_BHSS.device).tril()
    weights_BHSS = scores_BHSS.masked_fill(~seen, float("-inf")).softmax(dim=-1)
    return (weights_BHSS @ value).transpose(1, 2).flatten(2)


class MLP(nn.Module):
    def __init__(self, model, d_ff):
        super().__init__()
        self.up = nn.Linear(model.d_model, d_ff, bias=model.biases)
        self.gate = nn.Linear(model.d_model, d_ff, bias=model.biases) if model.mlp_matrices == 3 else None
        self.down = nn.Linear(d_ff, model.d_model, bias=model.biases)

    def forward(self, x):
        return self.down(silu(self.gate(x)) * self.up(x) if self.gate else gelu(self.up(x)))


class Experts(nn.Module):
    """n_tokens x n_experts_per_token must be a multiple of n_experts."""

    def __init__(self, model):
        super().__init__()
        self.top = model.n_experts_per_token
        self.router = nn.Linear(model.d_model, model.n_experts, bias=False)
        self.experts = nn.ModuleList(MLP(model, model.d_expert) for _ in range(model.n_experts))
        self.shared = nn.ModuleList(MLP(model, model.d_expert) for _ in range(model.n_shared_experts))

    def forward(self, x_BSD):
        tokens = x_BSD.flatten(0, 1)
        weight = self.router(tokens).softmax(dim=-1).mean(dim=-1, keepdim=True)
        shares = tokens.repeat(self.top, 1).chunk(len(self.experts))
        routed = torch.cat([expert(share) for expert, share in zip(self.experts, shares, strict=True)])
        mixed = weight * routed.view(self.top, *tokens.shape).sum(dim=0)
        return (mixed + sum(expert(tokens) for expert in self.shared)).view_as(x_BSD)


class Layer(nn.Module):
    def __init__(self, model, index):
        super().__init__()
        norm = nn.LayerNorm if model.biases else nn.RMSNorm
        self.norms = nn.ModuleList(norm(model.d_model) for _ in range(model.norms_per_layer))
        self.attention = LatentAttention(model) if model.d_latent_kv else Attention(model)
        is_sparse = model.n_experts and index >= model.n_dense_layers
        self.mlp = Experts(model) if is_sparse else MLP(model, model.d_ff)

    def forward(self, x_BSD):
        if len(self.norms) == 1:  # attention and MLP side by side
            normed = self.norms[0](x_BSD)
            return x_BSD + self.attention(normed) + self.mlp(normed)
        x_BSD = x_BSD + self.attention(self.norms[0](x_BSD))
        return x_BSD + self.mlp(self.norms[1](x_BSD))


class PlainTransformer(nn.Module):
    def __init__(self, model, recompute=False):
        super().__init__()
        norm = nn.LayerNorm if model.biases else nn.RMSNorm
        self.recompute = recompute
        self.tokens = nn.Embedding(model.vocab_size, model.d_model)
        self.positions = nn.Embedding(model.n_positions, model.d_model) if model.n_positions else None
        self.embedding_norm = norm(model.d_model) if model.embedding_norm else nn.Identity()
        self.layers = nn.ModuleList(Layer(model, index) for index in range(model.n_layers))
        self.norm = norm(model.d_model)
        self.logits = nn.Linear(model.d_model, model.vocab_size, bias=False)
        if model.tied_embeddings:
            self.logits.weight = self.tokens.weight

    def forward(self, ids_BS):
        x_BSD = self.tokens(ids_BS)
        if self.positions:
            x_BSD = x_BSD + self.positions(torch.arange(ids_BS.shape[1], device=ids_BS.device))
        x_BSD = self.embedding_norm(x_BSD)
        for layer in self.layers:
            x_BSD = checkpoint(layer, x_BSD, use_reentrant=False) if self.recompute else layer(x_BSD)
        return self.logits(self.norm(x_BSD))


def counted_flop(model, seq_len, n_sequences=1, *, device="meta", recompute=False):
    """(parameters, FLOP of the forward pass, FLOP of forward and backward) of `model`, as PyTorch counts them.

    On the meta device nothing is computed and no memory taken: a model of any size is counted in a second or two.
    Recomputation repeats whole layers; by default PyTorch leaves out a layer's last matmul, whose result it needs not.

    Parameters
    ----------
    model : models.Transformer
    seq_len, n_sequences : int
    device : str            "meta" or one that computes
    recompute : bool        drops each layer's activations and computes them again in the backward pass
    """
    with torch.device(device):
        network = PlainTransformer(model, recompute)
        ids_BS = torch.zeros(n_sequences, seq_len, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, set_checkpoint_early_stop(False):
        loss = network(ids_BS).float().mean()
        forward = counter.get_total_flops()
        loss.backward()
    return sum(weight.numel() for weight in network.parameters()), forward, counter.get_total_flops()
