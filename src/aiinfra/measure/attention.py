"""Attention three ways: as it is written down, block by block with an online softmax, and PyTorch's fused kernel."""

import math

import torch

from aiinfra.units import count

# Shapes: B sequences, H heads, S queries, T keys, D width of a head; P keys of one block.


def naive_attention(query_BHSD, key_BHTD, value_BHTD):
    """softmax(Q K' / sqrt d) V with the S x T scores and weights in memory; the queries are scaled, which are fewer."""
    scaled_BHSD = query_BHSD / math.sqrt(query_BHSD.shape[-1])
    weights_BHST = (scaled_BHSD @ key_BHTD.transpose(-2, -1)).softmax(dim=-1)
    return weights_BHST @ value_BHTD


def tiled_attention(query_BHSD, key_BHTD, value_BHTD, *, block=128):
    """The same result, one block of queries and one of keys at a time; no S x T matrix exists.    [dao2022]

    For each block of queries three things are kept: the maximum m of the scores so far, the sum l of exp(score - m)
    and the sum o of exp(score - m) x value. A block of keys with a larger maximum first shrinks l and o by
    exp(old m - new m): the online softmax.    [milakov2018]

    Parameters
    ----------
    query_BHSD, key_BHTD, value_BHTD : Tensor
    block : int             queries and keys of one block, at most

    Not causal. On a GPU a block's scores stay on the chip; here every step is an operator of PyTorch, and only a cache
    that holds a block makes them cheap.
    """
    count("block", block)
    if query_BHSD.shape[-1] != key_BHTD.shape[-1] or key_BHTD.shape[:-1] != value_BHTD.shape[:-1]:
        raise ValueError(
            "key and value must have as many rows, and key the width of query; got "
            f"query {tuple(query_BHSD.shape)}, key {tuple(key_BHTD.shape)}, value {tuple(value_BHTD.shape)}"
        )
    result_BHSD = query_BHSD.new_empty(*query_BHSD.shape[:-1], value_BHTD.shape[-1])
    for start in range(0, query_BHSD.shape[-2], block):
        rows = slice(start, start + block)
        result_BHSD[..., rows, :] = _attend(query_BHSD[..., rows, :], key_BHTD, value_BHTD, block)
    return result_BHSD


def _attend(query_BHSD, key_BHTD, value_BHTD, block):
    """Attention of one block of queries over all keys."""
    query_BHSD = query_BHSD / math.sqrt(query_BHSD.shape[-1])
    maximum_BHS1 = query_BHSD.new_full((*query_BHSD.shape[:-1], 1), -math.inf)
    sum_BHS1 = torch.zeros_like(maximum_BHS1)
    output_BHSD = query_BHSD.new_zeros(*query_BHSD.shape[:-1], value_BHTD.shape[-1])
    for start in range(0, key_BHTD.shape[-2], block):
        rows = slice(start, start + block)
        scores_BHSP = query_BHSD @ key_BHTD[..., rows, :].transpose(-2, -1)
        larger_BHS1 = torch.maximum(maximum_BHS1, scores_BHSP.amax(dim=-1, keepdim=True))
        weights_BHSP = (scores_BHSP - larger_BHS1).exp()
        shrink_BHS1 = (maximum_BHS1 - larger_BHS1).exp()
        sum_BHS1 = sum_BHS1 * shrink_BHS1 + weights_BHSP.sum(dim=-1, keepdim=True)
        output_BHSD = output_BHSD * shrink_BHS1 + weights_BHSP @ value_BHTD[..., rows, :]
        maximum_BHS1 = larger_BHS1
    return output_BHSD / sum_BHS1


def fused_attention(query_BHSD, key_BHTD, value_BHTD):
    """PyTorch's own: on a CPU and on a GPU a kernel that works block by block, too."""
    return torch.nn.functional.scaled_dot_product_attention(query_BHSD, key_BHTD, value_BHTD)
