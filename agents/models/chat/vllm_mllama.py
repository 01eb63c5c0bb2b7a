"""Corrections of Llama-3.2-Vision in vLLM 0.10.2, so that a picture is read as Meta's reference implementation reads it.

Uncorrected, three things go wrong, and with the last two a reply depends on the other requests of its batch:

1.  The picture encoder drops its attention mask. Of a picture with one tile, three quarters of the attended positions are padding.
    (0.8.5 to 0.10.1.1 have the mask.)
2.  A text-only prompt ahead of pictures in one prefill shifts the rows of the cross-attention mask for all that follow.
3.  Tokens before a picture attend to the pictures of the whole prefill. In Meta's implementation they attend to none, and the
    cross-attention layers leave them as they are.
    (2 and 3 are in all releases since 0.8.5 at least.)

V0 runs in this process, so functions replaced before an engine starts are replaced for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

VERSION = "0.10.2"

_CORRECTED = "_crag_corrected"  # marks vLLM's module once its functions are replaced


def correct_mllama() -> None:
    """Replace the faulty functions of vLLM 0.10.2; do nothing in any other version, or the second time."""
    import vllm

    if vllm.__version__.split("+")[0] != VERSION:
        return
    from vllm.model_executor.models import mllama

    if getattr(mllama, _CORRECTED, False):
        return
    mllama.MllamaVisionSdpaAttention.forward = attend_with_mask
    mllama.convert_sparse_cross_attention_mask_to_dense = keep_rows_in_place(
        mllama.convert_sparse_cross_attention_mask_to_dense
    )
    mllama.convert_dense_cross_attention_mask_to_tensor = expand_mask
    mllama.MllamaForCausalLM.forward = skip_rows_without_picture(mllama.MllamaForCausalLM.forward)
    setattr(mllama, _CORRECTED, True)


def attend_with_mask(
    layer: Any, hidden_state: torch.Tensor, attention_mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Compute the self-attention of a layer of the picture encoder; takes the place of its ``forward``."""
    projected, _ = layer.qkv_proj(hidden_state)
    pictures, positions, _ = projected.shape
    query, key, value = (
        part.view(pictures, positions, layer.num_local_heads, layer.head_dim).transpose(1, 2)
        for part in projected.chunk(3, dim=-1)
    )
    attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask)
    output: torch.Tensor
    output, _ = layer.o_proj(attended.transpose(1, 2).reshape(pictures, positions, -1))
    return output


def keep_rows_in_place(convert: Callable[..., tuple[np.ndarray, Any]]) -> Callable[..., tuple[np.ndarray, Any]]:
    """Wrap the conversion of token ranges to rows of a mask, which is wrong if a prompt is text alone."""

    def convert_all(
        ranges: list[list[list[int]]], num_tiles: list[list[int]], lengths: list[int]
    ) -> tuple[np.ndarray, Any]:
        pictured = [bool(each) for each in ranges]
        dense, tiles = convert(
            [each for each in ranges if each],
            num_tiles,
            [length for length, has_picture in zip(lengths, pictured, strict=True) if has_picture],
        )
        rows = np.zeros((sum(lengths), dense.shape[1]), dense.dtype)
        rows[np.repeat(pictured, lengths)] = dense
        return rows, tiles

    return convert_all


def expand_mask(rows: np.ndarray, tokens_per_tile: int, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Expand a mask from tiles to their tokens: 0 if a token sees, else the least number, also in rows that see nothing."""
    hidden = torch.tensor(rows == 0, device=device).repeat_interleave(tokens_per_tile, dim=1)
    return torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, torch.finfo(dtype).min)


def skip_rows_without_picture(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the language model: its cross-attention layers pass rows on unchanged that see no picture."""

    def forward_rows(
        model: Any,
        *arguments: Any,
        cross_attention_mask: torch.Tensor | None,
        full_text_row_masked_out_mask: torch.Tensor,
        **more: Any,
    ) -> Any:
        if cross_attention_mask is not None:  # a prefill
            sees = (cross_attention_mask == 0).any(dim=-1, keepdim=True)
            full_text_row_masked_out_mask = full_text_row_masked_out_mask & sees
        return forward(
            model,
            *arguments,
            cross_attention_mask=cross_attention_mask,
            full_text_row_masked_out_mask=full_text_row_masked_out_mask,
            **more,
        )

    return forward_rows
