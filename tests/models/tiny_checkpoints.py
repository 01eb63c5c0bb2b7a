"""Tiny random checkpoints of real transformers classes, saved to disk as any checkpoint is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    MllamaConfig,
    MllamaForConditionalGeneration,
    MllamaImageProcessor,
    MllamaProcessor,
    PreTrainedTokenizerFast,
)

CORPUS = ["The quick brown fox jumps over the lazy dog.", "How tall is the Eiffel Tower? It is 330 metres tall."]
SPECIALS = ["<|begin_of_text|>", "<|end|>", "<|pad|>", "<|image|>", "<|user|>", "<|assistant|>", "<|system|>"]
TEMPLATE = (
    "{{ '<|begin_of_text|>' }}{% for m in messages %}{{ '<|' + m['role'] + '|>' }}"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<|image|>' }}{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system message here') }}{% endif %}"


def tokenizer(template: str = TEMPLATE, size: int = 320) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with a chat template."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=SPECIALS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    bpe.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token="<|begin_of_text|>",
        eos_token="<|end|>",
        pad_token="<|pad|>",
        additional_special_tokens=SPECIALS[3:],
        chat_template=template,
    )


def save_llama(folder: Path, context: int = 256, template: str = TEMPLATE) -> Path:
    """A text-only model."""
    torch.manual_seed(0)
    words = tokenizer(template)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def save_mllama(folder: Path) -> Path:
    """A vision-language model of the class of Llama-3.2-Vision."""
    torch.manual_seed(0)
    words = tokenizer()
    text: dict[str, Any] = {
        "vocab_size": len(words),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "cross_attention_layers": [1],
        "max_position_embeddings": 512,
        "rope_scaling": {"rope_type": "default"},
        "bos_token_id": words.bos_token_id,
        "eos_token_id": words.eos_token_id,
        "pad_token_id": words.pad_token_id,
    }
    vision: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_global_layers": 1,
        "attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
        "max_num_tiles": 4,
        "vision_output_dim": 64,
        "intermediate_layers_indices": [0],
        "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]],
    }
    image_token = words.convert_tokens_to_ids("<|image|>")
    config = MllamaConfig(vision_config=vision, text_config=text, image_token_index=image_token)
    model = MllamaForConditionalGeneration(config)
    for layer in model.model.language_model.layers:
        # The gates of the cross attention start at 0: open them, or the picture could make no difference.
        for gate in ("cross_attn_attn_gate", "cross_attn_mlp_gate"):
            if hasattr(layer, gate):
                getattr(layer, gate).data.fill_(2.0)
    model.save_pretrained(folder)
    images = MllamaImageProcessor(size={"height": 28, "width": 28}, max_image_tiles=4)
    MllamaProcessor(images, words, chat_template=TEMPLATE).save_pretrained(folder)
    return folder


def _bert_config(size: int, positions: int) -> BertConfig:
    return BertConfig(
        vocab_size=size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=positions,
    )


def _bert_tokenizer() -> PreTrainedTokenizerFast:
    from tokenizers import processors

    words = tokenizer()
    ids = {token: words.convert_tokens_to_ids(token) for token in ("<|begin_of_text|>", "<|end|>")}
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A <|end|>",
        pair="<|begin_of_text|> $A <|end|> $B:1 <|end|>:1",
        special_tokens=list(ids.items()),
    )
    return words


def save_bert(folder: Path, positions: int = 64) -> Path:
    """A text encoder."""
    torch.manual_seed(0)
    words = _bert_tokenizer()
    BertModel(_bert_config(len(words), positions)).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
