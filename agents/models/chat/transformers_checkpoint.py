"""Loads a Hugging Face checkpoint that can chat: a text-only causal model or a vision-language model."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from agents.base.revisions import MAIN, split_revision
from agents.models.base import ModelError
from agents.models.chat.chat_template import ChatTemplate, load_chat_template
from agents.models.chat.mllama_layers import correct_mllama
from agents.models.pretrained import (
    CANNOT_LOAD,
    DTYPES,
    explain_load,
    load_model,
    prepare_tokenizer,
)


@dataclass(frozen=True)
class Checkpoint(ChatTemplate):
    """A model with the converter of messages to its input; its tokenizer pads on the left."""

    model: Any  # the ``PreTrainedModel``, in evaluation mode on its device

    @property
    def context(self) -> int | None:
        """Maximum number of tokens of prompt and reply together; None if the checkpoint sets no limit."""
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

    def inputs(self, texts: Sequence[str], images: Sequence[Sequence[Image.Image]]) -> Any:
        """Encode rendered prompts as padded model input on the model's device.

        Either all rows have images, or none has.
        """
        common = {"return_tensors": "pt", "padding": True, "add_special_tokens": False}
        if self.processor is None or not any(images):
            batch = self.tokenizer(list(texts), **common)
        else:
            batch = self.processor(text=list(texts), images=[list(row) for row in images], **common)
        if "token_type_ids" not in inspect.signature(self.model.forward).parameters:
            batch.pop("token_type_ids", None)  # many tokenizers return them, few decoders take them
        return batch.to(self.model.device)


def load_checkpoint(
    source: str | Path,  # a folder made by ``save_pretrained``, or a model id of the local cache
    device: str = "cpu",  # ``cuda``, ``cuda:1`` ...; ``auto`` spreads the model over all devices (accelerate)
    dtype: str = "auto",  # as saved, or ``float32``, ``bfloat16``, ``float16``
    revision: str = MAIN,  # commit of a model id; ``ORG/NAME@REVISION`` names both
) -> Checkpoint:
    """Load a model, its tokenizer and, for vision-language models, its processor.

    Raises:
        ModelError: A part is unknown or broken.
    """
    if dtype != "auto" and dtype not in DTYPES:
        raise ModelError(f"Unknown dtype {dtype!r}; known: auto, {', '.join(DTYPES)}.")
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    source, revision = split_revision(source, revision)
    template = load_chat_template(source, revision)
    loader = AutoModelForImageTextToText if template.sees else AutoModelForCausalLM
    placed = {"device_map": "auto"} if device == "auto" else {}
    try:
        model = load_model(loader, source, revision, dtype=DTYPES.get(dtype, "auto"), **placed).eval()
        if device != "auto":
            model = model.to(device)
    except CANNOT_LOAD as error:
        raise ModelError(f"Cannot load chat model {source}: {explain_load(error)}") from error
    prepare_tokenizer(template.tokenizer)
    forget_generation_defaults(model)
    correct_mllama(model)
    return Checkpoint(template.tokenizer, template.processor, model)


def forget_generation_defaults(model: Any) -> None:
    """Drop a checkpoint's generation settings, its end tokens excepted.

    Its own repetition penalty or top-p would move the probabilities; transformers 5 lays them over whatever
    ``generate`` is given and has no switch against it, as 4 had (``use_model_defaults``).
    """
    from transformers import GenerationConfig

    model.generation_config = GenerationConfig(eos_token_id=model.generation_config.eos_token_id)
