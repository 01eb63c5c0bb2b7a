"""Chat with a model inside vLLM, in this process' charge: many requests at once, each with its own settings and end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from agents.base.revisions import MAIN, is_commit, split_revision
from agents.models.base import ChatMessage, ChatReply, ChatRequest, FinishReason, ModelError, sum_first_token_probs
from agents.models.chat.chat_template import ChatTemplate, load_chat_template
from agents.models.chat.loop_thread import GRACE_SECONDS, LoopThread, time_limit
from agents.models.chat.prompt_fitting import (
    FIT_TRIES,
    MAX_IMAGE_SIDE,
    checked_messages,
    cut_longest_user_message,
    system_into_user,
)
from agents.models.chat.thoughts import strip_thoughts
from agents.models.chat.vllm_compat import VllmEngine, free_memory, is_dead
from agents.models.weights import locate_weights
from agents.time_limits.deadline import NO_DEADLINE, Deadline

SECONDS_WITHOUT_DEADLINE = 600.0  # nothing waits without a limit, not even where the caller sets none
CLOSE_SECONDS = 2.0  # for tasks to end when the engine is closed
Start = Callable[[], Coroutine[Any, Any, VllmEngine]]
DEAD = "The vLLM engine has died; its own log above says why (often memory: see gpu_memory_utilization, context, max_batch)."

_log = logging.getLogger(__name__)


@dataclass
class _Job:
    """One request on its way, with the engine's output so far."""

    request: ChatRequest
    prompt: dict[str, Any] = field(default_factory=dict)
    sampling: Any = None
    cut: int = 0
    output: Any = None
    error: str | None = None

    def reply(self) -> ChatReply:
        """Build the reply from the engine's output so far."""
        if self.error is not None:
            return ChatReply("", "error", error=self.error, prompt_cut=self.cut)
        text = "" if self.output is None else strip_thoughts(self.output.text)
        return ChatReply(
            text, _finish(self.output), self._logprobs(), prompt_cut=self.cut, first_token_probs=self._opening()
        )

    def _opening(self) -> dict[str, float] | None:
        if not self.request.logprobs or self.output is None or not self.output.logprobs:
            return None
        choices = self.output.logprobs[0].values()
        return sum_first_token_probs(
            (it.decoded_token, math.exp(it.logprob)) for it in choices if it.decoded_token is not None
        )

    def _logprobs(self) -> tuple[float, ...] | None:
        if not self.request.logprobs or self.output is None or self.output.logprobs is None:
            return None
        values = [
            float(choices[token].logprob)
            # V0 hands out its own lists, and appends to one after the other: at a deadline the second may be longer.
            for token, choices in zip(self.output.token_ids, self.output.logprobs, strict=False)
        ]
        # The token that ends a reply is no part of it; a stop string is (stop_reason is that string).
        ended = self.output.finish_reason == "stop" and not isinstance(self.output.stop_reason, str)
        return tuple(values[:-1] if ended else values)


class VllmChat:
    """A ``ChatModel`` on a vLLM engine of its own: version 0.10.2 for Llama-3.2-Vision, current ones for others.

    ``chat`` may be called from several threads; the engine batches whatever it has. Close it (or use ``with``) to free the memory and the
    event loop; a script that builds one needs an ``if __name__ == "__main__"`` guard, for vLLM may start processes. Images
    are scaled down to ``max_image_side`` pixels on their longer side. With ``pictures_first`` they come before the instructions too.
    """

    def __init__(
        self,
        engine: VllmEngine,
        loop: LoopThread,
        template: ChatTemplate,
        name: str,
        max_image_side: int = MAX_IMAGE_SIDE,
        start: Start | None = None,  # loads the engine again, once, if it dies
        *,
        pictures_first: bool = False,
    ) -> None:
        if max_image_side < 1:
            raise ValueError("max_image_side must be at least 1")
        self.name, self._loop, self._template = name, loop, template
        self._engines = [engine]  # one at a time; the finaliser sees which
        self._start, self._lock = start, threading.Lock()
        self._reload: Future[None] | None = None
        self.max_image_side, self._pictures_first = max_image_side, pictures_first
        self.weights: tuple[Path, ...] = ()  # source of its weights
        self._ids = itertools.count()
        self._image_tokens: dict[tuple[tuple[int, int], ...], int] = {}
        self._image_places: dict[int, int] = {0: 0}
        self._finalizer = weakref.finalize(self, _shut_down, self._engines, loop)  # also when the interpreter ends

    @property
    def _engine(self) -> VllmEngine:
        return self._engines[0]

    @classmethod
    def load(
        cls,
        path: str | Path,  # a folder made by ``save_pretrained``, or a model id of the local Hugging Face cache
        dtype: str = "auto",  # ``auto`` (as saved), ``float32``, ``bfloat16`` or ``float16``
        # Most tokens of prompt and reply together, pictures beside the prompt (Llama-3.2-Vision) not counted; None for the
        # model's own limit
        context: int | None = None,
        max_batch: int = 16,  # most requests in one pass over the model
        gpu_memory_utilization: float = 0.9,  # share of the GPU's memory that vLLM may take, weights and KV cache together
        images: int = 1,  # most images in one prompt
        max_image_side: int = MAX_IMAGE_SIDE,
        # Put the system message of a prompt with pictures behind them, in the user's message: the prompts of a turn's stages then begin
        # alike, and the prefix cache reads its photo once
        pictures_first: bool = False,
        enforce_eager: bool = False,  # without CUDA graphs: starts sooner, takes less memory, answers slower
        extra: Mapping[str, Any] | None = None,  # more engine arguments, by vLLM's own names
        name: str | None = None,  # that of traces; the last part of ``path`` if None
        revision: str = MAIN,  # commit of a model id: of weights, tokenizer and processor
    ) -> VllmChat:
        """Start an engine and warm it up.

        Raises:
            ModelError: Checkpoint or vLLM is missing, or the engine cannot start or answer.
        """
        source, revision = split_revision(path, revision)
        arguments = {
            "model": source,
            "dtype": dtype,
            "max_num_seqs": max_batch,
            "gpu_memory_utilization": gpu_memory_utilization,
            "limit_mm_per_prompt": {"image": images},
            "enforce_eager": enforce_eager,
        }
        if is_commit(revision):
            arguments |= {"revision": revision, "tokenizer_revision": revision}
        if context is not None:
            arguments["max_model_len"] = context
        more = extra or {}
        template = load_chat_template(source, revision, **more.get("mm_processor_kwargs") or {})
        loop = LoopThread("vllm")
        start = partial(VllmEngine.start, arguments, more, template)
        try:
            engine = loop.run(start())
        except BaseException:
            loop.close()
            raise
        model = cls(
            engine,
            loop,
            template,
            name or Path(path).name,
            max_image_side,
            start,
            pictures_first=pictures_first,
        )
        model.weights = locate_weights(source, revision)
        try:
            model._warm_up()
        except ModelError:
            model.close()
            raise
        return model

    def _warm_up(self) -> None:
        """Ask once, because the first time is slow: grammars are compiled, images processed.

        Raises:
            ModelError: The engine cannot answer even this.
        """
        hello = (ChatMessage("user", "Hello"),)
        requests = [
            ChatRequest(hello, max_tokens=2, logprobs=True),
            ChatRequest(hello, max_tokens=8, schema={"type": "boolean"}),
            ChatRequest(hello, max_tokens=2, temperature=1.0, seed=0),
        ]
        if self._template.sees:
            sight = Image.new("RGB", (self.max_image_side, self.max_image_side), "grey")
            requests.append(ChatRequest((ChatMessage("user", "What is this?", (sight,)),), max_tokens=2))
        for reply in self.chat(requests):
            if reply.error is not None:
                raise ModelError(f"{self.name} starts, but cannot answer: {reply.error}")

    def __enter__(self) -> VllmChat:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Shut the engine down; a second call does nothing."""
        self._finalizer()

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """Answer all requests in one batch; see ``ChatModel.chat``. At the deadline each reply keeps the text it has (``abort``).

        If the engine dies in the middle, finished requests keep their replies and the others get an error. The engine is then loaded
        again, once. A call that comes meanwhile waits for it until its deadline.

        Raises:
            ModelError: The model was closed, or its engine is dead and not back by the deadline.
        """
        if not self._finalizer.alive:
            raise ModelError(f"{self.name} has been closed.")
        if self._engine.is_dead:
            self._wait_for_reload(deadline)
        jobs = [_Job(request) for request in requests]
        for job in jobs:
            if deadline.passed():
                return [job.reply() for job in jobs]
            self._prepare(job)
        remaining = min(deadline.left(), SECONDS_WITHOUT_DEADLINE)
        # Where the engine holds up its event loop, or is closed meanwhile, the output so far is the whole reply.
        with contextlib.suppress(TimeoutError, CancelledError):
            self._loop.run(self._answer_all(jobs, remaining, deadline), timeout=max(remaining, 0.0) + GRACE_SECONDS)
        if self._engine.is_dead:
            self._reload_once()
        return [job.reply() for job in jobs]

    def _wait_for_reload(self, deadline: Deadline) -> None:
        reload = self._reload_once()
        if reload is None:
            raise ModelError(DEAD)
        try:
            reload.result(min(deadline.left(), SECONDS_WITHOUT_DEADLINE))
        except TimeoutError:
            raise ModelError(f"{DEAD} It is being loaded again.") from None
        except (ModelError, RuntimeError) as error:
            raise ModelError(f"{DEAD} It cannot be loaded again: {error}") from error
        if self._engine.is_dead:
            raise ModelError(f"{DEAD} It had been loaded again before.")

    def _reload_once(self) -> Future[None] | None:
        """Begin to load the engine again, unless that has begun before; None if nothing can load it or the model is closed."""
        with self._lock:
            if self._reload is None and self._start is not None and self._finalizer.alive:
                _log.error("%s The engine is loaded again, once.", DEAD)
                with contextlib.suppress(RuntimeError):  # the loop has been closed
                    self._reload = self._loop.begin(self._load_again(self._start))
            return self._reload

    async def _load_again(self, start: Start) -> None:
        self._engine.shutdown()
        free_memory()
        engine = await start()
        self._engines[0] = engine
        if not self._finalizer.alive:  # closed meanwhile
            engine.shutdown()

    async def _answer_all(self, jobs: Sequence[_Job], seconds: float, deadline: Deadline) -> None:
        await asyncio.gather(*(self._answer(job, seconds, deadline) for job in jobs if job.error is None))

    async def _answer(self, job: _Job, seconds: float, deadline: Deadline) -> None:
        request_id = f"{self.name}-{next(self._ids)}"
        limit: asyncio.Timeout | None = None
        try:
            async with time_limit(seconds, deadline) as limit:
                async for output in self._engine.generate(job.prompt, job.sampling, request_id):
                    job.output = output.outputs[0]
        except Exception as error:  # noqa: BLE001 - vLLM raises kinds of many layers; one request must not cost the others
            if limit is not None and limit.expired():
                return
            # V0 passes on its fatal error.
            killed = f"{DEAD} {_complaint(error)}" if self._engine.is_dead else _complaint(error)
            job.error = DEAD if is_dead(error) else killed

    def _prepare(self, job: _Job) -> None:
        """Build the engine's request of a job; a job that cannot be asked gets an error."""
        try:
            messages = checked_messages(job.request, self.name, self._template.sees, self.max_image_side)
            images = [image for message in messages for image in message.images]
            if images and self._pictures_first:
                messages = system_into_user(messages) or messages
            ids = self._fit(job, messages, self._growth(images))
            self._check_image_tokens(ids, len(images))
            job.sampling = self._engine.sampling(job.request)
        except ModelError as error:
            job.error = str(error)
            return
        job.prompt = {"prompt_token_ids": ids}
        if images:
            job.prompt["multi_modal_data"] = {"image": images}

    def _fit(self, job: _Job, messages: Sequence[ChatMessage], growth: int) -> list[int]:
        """Return the token ids of the prompt. Its longest user message is cut if it leaves no room for the reply."""
        template = self._template
        for _ in range(FIT_TRIES):
            ids = template.encode(template.render(messages))
            excess = len(ids) + growth + job.request.max_tokens - self._engine.context
            if excess <= 0:
                return ids
            messages, removed = cut_longest_user_message(messages, excess, template)
            job.cut += removed
        raise ModelError("The prompt does not get short enough by cutting.")

    def _check_image_tokens(self, ids: Sequence[int], images: int) -> None:
        """Raise ModelError if a text has the token of a picture: V0 would die of a missing picture."""
        word = getattr(self._template.processor, "image_token", None) if self._template.sees else None
        if word is None:
            return
        token = self._template.tokenizer.convert_tokens_to_ids(word)
        if images not in self._image_places:
            blank = (Image.new("RGB", (8, 8)),) * images
            empty = self._template.render([ChatMessage("user", "", blank)])
            self._image_places[images] = self._template.encode(empty).count(token)
        count, expected = ids.count(token), self._image_places[images]
        if count != expected:
            raise ModelError(
                f"{word} marks a picture: the prompt has it {count} times, its pictures account for {expected}. "
                "Take it out of the texts."
            )

    def _growth(self, images: Sequence[Image.Image]) -> int:
        """Tokens by which the images lengthen a prompt beyond their placeholders: a matter of their sizes alone."""
        sizes = tuple(image.size for image in images)
        if not sizes or sizes in self._image_tokens:
            return self._image_tokens.get(sizes, 0)
        blank = [Image.new("RGB", size) for size in sizes]
        text = self._template.render([ChatMessage("user", "", tuple(blank))])
        try:
            grown = self._template.processor(text=[text], images=[blank], add_special_tokens=False)  # type: ignore[misc]
        except (ValueError, RuntimeError, IndexError, TypeError, ZeroDivisionError) as error:
            raise ModelError(f"The model cannot take images of {sizes} pixels: {error}") from error
        self._image_tokens[sizes] = max(0, len(grown["input_ids"][0]) - len(self._template.encode(text)))
        return self._image_tokens[sizes]


def _finish(output: Any) -> FinishReason:
    if output is None or output.finish_reason in (None, "abort"):
        return "abort"
    return "length" if output.finish_reason == "length" else "stop"


def _complaint(error: BaseException) -> str:
    """Format the engine's error, or its cause if the engine's own wrapper has no message."""
    cause = error if str(error) else error.__cause__ or error
    return f"{type(cause).__name__}: {cause}"


def _shut_down(engines: Sequence[VllmEngine], loop: LoopThread) -> None:
    with contextlib.suppress(TimeoutError):
        loop.cancel_all(CLOSE_SECONDS)  # or the engine's own tasks complain that it has gone
    for engine in engines:
        engine.shutdown()
    loop.close()
