"""Corrections of Llama-3.2-Vision in transformers, so that it computes what Meta's reference implementation and vLLM compute.

1.  Since 4.56, and still in 5.19, the features of a picture are the states *after* layers 3, 7, 15, 23 and 30 of the picture encoder. Meta,
    vLLM and transformers 4.45 to 4.52 take those *before* these layers. A checkpoint was trained on these.
2.  In Meta's implementation a token that sees no picture, because it comes before it, passes the cross-attention layers unchanged. In
    transformers it takes in the mean of the whole picture.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch


def correct_mllama(model: Any) -> None:
    """Correct a loaded Mllama in place, its weights and its configuration untouched; leave other models as they are."""
    if model.config.model_type != "mllama":
        return
    if takes_features_late():
        model.model.vision_model.transformer.register_forward_hook(_put_input_first)
    for layer in model.model.language_model.layers:
        if hasattr(layer, "cross_attn"):
            _skip_rows_without_picture(layer)


@cache
def takes_features_late() -> bool:
    """Return whether this version of transformers takes a picture's features after the layers that the configuration names."""
    from transformers.models.mllama.configuration_mllama import MllamaVisionConfig
    from transformers.models.mllama.modeling_mllama import MllamaVisionModel

    width = 8
    config = MllamaVisionConfig(
        hidden_size=width,
        intermediate_size=width,
        num_hidden_layers=2,
        num_global_layers=1,
        attention_heads=2,
        image_size=14,
        patch_size=14,
        max_num_tiles=1,
        intermediate_layers_indices=[1],
        supported_aspect_ratios=[[1, 1]],
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        vision = MllamaVisionModel(config).eval()
        before: list[torch.Tensor] = []
        vision.transformer.layers[0].register_forward_hook(lambda *call: before.append(call[-1]))
        one = torch.ones(1, 1, dtype=torch.long)
        states = vision(torch.rand(1, 1, 1, 3, 14, 14), one, one[None]).last_hidden_state
    patches = states.shape[-2]
    return not torch.equal(states[..., width:].reshape(1, patches, width), before[0][:, :patches])


def _put_input_first(_encoder: Any, arguments: tuple[torch.Tensor, ...], output: Any) -> Any:
    """Make state n of the picture encoder the input of its layer n."""
    output.hidden_states = (arguments[0], *output.hidden_states)
    return output


def _skip_rows_without_picture(layer: Any) -> None:
    """Set the attention of a cross-attention layer to 0 in the rows in which the layer itself sets its feed-forward to 0."""
    rows: list[torch.Tensor | None] = [None]

    def note_rows(_layer: Any, _arguments: Any, named: dict[str, Any]) -> None:
        mask = named["full_text_row_masked_out_mask"]
        rows[0] = None if mask is None else mask[:, 0]

    def skip_rows(_attention: Any, _arguments: Any, output: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        attended, *more = output
        return output if rows[0] is None else (rows[0].to(attended.device) * attended, *more)

    layer.register_forward_pre_hook(note_rows, with_kwargs=True)
    layer.cross_attn.register_forward_hook(skip_rows)
