"""Attention for decoding on CPUs that does not copy shared keys: six query heads of Qwen2.5-1.5B read one key head in place.

transformers repeats keys and values for each query head whenever there is an attention mask. With 16 prompts of 1,000 tokens that moves
some 10 GB of memory for every token, three times the weights.
"""

from typing import Any

import torch
from torch.nn import functional
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

GROUPED = "grouped_sdpa"  # name for ``model.set_attn_implementation``


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Compute scaled dot-product attention; for a single token the query heads of a group become the rows of one query.

    Shapes: query (batch, heads, tokens, width), key and value (batch, key heads, past, width), mask (batch, 1, tokens, at least past) or
    None.

    Returns:
        Shape (batch, tokens, heads, width), and None for the weights.
    """
    batch, heads, tokens, width = query.shape
    key_heads, past = key.shape[1:3]
    if tokens != 1 or heads == key_heads:
        result: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return result
    mask = None if attention_mask is None else attention_mask[..., :past]
    grouped = query.reshape(batch, key_heads, heads // key_heads, width)
    output = functional.scaled_dot_product_attention(grouped, key, value, attn_mask=mask, scale=scaling)
    return output.reshape(batch, heads, 1, width).transpose(1, 2), None


def use_grouped_attention(model: Any) -> None:
    """Let a model decode with ``grouped_attention``."""
    AttentionInterface.register(GROUPED, grouped_attention)
    AttentionMaskInterface.register(GROUPED, sdpa_mask)
    model.set_attn_implementation(GROUPED)
