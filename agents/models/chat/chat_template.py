"""Messages to prompt text, by the chat template that a Hugging Face checkpoint brings."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from agents.base.revisions import MAIN
from agents.models.base import ChatMessage, ModelError
from agents.models.chat.prompt_fitting import system_into_user
from agents.models.config_files import read_config
from agents.models.pretrained import CANNOT_LOAD

_REFUSALS = (TemplateError, TypeError, ValueError)
"""Errors of a template: its own, and those of an operation that the form of a message does not allow (a text and a list added)."""


@dataclass(frozen=True)
class ChatTemplate:
    """Converter of messages to a prompt."""

    tokenizer: Any  # the checkpoint's tokenizer
    processor: Any | None  # its multi-modal processor; None for a text-only model

    @property
    def sees(self) -> bool:
        """Whether messages may carry images."""
        return self.processor is not None

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """Render the messages as a prompt that ends where the assistant's turn begins.

        The checkpoint's own chat template is used. If it takes no system message, that message goes to the head of the first
        user message. Templates of vision-language models differ in the form of a message without an image: that of
        Llama-3.2-Vision takes the system message as a string if the conversation shows no image, and as a list of parts if it
        shows one. The first form is taken whose text has every message in its own words, and no printed list.

        Raises:
            ModelError: The checkpoint has no template, or its template refuses these messages.
        """
        template = self.processor if self.processor is not None and self.processor.chat_template else self.tokenizer
        if not template.chat_template:
            raise ModelError("The checkpoint has no chat template; use an instruction-tuned one.")
        try:
            return self._apply(template, messages)
        except _REFUSALS as first:
            merged = system_into_user(messages)
            try:
                if merged is not None:
                    return self._apply(template, merged)
            except _REFUSALS:
                pass  # the first complaint is about the messages as they were given: that one is raised
            raise ModelError(f"The chat template refuses these messages: {first}") from first

    def encode(self, text: str) -> list[int]:
        """Token ids of a rendered prompt: the template has written the special tokens already."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Decode token ids to text, without special tokens."""
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def _apply(self, template: Any, messages: Sequence[ChatMessage]) -> str:
        contents = [message.content.strip() for message in messages if message.role != "assistant"]
        texts: list[str] = []
        refusal: Exception | None = None
        for rows in self._forms(messages):
            try:
                text: str = template.apply_chat_template(rows, tokenize=False, add_generation_prompt=True)
            except _REFUSALS as error:
                refusal = refusal or error
                continue
            printed = any(str(row["content"]) in text for row in rows if not isinstance(row["content"], str))
            if not printed and all(content in text for content in contents):
                return text
            texts.append(text)
        if texts:  # the template rewrites the contents in every form that it accepts; take the first
            return texts[0]
        raise refusal or TemplateError("the template writes nothing")

    def _forms(self, messages: Sequence[ChatMessage]) -> list[list[dict[str, Any]]]:
        plain = [{"role": m.role, "content": m.content} for m in messages]
        if not self.sees:
            return [plain]
        parts = [{"role": m.role, "content": _parts(m)} for m in messages]
        if not any(message.images for message in messages):
            return [plain, parts]
        mixed = [row if m.role == "system" else part for m, row, part in zip(messages, plain, parts, strict=True)]
        return [parts, mixed]


def _parts(message: ChatMessage) -> list[dict[str, str]]:
    return [{"type": "image"} for _ in message.images] + [{"type": "text", "text": message.content}]


def load_chat_template(source: str | Path, revision: str = MAIN, **processor_options: Any) -> ChatTemplate:
    """Tokenizer and, for a vision-language model, processor of a checkpoint (folder or cached id), no weights; ModelError without it."""
    from transformers import AutoProcessor, AutoTokenizer
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    try:
        kind = str(read_config(source, revision).get("model_type", ""))  # refuses one that names code
        if kind in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
            processor = AutoProcessor.from_pretrained(
                source, revision=revision, trust_remote_code=False, **processor_options
            )
            return ChatTemplate(processor.tokenizer, processor)
        # transformers 4.57.3 to 4.57.6 warns of a fault of Mistral's tokenizers whatever the local checkpoint is.
        quiet = {} if "mistral" in kind else {"fix_mistral_regex": False}
        tokenizer = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=False, **quiet)
        return ChatTemplate(tokenizer, None)
    except CANNOT_LOAD as error:
        raise ModelError(f"Cannot load the tokenizer of {source}: {error}") from error
