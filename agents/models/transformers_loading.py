"""Loads a Hugging Face checkpoint that can chat: a text-only causal model or a vision-language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError
from PIL import Image

from agents.models.base import ChatMessage, ModelError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Checkpoint:
    """A model with what turns messages into its input.

    Attributes:
        model: The ``PreTrainedModel``, in evaluation mode on its device.
        tokenizer: Its tokenizer, padding on the left.
        processor: Its multi-modal processor; None for a text-only model.
    """

    model: Any
    tokenizer: Any
    processor: Any | None

    @property
    def sees(self) -> bool:
        """Whether messages may carry images."""
        return self.processor is not None

    @property
    def context(self) -> int | None:
        """Most tokens of prompt and reply together, or None where the checkpoint sets no limit."""
        config = self.model.config.get_text_config()
        limit = getattr(config, "max_position_embeddings", None)
        return int(limit) if limit else None

    @property
    def end_ids(self) -> frozenset[int]:
        """Token ids that end a reply: Llama 3 and Qwen have several, spread over two files."""
        ids: set[int] = set()
        for value in (self.model.generation_config.eos_token_id, self.tokenizer.eos_token_id):
            ids.update([value] if isinstance(value, int) else value or ())
        return frozenset(ids)

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """The prompt text by the checkpoint's own chat template, with the turn of the assistant opened.

        A template that takes no system message gets it at the head of the first user message.

        Raises:
            ModelError: The checkpoint has no template, or refuses these messages.
        """
        template = self.processor if self.processor is not None and self.processor.chat_template else self.tokenizer
        if not template.chat_template:
            raise ModelError("The checkpoint has no chat template; use an instruction-tuned one.")
        try:
            return self._apply(template, messages)
        except TemplateError as first:
            merged = _system_into_user(messages)
            try:
                if merged is not None:
                    return self._apply(template, merged)
            except TemplateError:
                pass  # the first complaint is about the messages as they were given: that one is raised
            raise ModelError(f"The chat template refuses these messages: {first}") from first

    def _apply(self, template: Any, messages: Sequence[ChatMessage]) -> str:
        rows = [{"role": m.role, "content": self._content(m)} for m in messages]
        text: str = template.apply_chat_template(rows, tokenize=False, add_generation_prompt=True)
        return text

    def _content(self, message: ChatMessage) -> str | list[dict[str, str]]:
        if not self.sees:
            return message.content
        return [{"type": "image"} for _ in message.images] + [{"type": "text", "text": message.content}]

    def inputs(self, texts: Sequence[str], images: Sequence[Sequence[Image.Image]]) -> Any:
        """The padded model input of rendered prompts, on the model's device; all rows have images, or none has."""
        common = {"return_tensors": "pt", "padding": True, "add_special_tokens": False}
        if self.processor is None or not any(images):
            # Some decoders' tokenizers return token types, which no decoder takes.
            batch = self.tokenizer(list(texts), return_token_type_ids=False, **common)
        else:
            batch = self.processor(text=list(texts), images=[list(row) for row in images], **common)
        return batch.to(self.model.device)


def load_checkpoint(source: str | Path, device: str = "cpu", dtype: str = "auto") -> Checkpoint:
    """Load a model, its tokenizer and, for vision-language models, its processor.

    Args:
        source: A folder made by ``save_pretrained``, or a model id of the local Hugging Face cache.
        device: ``cpu``, ``cuda``, ``cuda:1`` ...; ``auto`` spreads the model over what there is (accelerate).
        dtype: ``auto`` (as saved), ``float32``, ``bfloat16`` or ``float16``.

    Raises:
        ModelError: The checkpoint is missing or broken, or the device or the dtype is unknown.
    """
    if dtype != "auto" and dtype not in DTYPES:
        raise ModelError(f"Unknown dtype {dtype!r}; known: auto, {', '.join(DTYPES)}.")
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    placed = {"device_map": "auto"} if device == "auto" else {}
    try:
        config = AutoConfig.from_pretrained(source)
        vision = config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
        loader = AutoModelForImageTextToText if vision else AutoModelForCausalLM
        processor = AutoProcessor.from_pretrained(source) if vision else None
        tokenizer = processor.tokenizer if processor is not None else AutoTokenizer.from_pretrained(source)
        model = loader.from_pretrained(source, dtype=DTYPES.get(dtype, "auto"), **placed).eval()
        if device != "auto":
            model = model.to(device)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        raise ModelError(f"Cannot load chat model {source}: {error}") from error
    prepare_tokenizer(tokenizer)
    return Checkpoint(model, tokenizer, processor)


def prepare_tokenizer(tokenizer: Any) -> None:
    """Set what batch generation needs: padding on the left, and some padding token (masked, so any will do)."""
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token


def _system_into_user(messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...] | None:
    """The messages with a leading system message put before the user message that follows it."""
    if len(messages) < 2 or messages[0].role != "system" or messages[1].role != "user":
        return None
    user = messages[1]
    return (ChatMessage("user", f"{messages[0].content}\n\n{user.content}", user.images), *messages[2:])
