"""Chat with a Hugging Face transformers checkpoint: text-only or vision-language, on CPU or GPU."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch
from PIL import Image
from transformers import Cache, GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from agents.base.revisions import MAIN, split_revision
from agents.models.base import ChatMessage, ChatReply, ChatRequest, ModelError, sum_first_token_probs
from agents.models.chat.generation_control import RowSampler, RowState, RowStopping, cut_at_stop
from agents.models.chat.gguf import find
from agents.models.chat.gguf_checkpoint import convert
from agents.models.chat.grouped_attention import use_grouped_attention
from agents.models.chat.int8_linear import quantise, weight_levels
from agents.models.chat.prefix_states import PrefixStates, cache_argument, select_rows
from agents.models.chat.prompt_fitting import FIT_TRIES, MAX_IMAGE_SIDE, checked_messages, cut_longest_user_message
from agents.models.chat.schema_masks import SchemaMasks
from agents.models.chat.thoughts import strip_thoughts
from agents.models.chat.transformers_checkpoint import Checkpoint, load_checkpoint
from agents.models.weights import locate_weights, name_conversion
from agents.time_limits.deadline import NO_DEADLINE, Deadline

_ABORTED = ChatReply("", "abort")


@dataclass
class _Job:
    """A request on its way: the (cut) messages, their rendering, and the reply, ``abort`` until there is another."""

    request: ChatRequest
    messages: tuple[ChatMessage, ...] = ()
    text: str = ""
    cut: int = 0
    reply: ChatReply = _ABORTED

    @property
    def images(self) -> tuple[Image.Image, ...]:
        return tuple(image for message in self.messages for image in message.images)

    def fail(self, reason: object) -> None:
        self.reply = ChatReply("", "error", error=str(reason))


class TransformersChat:
    """A ``ChatModel`` over one checkpoint.

    Prompts with and without images are grouped by length and generated in left-padded batches of at most ``max_batch``. If the model
    supports it, the prefill computes the logits of the last position only (``generate`` passes ``logits_to_keep=1`` by itself). Images are
    scaled down to ``max_image_side`` pixels on their longer side.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        name: str,
        max_batch: int = 8,
        max_image_side: int = MAX_IMAGE_SIDE,
        prefixes: PrefixStates | None = None,
        weights: Sequence[Path] = (),  # source of the checkpoint
        rounding: str = "",  # how these weights were rounded for this processor
    ) -> None:
        if max_batch < 1 or max_image_side < 1:
            raise ValueError("max_batch and max_image_side must be at least 1")
        self.name, self._checkpoint, self._max_batch = name, checkpoint, max_batch
        self.max_image_side, self._prefixes = max_image_side, prefixes
        self.weights, self.rounding = tuple(weights), rounding
        self._lock = threading.Lock()

    @classmethod
    def load(
        cls,
        path: str | Path | None = None,  # a checkpoint, or a GGUF file; None: the file of ``chat.gguf``
        device: str = "cpu",
        dtype: str = "auto",
        int8: bool = False,  # compute the linear layers in 8-bit integers (``agents.models.chat.int8_linear``)
        max_batch: int = 8,
        max_image_side: int = MAX_IMAGE_SIDE,
        revision: str = MAIN,  # commit of a model id
        *,
        cache: Path = Path(".cache"),  # with the GGUF file and converted checkpoints
    ) -> Self:
        """Load a checkpoint, or a GGUF file, which is converted once.

        Raises:
            ModelError: It cannot be loaded (see ``load_checkpoint``), or ``int8`` is asked for with another device or type.
        """
        if int8 and (device != "cpu" or dtype != "auto"):
            raise ModelError(
                'int8 = true works only on device = "cpu" and with dtype = "auto"; remove one of the options'
            )
        source = find(cache) if path is None else path
        gguf = Path(source) if str(source).endswith(".gguf") else None
        name = Path(source).name if gguf is None else gguf.stem
        checkpoint = load_checkpoint(
            source if gguf is None else convert(gguf, cache / "models" / name_conversion(gguf)),
            device,
            dtype,
            revision,
        )
        if int8:
            quantise(checkpoint.model)
            use_grouped_attention(checkpoint.model)
        # On a CPU reading takes most of the time, and the library's growing cache would be copied whole for every token.
        prefixes = PrefixStates(checkpoint.model.config) if int8 else None
        weights = locate_weights(*split_revision(source, revision))
        rounding = f" {weight_levels()} levels" if int8 else ""
        return cls(
            checkpoint, f"{name} (int8)" if int8 else name, max_batch, max_image_side, prefixes, weights, rounding
        )

    def warm_up(self) -> None:
        """Ask once, because the first time is slow: kernels are chosen, pictures processed.

        Raises:
            ModelError: The model cannot answer even this.
        """
        sight = (Image.new("RGB", (self.max_image_side,) * 2, "grey"),) if self._checkpoint.sees else ()
        (reply,) = self.chat([ChatRequest((ChatMessage("user", "What is this?", sight),), max_tokens=2)])
        if reply.error is not None:
            raise ModelError(f"{self.name} loads, but cannot answer: {reply.error}")

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """Answer all requests; see ``ChatModel.chat``. At the deadline each reply keeps the text it has, if its turn had come."""
        jobs = [_Job(request) for request in requests]
        for job in jobs:
            try:
                job.messages = checked_messages(job.request, self.name, self._checkpoint.sees, self.max_image_side)
                job.text = self._checkpoint.render(job.messages)
            except ModelError as error:
                job.fail(error)
        for batch in self._batches([job for job in jobs if job.reply.error is None]):
            # An abandoned thread may still be inside, and two of them would mix the kept states of their prompts.
            remaining = min(deadline.left(), threading.TIMEOUT_MAX)
            if remaining <= 0 or not self._lock.acquire(timeout=remaining):
                break
            try:
                self._answer(batch, deadline)
            finally:
                self._lock.release()
        return [job.reply for job in jobs]

    def _batches(self, jobs: Sequence[_Job]) -> Iterator[list[_Job]]:
        """Yield groups of at most ``max_batch`` prompts of similar length.

        Prompts with and without images are kept apart, because processors refuse to mix them.
        """
        for group in ([job for job in jobs if not job.images], [job for job in jobs if job.images]):
            ordered = sorted(group, key=lambda job: (len(job.text), job.request.max_tokens))
            for start in range(0, len(ordered), self._max_batch):
                yield ordered[start : start + self._max_batch]

    def _answer(self, batch: list[_Job], deadline: Deadline) -> None:
        if deadline.passed():
            return
        try:
            fitted, inputs = self._fit(batch)
            rows = self._generate([job.request for job in fitted], inputs, deadline) if fitted else []
        except torch.OutOfMemoryError as error:
            reason = f"Out of memory: {error}"
        except (ModelError, ValueError, RuntimeError, IndexError, TypeError) as error:
            reason = f"{type(error).__name__}: {error}"
        else:
            for job, row in zip(fitted, rows, strict=True):
                job.reply = self._reply(job, row)
            return
        # One row with a schema that has no grammar, or that a processor cannot digest (a picture of one pixel), fails its whole batch.
        if len(batch) == 1:
            batch[0].fail(reason)
            return
        for job in batch:
            if job.reply.error is None:
                self._answer([job], deadline)

    def _fit(self, batch: list[_Job]) -> tuple[list[_Job], Any]:
        """Cut prompts that leave no room for their reply; those that cannot be cut fail.

        Returns:
            The remaining jobs and their input.
        """
        for _ in range(FIT_TRIES):
            inputs = self._checkpoint.inputs([job.text for job in batch], [job.images for job in batch])
            context = self._checkpoint.context
            if context is None:
                return batch, inputs
            lengths = inputs["attention_mask"].sum(dim=-1).tolist()
            excess = [length + job.request.max_tokens - context for length, job in zip(lengths, batch, strict=True)]
            if max(excess) <= 0:
                return batch, inputs
            for job, over in zip(batch, excess, strict=True):
                if over > 0:
                    self._shorten(job, over)
            batch = [job for job in batch if job.reply.error is None]
            if not batch:
                return [], None
        raise ValueError("The prompt does not get short enough by cutting.")

    def _shorten(self, job: _Job, excess: int) -> None:
        try:
            job.messages, removed = cut_longest_user_message(job.messages, excess, self._checkpoint)
            job.text = self._checkpoint.render(job.messages)
            job.cut += removed
        except ModelError as error:
            job.fail(error)

    def _generate(self, requests: list[ChatRequest], inputs: Any, deadline: Deadline) -> list[RowState]:
        """Generate the reply of each row."""
        rows = [RowState(each, None if each.schema is None else self._schemas.mask(each.schema)) for each in requests]
        # Pictures have states too.
        prefixes = self._prefixes if set(inputs) == {"input_ids", "attention_mask"} else None
        with torch.inference_mode():
            if prefixes is None:
                self._generate_batch(rows, inputs, None, deadline)
                return rows
            new_tokens = max(request.max_tokens for request in requests)
            cache = prefixes.begin(self._checkpoint.model, inputs, new_tokens, deadline)
            if cache is None:
                return [RowState(request, finish="abort") for request in requests]
            batch = rows
            while batch:
                tokens = self._generate_batch(batch, inputs, cache, deadline)
                remaining = [number for number, row in enumerate(batch) if row.finish is None]
                if remaining:
                    inputs, cache = select_rows(tokens, inputs["attention_mask"], cache, remaining)
                batch = [batch[number] for number in remaining]
        return rows

    def _generate_batch(
        self, rows: Sequence[RowState], inputs: Any, cache: Cache | None, deadline: Deadline
    ) -> torch.Tensor:
        """Generate until all rows have ended, or with a cache until half of them have, and return prompts and replies."""
        sampler = RowSampler(rows)
        ends = self._checkpoint.end_ids
        config = GenerationConfig(
            max_new_tokens=max(row.request.max_tokens - len(row.tokens) for row in rows),
            do_sample=False,
            eos_token_id=sorted(ends) or None,
            pad_token_id=self._checkpoint.tokenizer.pad_token_id,
        )
        min_rows = 1 if cache is None else len(rows) // 2 + 1
        tokens: torch.Tensor = self._checkpoint.model.generate(
            **inputs,
            **({} if cache is None else {cache_argument(self._checkpoint.model): cache}),
            generation_config=config,
            logits_processor=LogitsProcessorList([sampler]),
            stopping_criteria=StoppingCriteriaList([RowStopping(sampler, ends, self._decode, deadline, min_rows)]),
        )
        return tokens

    @cached_property
    def _schemas(self) -> SchemaMasks:
        return SchemaMasks(self._checkpoint.tokenizer)

    def _decode(self, tokens: list[int]) -> str:
        text: str = self._checkpoint.tokenizer.decode(
            tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _reply(self, job: _Job, row: RowState) -> ChatReply:
        text = strip_thoughts(cut_at_stop(self._decode(row.tokens), job.request.stop))
        reply = ChatReply(text, row.finish or "length", prompt_cut=job.cut)
        if not job.request.logprobs:
            return reply
        decode = self._checkpoint.tokenizer.decode
        first = (
            (decode([token], clean_up_tokenization_spaces=False), value)
            for token, value in row.first_token_probs.items()
        )
        return replace(reply, logprobs=tuple(row.logprobs), first_token_probs=sum_first_token_probs(first))
