"""The two compiled kernels that V0 needs, in plain torch."""

from __future__ import annotations

from typing import Any

import torch


def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    *_: Any,
) -> None:
    """Write keys and values of new tokens into the blocks of the cache.

    Args:
        key: Tokens x heads x head dimension.
        value: Likewise.
        key_cache: Blocks x heads x groups x block size x width: the head dimension is split into groups of what fits 16 bytes.
        value_cache: Blocks x heads x head dimension x block size.
        slot_mapping: Position in the cache of each token, negative for padding.
    """
    mask = slot_mapping >= 0
    block_size = value_cache.shape[3]
    block, offset = slot_mapping[mask] // block_size, slot_mapping[mask] % block_size
    _, heads, groups, _, width = key_cache.shape
    key_cache[block, :, :, offset, :] = key[mask].view(-1, heads, groups, width)
    value_cache[block, :, :, offset] = value[mask]


def paged_attention_v1(
    out: torch.Tensor,
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    num_kv_heads: int,
    scale: float,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    *_: Any,
) -> None:
    """Write into ``out`` the attention of one new token of each sequence over the cache; zeros for an empty sequence.

    Grouped query heads are allowed; neither ALiBi slopes nor quantised caches are.
    """
    tokens, heads, width = query.shape
    for row in range(tokens):
        length = int(seq_lens[row])
        if length == 0:
            out[row] = 0
            continue
        blocks = block_tables[row][: -(-length // value_cache.shape[3])].long()
        keys = key_cache[blocks].permute(1, 0, 3, 2, 4).reshape(num_kv_heads, -1, width)[:, :length]
        values = value_cache[blocks].permute(1, 0, 3, 2).reshape(num_kv_heads, -1, width)[:, :length]
        grouped = query[row].view(num_kv_heads, heads // num_kv_heads, width)
        attended = torch.nn.functional.scaled_dot_product_attention(grouped, keys, values, scale=scale)
        out[row] = attended.reshape(heads, width)
