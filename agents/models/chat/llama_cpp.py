"""Chat with a GGUF model inside this process: llama.cpp through ``xllamacpp``.

Replies are streamed, so that at the deadline the text that has come is kept. While a prompt is read the engine reports each batch of it,
so that a long prompt ends in time too. A prompt that begins like an earlier one is not read again from its beginning (prefix cache):
prompts that share their evidence should put it first.
"""

import contextlib
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.base.revisions import MAIN
from agents.models.base import ChatReply, ChatRequest, ModelError
from agents.models.chat.gguf import find, hub_file
from agents.models.chat.openai_protocol import StreamedReply, request_body
from agents.models.chat.prompt_fitting import checked_messages
from agents.models.chat.server_prompt import Excess, ServerPrompt
from agents.models.weights import GGUF_VARIABLE, digest_weights
from agents.time_limits.deadline import NO_DEADLINE, Deadline

CONTEXT = 4096
"""Tokens of prompt and reply together, unless a profile says otherwise."""

PROMPT_BATCH = 128
"""Tokens of a prompt to read between two looks at the deadline: about 3 seconds on two CPU cores."""

PREFIX_CACHE_MIB = 2048
"""Memory for the states of earlier prompts; one of 1,000 tokens takes 28 MiB with Qwen2.5-1.5B (28 layers, 2 heads of 128, 16 bit)."""

MAX_IMAGE_SIDE = 896  # images are scaled down to this many pixels on their longer side


class _Events:
    """Reader of the events of one request."""

    def __init__(self, streamed: StreamedReply, deadline: Deadline) -> None:
        self._streamed, self._deadline = streamed, deadline
        self.excess: Excess | None = None  # of a prompt that is too long

    def __call__(self, event: Any) -> bool:
        """Read an event; True ends the request, which the engine does before the next one."""
        streamed = self._streamed
        if not isinstance(event, Mapping):
            streamed.error = f"the engine said {str(event)[:200]!r}"
        elif "error" in event or event.get("code", 0) >= 400:
            self._fail(event.get("error", event))
        else:
            for choice in event.get("choices") or ():
                streamed.take(choice)
        return streamed.error is not None or (streamed.finish is None and self._deadline.passed())

    def _fail(self, error: Any) -> None:
        """Note the engine's error, and what to do."""
        streamed = self._streamed
        match error:
            case {"type": "exceed_context_size_error", "n_prompt_tokens": int(tokens), "n_ctx": int(context)}:
                self.excess = Excess(tokens + streamed.request.max_tokens - context, tokens)
                streamed.error = (
                    f"the prompt has {tokens} tokens, more than the context of {context}: "
                    "show less evidence or load the model with a larger 'context'"
                )
            case {"message": message} | message:
                streamed.error = str(message)[:300]


class LlamaCppChat:
    """A ``ChatModel`` over a GGUF file.

    It answers one request after the other: on a CPU a batch is no faster than its parts, and each keeps the whole context. The same
    request gets the same reply as long as the engine has read the same prompts before; a prefix taken from the cache is computed in
    other batches, which can change the last digits of a probability.

    Raises:
        ModelError: ``xllamacpp`` is not installed, or a file is missing or broken.
    """

    max_image_side = MAX_IMAGE_SIDE

    def __init__(
        self,
        path: str | Path | None = None,  # a file, ``ORG/NAME/FILE`` of a hub, or that of ``agents.models.chat.gguf``
        mmproj: str | None = None,  # GGUF file of the vision tower, likewise, for a model that sees
        context: int = CONTEXT,  # tokens of prompt and reply together
        threads: int | None = None,  # of the CPU; None for as many as this process may run on
        revision: str = MAIN,  # commit of the hub's repository that ``path`` and ``mmproj`` are taken from
        *,
        cache: Path = Path(".cache"),
    ) -> None:
        file = find(cache) if path is None else hub_file(str(path), revision)
        self.name = file.stem
        sight = hub_file(mmproj, revision) if mmproj else None
        self.fingerprint = _fingerprint(file, sight, context)
        self._sees = mmproj is not None
        self._lock = threading.Lock()
        self._server = _serve(file, sight, context, threads or len(os.sched_getaffinity(0)))

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """Answer all requests, one after the other; see ``ChatModel.chat``. Requests after the deadline end as ``abort``."""
        return [self._one(request, deadline) for request in requests]

    def _one(self, request: ChatRequest, deadline: Deadline) -> ChatReply:
        streamed = StreamedReply(request)
        try:
            prompt = ServerPrompt(checked_messages(request, self.name, self._sees, self.max_image_side))
            # One slot: a second caller would only wait inside the engine, where no deadline is seen.
            remaining = min(deadline.left(), threading.TIMEOUT_MAX)
            if remaining <= 0 or not self._lock.acquire(timeout=remaining):
                return streamed.reply()
            try:
                while (excess := self._ask(prompt, streamed, deadline)) and prompt.shorten(excess):
                    streamed.error, streamed.prompt_cut = None, prompt.cut
            finally:
                self._lock.release()
        except (RuntimeError, ValueError) as error:  # a ModelError among them
            streamed.error = str(error)[:300]
        return streamed.reply()

    def _ask(self, prompt: ServerPrompt, streamed: StreamedReply, deadline: Deadline) -> Excess | None:
        """Ask once, and return by how much the prompt is too long, if it is."""
        options = {"stream": True, "return_progress": True, "cache_prompt": True}
        body = {"messages": prompt.bodies(merged=False), **options, **request_body(streamed.request)}
        events = _Events(streamed, deadline)
        self._server.handle_chat_completions(body, events)
        return events.excess


def _fingerprint(file: Path, sight: Path | None, context: int = CONTEXT) -> str:
    """Identify the weights, and a context of another length than the default: longer prompts are cut."""
    files = [each for each in (file, sight) if each is not None]
    length = "" if context == CONTEXT else f" context {context}"
    return f"{file.name}:{file.stat().st_size}{digest_weights(files)}{length}"


def _serve(path: Path, mmproj: Path | None, context: int, threads: int) -> Any:
    for file in (path, mmproj):
        if file is not None:
            check_gguf(file)
    try:
        import xllamacpp
    except ImportError as error:
        raise ModelError(f"Kind 'llama-cpp' needs the package xllamacpp: pip install xllamacpp ({error})") from error
    settings = xllamacpp.CommonParams()
    settings.model.path = str(path)
    if mmproj is not None:
        settings.mmproj.path = str(mmproj)
    settings.n_ctx, settings.n_parallel = context, 1
    settings.n_batch = settings.n_ubatch = PROMPT_BATCH
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
    settings.cache_ram_mib = PREFIX_CACHE_MIB
    settings.warmup = False
    settings.verbosity = 0
    settings.api_keys = [secrets.token_hex(16)]  # the engine listens on loopback; no other client may ask it
    try:
        with _quiet_stderr():
            return xllamacpp.Server(settings)
    except (RuntimeError, ValueError) as error:
        cure = "remove it and run: python -m agents.models.chat.gguf --cache CACHE"
        if os.environ.get(GGUF_VARIABLE):
            cure = f"name another one in {GGUF_VARIABLE}"
        how = f"free more memory than its {path.stat().st_size / 1e9:.1f} GB; if there is enough, the file is damaged: {cure}"
        if mmproj is not None:
            how = f"{mmproj} has to be the vision tower of this very model (CRAG_GGUF, CRAG_MMPROJ)"
        raise ModelError(f"{path} cannot be loaded: {error}; {how}") from error


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Hide the output of the engine's C++ code while it loads; errors come as exceptions."""
    stderr_copy = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
            yield
    finally:
        os.dup2(stderr_copy, 2)
        os.close(stderr_copy)


def check_gguf(path: Path) -> None:
    """Check the first bytes of a file before an engine crashes on it.

    Raises:
        ModelError: The file is missing or no GGUF; the message says how to get one.
    """
    how = "get the default one with: python -m agents.models.chat.gguf"
    if not path.is_file():
        raise ModelError(f"There is no model file {path}; {how}")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelError(f"{path} is not a GGUF file (or its download was cut short); remove it and {how}")
