"""How fast SmolLM2-135M answers here: seconds an answer, tokens a second, by batch size and dtype.

python -m benchmarks.chat [--batch 1 4 8] [--dtype bfloat16 float32] [--prompt-words 300] [--tokens 40]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from agents.models.base import ChatMessage, ChatModel, ChatRequest
from agents.models.chat.smollm2 import load_smollm2

WORDS = "The tower is made of iron and was built for a fair in the city beside the river many years ago".split()
QUESTION = "Write a long story about the tower."


@dataclass(frozen=True)
class Speed:
    """Measured at one batch size.

    Attributes:
        first: Seconds for a batch of one-token replies: what reading the prompts takes.
        whole: Seconds for a batch of full replies.
        tokens: Tokens generated in the full replies.
        batch: Requests in the batch.
    """

    first: float
    whole: float
    tokens: int
    batch: int

    @property
    def tokens_per_second(self) -> float:
        """Tokens generated in a second, reading the prompts left out."""
        return (self.tokens - self.batch) / max(self.whole - self.first, 1e-9)


def measure(model: ChatModel, batch: int, prompt_words: int, tokens: int, repeats: int) -> Speed:
    """Median of ``repeats`` runs; prompts differ in their first words so that nothing is shared between rows."""
    text = " ".join(WORDS[i % len(WORDS)] for i in range(prompt_words))
    requests = [
        ChatRequest((ChatMessage("user", f"Note {row}: {text}\n{QUESTION}"),), max_tokens=tokens, logprobs=True)
        for row in range(batch)
    ]
    firsts, wholes, said = [], [], 0
    for _ in range(repeats):
        start = time.perf_counter()
        model.chat([replace(request, max_tokens=1) for request in requests])
        firsts.append(time.perf_counter() - start)
        start = time.perf_counter()
        replies = model.chat(requests)
        wholes.append(time.perf_counter() - start)
        said = sum(len(reply.logprobs or ()) for reply in replies)
    return Speed(statistics.median(firsts), statistics.median(wholes), said, batch)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--dtype", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--prompt-words", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--cache", type=Path, default=Path(os.environ.get("CRAG_CACHE", ".cache")))
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    table = Table(
        title=f"SmolLM2-135M, {options.prompt_words} words in, {options.tokens} tokens out, {options.threads} threads"
    )
    for column in ("dtype", "load s", "batch", "prompts s", "answers s", "s/answer", "tokens/s"):
        table.add_column(column, justify="right")
    for dtype in options.dtype:
        start = time.perf_counter()
        model = load_smollm2(options.cache, dtype, max_batch=max(options.batch))
        load = time.perf_counter() - start
        measure(model, 1, 10, 2, 1)  # the first pass of a process is slower
        for batch in options.batch:
            speed = measure(model, batch, options.prompt_words, options.tokens, options.repeats)
            times = (speed.first, speed.whole, speed.whole / batch)
            table.add_row(
                dtype, f"{load:.1f}", str(batch), *(f"{t:.2f}" for t in times), f"{speed.tokens_per_second:.1f}"
            )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
