"""Throughput of a profile's chat model: prefill and decoding, in tokens a second.

    python -m lab.benchmarks.chat_speed --profile embedded_batch [--batch 16]

Each prompt is another excerpt of the mini set's pages, so that no prefix cache helps. A batch with replies of one token takes the time
of reading. What longer replies take beyond it is the time of writing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from agents.evidence.shown import CHARACTERS_PER_TOKEN
from agents.models.base import ChatMessage, ChatModel, ChatRequest, ModelError
from agents.settings.run_config import RunConfig
from evaluation.commands import make_console
from lab.benchmarks.common import ProfileOptions, run
from mini_crag_mm.loader import read_pages


@dataclass(frozen=True)
class Speed:
    """Tokens a second of a batch together; tokens of prompts are estimated from their characters."""

    reading: float
    writing: float


def measure(model: ChatModel, text: str, batch: int, prompt_tokens: int, reply_tokens: int) -> Speed:
    """Measure the speed of one batch.

    Args:
        model: The chat model.
        text: Text to cut into prompts; ``2 * batch * prompt_tokens * CHARACTERS_PER_TOKEN`` characters are used.
        batch: Number of prompts in a call.
        prompt_tokens: Tokens of a prompt.
        reply_tokens: Tokens of a reply.

    Raises:
        ModelError: The model did not answer, or the text is too short.
    """
    size = prompt_tokens * CHARACTERS_PER_TOKEN
    if len(text) < 2 * batch * size:
        raise ModelError(f"{len(text)} characters are too few for {batch} prompts of {prompt_tokens} tokens")
    prompts = [text[start : start + size] for start in range(0, 2 * batch * size, size)]
    read, _ = _ask(model, prompts[:batch], 1)
    seconds, tokens = _ask(model, prompts[batch:], reply_tokens)
    return Speed(batch * prompt_tokens / read, (tokens - batch) / max(seconds - read, 1e-9))


def _ask(model: ChatModel, prompts: Sequence[str], tokens: int) -> tuple[float, int]:
    """Ask for replies; return the seconds, and the tokens of all replies."""
    requests = [
        ChatRequest((ChatMessage("user", f"{text}\n\nGo on with this text."),), max_tokens=tokens, logprobs=True)
        for text in prompts
    ]
    began = time.perf_counter()
    replies = model.chat(requests)
    seconds = time.perf_counter() - began
    if failed := [reply.error for reply in replies if reply.error]:
        raise ModelError(failed[0])
    return seconds, sum(len(reply.logprobs or ()) for reply in replies)


class ChatSpeedOptions(ProfileOptions):
    """Options of how much is read and written."""

    batch: int = Field(16, description="prompts in one call")
    prompt_tokens: int = Field(600, description="tokens of a prompt")
    reply_tokens: int = Field(50, description="tokens of a reply")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print.

    Returns:
        0, or 2 if it cannot be measured.
    """
    return run(_measure, ChatSpeedOptions, arguments, __doc__)


def _measure(options: ChatSpeedOptions) -> int:
    config = RunConfig.read("direct_rag", options.profile, cache=options.cache)
    model = config.models().chat("chat")
    model.chat([ChatRequest((ChatMessage("user", "Hello"),), max_tokens=2)])  # loads it
    text = "\n\n".join(page["page_snippet"] for page in read_pages(options.split))
    speed = measure(model, text, options.batch, options.prompt_tokens, options.reply_tokens)
    make_console().print(
        f"{options.profile}, {model.name}, batch {options.batch}: prompts {speed.reading:.0f}, replies {speed.writing:.1f} tokens/s",
        highlight=False,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
