"""Tiny random checkpoints that vLLM takes: its CPU kernels want a head dimension of at least 32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.models.tiny_checkpoints import tokenizer

CONTEXT = 4096
VISION = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
TEMPLATE = (
    "<|begin_of_text|>{% for m in messages %}<|{{ m['role'] }}|>"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def save_llama(folder: Path) -> Path:
    """A text-only model whose replies go on to their limit."""
    from transformers import LlamaConfig, LlamaForCausalLM

    words = tokenizer(TEMPLATE)
    _save(LlamaForCausalLM, LlamaConfig(**_decoder(words)), words, folder)
    words.save_pretrained(folder)
    return folder


def save_qwen2_vl(folder: Path, *, videos: bool = True) -> Path:
    """A vision-language model: an image of 112 x 112 pixels takes 16 tokens. A processor of videos needs torchvision."""
    from transformers import (
        Qwen2TokenizerFast,
        Qwen2VLConfig,
        Qwen2VLForConditionalGeneration,
        Qwen2VLImageProcessor,
        Qwen2VLProcessor,
        Qwen2VLVideoProcessor,
    )

    words = tokenizer(TEMPLATE)
    if not videos or transformers.__version__.startswith("4."):  # where Qwen's processor takes no other class
        named = {name: getattr(words, name) for name in ("bos_token", "eos_token", "pad_token", "chat_template")}
        words = Qwen2TokenizerFast(tokenizer_object=words.backend_tokenizer, **named)
    words.add_tokens(list(VISION), special_tokens=True)
    start, end, image, video = words.convert_tokens_to_ids(list(VISION))
    config = Qwen2VLConfig(
        text_config={**_decoder(words), "rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]}},
        vision_config={"depth": 1, "embed_dim": 64, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2},
        vision_start_token_id=start,
        vision_end_token_id=end,
        image_token_id=image,
        video_token_id=video,
    )
    _save(Qwen2VLForConditionalGeneration, config, words, folder)
    words.image_token, words.video_token = VISION[2:]
    pixels = {"min_pixels": 56 * 56, "max_pixels": 112 * 112}
    parts = {"image_processor": Qwen2VLImageProcessor(**pixels), "tokenizer": words}
    if videos:
        parts["video_processor"] = Qwen2VLVideoProcessor(**pixels)
    Qwen2VLProcessor(**parts, chat_template=TEMPLATE).save_pretrained(folder)
    return folder


def save_mllama(folder: Path, tile: int = 56) -> Path:
    """A model of the class of Llama-3.2-Vision: a tile of 56 x 56 pixels is 17 tokens beside the prompt, a picture one to four tiles."""
    from transformers import MllamaConfig, MllamaForConditionalGeneration, MllamaImageProcessor, MllamaProcessor

    words = tokenizer()
    text = _decoder(words) | {
        "num_hidden_layers": 4,
        "cross_attention_layers": [1, 3],
        "rope_scaling": {"rope_type": "default"},
    }
    vision = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_global_layers": 1,
        "attention_heads": 2,
        "image_size": tile,
        "patch_size": 14,
        "max_num_tiles": 4,
        "intermediate_layers_indices": [1, 2],
        "vision_output_dim": 64 * 3,
        "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]],
        "initializer_range": 0.2,
    }
    image_token = words.convert_tokens_to_ids("<|image|>")
    config = MllamaConfig(vision_config=vision, text_config=text, image_token_index=image_token)
    _save(MllamaForConditionalGeneration, config, words, folder, _open_gates)
    pixels = {"size": {"height": tile, "width": tile}, "max_image_tiles": 4}
    MllamaProcessor(MllamaImageProcessor(**pixels), words, chat_template=words.chat_template).save_pretrained(folder)
    return folder


def _open_gates(model: Any) -> None:
    """Open the gates of the cross-attention and of the picture encoder, which start at 0: the picture would make no difference."""
    for name, value in model.named_parameters():
        if "gate" in name.rsplit(".", 1)[-1]:
            value.fill_(1.0)


def _decoder(words: Any) -> dict[str, Any]:
    return {
        "vocab_size": 384,  # more than the tokenizer has: real checkpoints are padded too
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": False,
        "bos_token_id": words.bos_token_id,
        "eos_token_id": words.eos_token_id,
        "pad_token_id": words.pad_token_id,
        "initializer_range": 0.2,  # large enough that rounding does not decide between tokens
    }


def _save(kind: Any, config: Any, words: Any, folder: Path, change: Callable[[Any], None] = lambda _: None) -> None:
    torch.manual_seed(0)
    model = kind(config)
    printable_ids = [i for i in range(len(words)) if words.decode([i]).isprintable() and words.decode([i]).isascii()]
    silent = sorted(set(range(384)) - set(printable_ids) | set(words.all_special_ids) | set(range(len(words), 384)))
    with torch.no_grad():  # a logit of 0 is never the largest: no end token, nothing that cannot be printed
        model.get_output_embeddings().weight[silent] = 0.0
        change(model)
    model.generation_config.eos_token_id = words.eos_token_id
    model.save_pretrained(folder)
