"""Transformer configurations, with parameter counts by formula."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from aiinfra.tables import read_numbers
from aiinfra.units import count, nearest

# shape of a model in models.csv, in whole numbers; what a family does not have is left out
_SHAPE = (
    "n_layers", "d_model", "n_heads", "n_kv_heads", "d_head", "d_ff", "vocab_size", "seq_len", "n_positions",
    "mlp_matrices", "norms_per_layer", "d_latent_q", "d_latent_kv", "d_rope",
    "n_experts", "n_experts_per_token", "n_shared_experts", "d_expert", "n_dense_layers",
)  # fmt: skip
_FLAGS = ("biases", "tied_embeddings", "embedding_norm")

# quantity of models.csv -> dimension of its unit
QUANTITIES = {
    "family": "text",
    **dict.fromkeys((*_SHAPE, *_FLAGS), "count"),
    "n_parameters": "count",
    "n_active_parameters": "count",
}


@dataclass(frozen=True)
class Transformer:
    """A decoder-only transformer. The defaults are LLaMA's: gated MLP, two norms a layer, no biases, untied embeddings.

    n_kv_heads              heads that keys and values are kept for: n_heads (MHA), fewer (GQA), 1 (MQA)
    d_head                  width of a head; d_model / n_heads where 0
    d_ff, mlp_matrices      width of the MLP; 3 matrices with a gate (SwiGLU), 2 without
    n_positions             learned position embeddings; rotary and ALiBi positions have none
    norms_per_layer         2; 1 where attention and MLP run side by side (PaLM)
    biases                  every linear map has a bias, and every norm a shift beside its scale
    tied_embeddings         the output head is the embedding table
    embedding_norm          one more norm, on the embeddings (BLOOM)
    n_experts, d_expert     routed experts of an MLP layer and their width; d_ff then is that of the dense layers
    n_experts_per_token, n_shared_experts, n_dense_layers   experts chosen, always used, and leading layers without
    d_latent_kv, d_latent_q, d_rope     multi-head latent attention (DeepSeek): ranks of the compressed keys and
                            values and of the queries, and width of the rotary part of a head beside d_head
    """

    name: str
    n_layers: int
    d_model: int
    n_heads: int
    n_kv_heads: int
    d_ff: int
    vocab_size: int
    seq_len: int
    d_head: int = 0
    mlp_matrices: int = 3
    norms_per_layer: int = 2
    n_positions: int = 0
    biases: bool = False
    tied_embeddings: bool = False
    embedding_norm: bool = False
    n_experts: int = 0
    d_expert: int = 0
    n_experts_per_token: int = 0
    n_shared_experts: int = 0
    n_dense_layers: int = 0
    d_latent_kv: int = 0
    d_latent_q: int = 0
    d_rope: int = 0

    def __post_init__(self):
        needed = ("n_layers", "d_model", "n_heads", "n_kv_heads", "d_ff", "vocab_size", "seq_len")
        for field in _SHAPE:
            count(field, getattr(self, field), minimum=1 if field in needed else 0)
        if not self.d_head:
            if self.d_model % self.n_heads:
                raise ValueError(f"n_heads must divide d_model, got n_heads={self.n_heads}, d_model={self.d_model}")
            object.__setattr__(self, "d_head", self.d_model // self.n_heads)
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_kv_heads must divide n_heads, got {self.n_kv_heads} and {self.n_heads}")
        if self.n_experts and not 1 <= self.n_experts_per_token <= self.n_experts:
            raise ValueError(f"n_experts_per_token must be 1 to {self.n_experts}, got {self.n_experts_per_token}")

    @property
    def attention_parameters(self):
        """Parameters of one layer's attention: D (H + 2 K) d + H d D, and their biases; K heads for keys and values.

        With latent attention, the maps down to and up from the two latents, with a norm on each.  [deepseek2024]
        """
        if self.d_latent_kv:
            d_query = self.n_heads * (self.d_head + self.d_rope)
            query = (self.d_model + d_query + 1) * self.d_latent_q
            down = self.d_model * (self.d_latent_kv + self.d_rope)
            up = self.d_latent_kv * (2 * self.n_heads * self.d_head + 1)
            return query + down + up + self.n_heads * self.d_head * self.d_model
        d_qkv = (self.n_heads + 2 * self.n_kv_heads) * self.d_head
        bias = (d_qkv + self.d_model) if self.biases else 0
        return self.d_model * (d_qkv + self.n_heads * self.d_head) + bias

    def mlp_parameters(self, d_ff):
        """Parameters of one MLP of width `d_ff`: 3 D F with a gate, 2 D F without, and F + D biases."""
        bias = (self.mlp_matrices - 1) * d_ff + self.d_model if self.biases else 0
        return self.mlp_matrices * self.d_model * d_ff + bias

    @property
    def n_parameters(self):
        """All parameters that are stored.  [touvron2023b] [brown2020] [jiang2024] [deepseek2024]

        Ignores nothing but the routers' correction biases (DeepSeek-V3: 256 a layer) and its extra module that
        predicts a second token, which is not part of the count its paper gives.

        >>> get("Llama 2 7B").n_parameters
        6738415616
        """
        return self._parameters(self.n_experts)

    @property
    def n_active_parameters(self):
        """Parameters that one token meets: all of them, or those of the chosen and shared experts.

        >>> round(get("Mixtral 8x7B").n_active_parameters / 1e9, 1)
        12.9
        """
        return self._parameters(self.n_experts_per_token)

    def _parameters(self, n_experts):
        norm = (2 if self.biases else 1) * self.d_model
        layer = self.attention_parameters + self.norms_per_layer * norm
        if self.n_experts:
            router = self.d_model * self.n_experts
            experts = (n_experts + self.n_shared_experts) * self.mlp_parameters(self.d_expert)
            n_sparse = self.n_layers - self.n_dense_layers
            mlps = n_sparse * (router + experts) + self.n_dense_layers * self.mlp_parameters(self.d_ff)
        else:
            mlps = self.n_layers * self.mlp_parameters(self.d_ff)
        tables = self.n_positions + self.vocab_size * (1 if self.tied_embeddings else 2)
        norms = norm * (2 if self.embedding_norm else 1)
        return tables * self.d_model + norms + self.n_layers * layer + mlps


@cache
def _rows():
    rows: dict[str, list] = {}
    for row in read_numbers("models.csv", QUANTITIES, "family"):
        rows.setdefault(row.item, []).append(row)
    return rows


def names():
    """Names of all models, in the order of the table."""
    return tuple(_rows())


def get(name):
    """The `Transformer` called `name`, or ValueError with the nearest known name.

    >>> get("Llama 3.1 405B").n_kv_heads
    8
    """
    if name not in _rows():
        raise ValueError(f"model {name!r} is not known; {nearest(name, _rows())}")
    used = {row.quantity: row.value for row in _rows()[name] if row.used}
    fields: dict[str, Any] = {field: int(used[field]) for field in _SHAPE if field in used}
    fields |= {field: bool(used[field]) for field in _FLAGS if field in used}
    return Transformer(name=name, **fields)


def published(name, quantity="n_parameters"):
    """The `Number` of parameters that the authors print for model `name`, or None where they print none.

    >>> published("BLOOM 176B").value
    176247271424.0
    """
    get(name)
    return next((row for row in _rows()[name] if row.used and row.quantity == quantity), None)


def numbers():
    """Every row of the model table."""
    return tuple(row for rows in _rows().values() for row in rows)
