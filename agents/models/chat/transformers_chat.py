"""Chat with a Hugging Face transformers checkpoint: text-only or vision-language, on CPU or GPU."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch
from PIL import Image
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from agents.deadline import NO_DEADLINE, Deadline
from agents.models.base import ChatMessage, ChatReply, ChatRequest, ModelError, opening_of
from agents.models.chat.generation_control import RowSampler, RowState, RowStopping, cut_at_stop
from agents.models.chat.gguf import find
from agents.models.chat.gguf_checkpoint import converted
from agents.models.chat.grouped_attention import use_grouped_attention
from agents.models.chat.int8_linear import quantise
from agents.models.chat.prefix_states import PrefixStates
from agents.models.chat.prompt_fitting import FIT_TRIES, MAX_IMAGE_SIDE, checked_messages, cut_longest_user_message
from agents.models.chat.schema_masks import SchemaMasks
from agents.models.chat.transformers_checkpoint import Checkpoint, load_checkpoint


@dataclass(frozen=True)
class _Prompt:
    """A request on its way into a batch: where its reply goes, the (cut) messages and their rendering."""

    index: int
    request: ChatRequest
    messages: tuple[ChatMessage, ...]
    text: str
    cut: int = 0

    @property
    def images(self) -> tuple[Image.Image, ...]:
        return tuple(image for message in self.messages for image in message.images)


class TransformersChat:
    """A ``ChatModel`` over one checkpoint.

    Prompts are grouped by length (and apart: those with images and those without) and generated in left-padded batches of at most
    ``max_batch``; the prefill computes the logits of the last position only where the model supports it (``generate`` passes
    ``logits_to_keep=1`` by itself). Images are scaled down to ``max_image_side`` pixels on their longer side.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        name: str,
        max_batch: int = 8,
        max_image_side: int = MAX_IMAGE_SIDE,
        prefixes: PrefixStates | None = None,
    ) -> None:
        if max_batch < 1 or max_image_side < 1:
            raise ValueError("max_batch and max_image_side must be at least 1")
        self.name, self._checkpoint, self._max_batch = name, checkpoint, max_batch
        self._max_image_side, self._prefixes = max_image_side, prefixes

    @classmethod
    def load(
        cls,
        path: str | Path | None = None,  # a checkpoint, or a GGUF file (None: that of ``chat.gguf``), converted once
        device: str = "cpu",
        dtype: str = "auto",
        int8: bool = False,  # compute the linear layers in 8-bit integers (``agents.models.chat.int8_linear``)
        max_batch: int = 8,
        max_image_side: int = MAX_IMAGE_SIDE,
        *,
        cache: Path = Path(".cache"),  # with the GGUF file and converted checkpoints
    ) -> Self:
        """Load a checkpoint (see ``load_checkpoint``)."""
        source = find(cache) if path is None else path
        if str(source).endswith(".gguf"):
            source = converted(Path(source), cache / "models" / Path(source).stem)
        checkpoint = load_checkpoint(source, device, dtype)
        if int8:
            quantise(checkpoint.model)
            use_grouped_attention(checkpoint.model)
        name = Path(source).name + (" (int8)" if int8 else "")
        # On a CPU reading takes most of the time, and the library's growing cache would be copied whole for every token.
        prefixes = PrefixStates(checkpoint.model.config) if int8 else None
        return cls(checkpoint, name, max_batch, max_image_side, prefixes)

    def warm_up(self) -> None:
        """Ask once what is slow the first time (kernels are chosen, pictures processed); ModelError where it cannot answer even this."""
        sight = (Image.new("RGB", (self._max_image_side,) * 2, "grey"),) if self._checkpoint.sees else ()
        (reply,) = self.chat([ChatRequest((ChatMessage("user", "What is this?", sight),), max_tokens=2)])
        if reply.error is not None:
            raise ModelError(f"{self.name} loads, but cannot answer: {reply.error}")

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """Answer all requests; see ``ChatModel.chat``. At the deadline each reply keeps the text it has, if its turn had come."""
        replies: dict[int, ChatReply] = {}
        prompts: list[_Prompt] = []
        for index, request in enumerate(requests):
            try:
                prompts.append(self._prompt(index, request))
            except ModelError as error:
                replies[index] = ChatReply("", "error", error=str(error))
        for batch in self._batches(prompts):
            replies.update(self._answer(batch, deadline))
        return [replies[index] for index in range(len(requests))]

    def _prompt(self, index: int, request: ChatRequest) -> _Prompt:
        messages = checked_messages(request, self.name, self._checkpoint.sees, self._max_image_side)
        return _Prompt(index, request, messages, self._checkpoint.render(messages))

    def _batches(self, prompts: Sequence[_Prompt]) -> Iterator[list[_Prompt]]:
        """Groups of at most ``max_batch`` prompts of like length; processors refuse rows with and without images mixed."""
        for group in ([p for p in prompts if not p.images], [p for p in prompts if p.images]):
            ordered = sorted(group, key=lambda p: (len(p.text), p.request.max_tokens))
            for start in range(0, len(ordered), self._max_batch):
                yield ordered[start : start + self._max_batch]

    def _answer(self, batch: list[_Prompt], deadline: Deadline) -> dict[int, ChatReply]:
        if deadline.passed():
            return {prompt.index: ChatReply("", "abort") for prompt in batch}
        try:
            fitted, inputs, replies = self._fit(batch)
            if not fitted:
                return replies
            rows, openings = self._generate([prompt.request for prompt in fitted], inputs, deadline)
        except torch.OutOfMemoryError as error:
            return self._one_by_one(batch, deadline, f"Out of memory: {error}")
        except (ModelError, ValueError, RuntimeError, IndexError, TypeError) as error:
            # One row with a schema that has no grammar, or that a processor cannot digest (a picture of one pixel), fails its whole batch.
            return self._one_by_one(batch, deadline, f"{type(error).__name__}: {error}")
        for prompt, row, opening in zip(fitted, rows, openings, strict=True):
            replies[prompt.index] = self._reply(prompt, row, opening)
        return replies

    def _one_by_one(self, batch: list[_Prompt], deadline: Deadline, reason: str) -> dict[int, ChatReply]:
        if len(batch) == 1:
            return {batch[0].index: ChatReply("", "error", error=reason)}
        replies: dict[int, ChatReply] = {}
        for prompt in batch:
            replies.update(self._answer([prompt], deadline))
        return replies

    def _fit(self, batch: list[_Prompt]) -> tuple[list[_Prompt], Any, dict[int, ChatReply]]:
        """Cut prompts that leave no room for their reply; what cannot be cut gets an error reply."""
        failed: dict[int, ChatReply] = {}
        for _ in range(FIT_TRIES):
            inputs = self._checkpoint.inputs([p.text for p in batch], [p.images for p in batch])
            context = self._checkpoint.context
            if context is None:
                return batch, inputs, failed
            lengths = inputs["attention_mask"].sum(dim=-1).tolist()
            excess = [length + p.request.max_tokens - context for length, p in zip(lengths, batch, strict=True)]
            if max(excess) <= 0:
                return batch, inputs, failed
            kept: list[_Prompt] = []
            for prompt, over in zip(batch, excess, strict=True):
                try:
                    kept.append(self._shorten(prompt, over) if over > 0 else prompt)
                except ModelError as error:
                    failed[prompt.index] = ChatReply("", "error", error=str(error))
            batch = kept
            if not batch:
                return [], None, failed
        raise ValueError("The prompt does not get short enough by cutting.")

    def _shorten(self, prompt: _Prompt, excess: int) -> _Prompt:
        messages, removed = cut_longest_user_message(prompt.messages, excess, self._checkpoint)
        return replace(prompt, messages=messages, text=self._checkpoint.render(messages), cut=prompt.cut + removed)

    def _generate(
        self, requests: list[ChatRequest], inputs: Any, deadline: Deadline
    ) -> tuple[list[RowState], list[dict[int, float]]]:
        """Each row as it ended, and its likeliest first tokens with their probabilities."""
        schemas = [request.schema for request in requests]
        sampler = RowSampler(requests, [None if each is None else self._schemas.mask(each) for each in schemas])
        ends = sorted(self._checkpoint.end_ids)
        stopping = RowStopping(requests, sampler, self._checkpoint.end_ids, self._decode, deadline)
        config = GenerationConfig(
            max_new_tokens=max(request.max_tokens for request in requests),
            do_sample=False,
            eos_token_id=ends or None,
            pad_token_id=self._checkpoint.tokenizer.pad_token_id,
        )
        # Pictures have states too.
        prefixes = self._prefixes if set(inputs) == {"input_ids", "attention_mask"} else None
        cache = None
        with torch.inference_mode():
            if prefixes is not None:
                cache = prefixes.begin(self._checkpoint.model, inputs, config.max_new_tokens, deadline)
                if cache is None:
                    return [RowState(request, finish="abort") for request in requests], [{} for _ in requests]
            self._checkpoint.model.generate(
                **inputs,
                past_key_values=cache,
                generation_config=config,
                logits_processor=LogitsProcessorList([sampler]),
                stopping_criteria=StoppingCriteriaList([stopping]),
            )
        return stopping.rows, sampler.openings or [{} for _ in requests]

    @cached_property
    def _schemas(self) -> SchemaMasks:
        return SchemaMasks(self._checkpoint.tokenizer, sorted(self._checkpoint.end_ids))

    def _decode(self, tokens: list[int]) -> str:
        text: str = self._checkpoint.tokenizer.decode(
            tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _reply(self, prompt: _Prompt, row: RowState, opening: dict[int, float]) -> ChatReply:
        text = cut_at_stop(self._decode(row.tokens), prompt.request.stop).strip()
        reply = ChatReply(text, row.finish or "length", prompt_cut=prompt.cut)
        if not prompt.request.logprobs:
            return reply
        decode = self._checkpoint.tokenizer.decode
        first = ((decode([token], clean_up_tokenization_spaces=False), value) for token, value in opening.items())
        return replace(reply, logprobs=tuple(row.logprobs), opening=opening_of(first))
