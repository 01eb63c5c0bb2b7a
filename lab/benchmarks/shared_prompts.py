"""Tokens of a turn's prompts that a prefix cache spares, stage by stage.

    python -m lab.benchmarks.shared_prompts

The prompts of ``best`` for a model that sees are filled in with a photo and sixteen pages of random words. No model is asked. Each
prompt is read by an engine's prefix cache (``latency/prefix_cache.py``), with the instructions in front and with the photo in front.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from PIL import Image
from pydantic import Field

from agents.asking.prompts import PromptLibrary
from agents.base.command_options import Options
from agents.models.base import ChatRequest
from agents.profiles.profile import PROMPTS
from evaluation.commands import make_console
from lab.benchmarks.common import build_table, run
from lab.benchmarks.latency.cost import Machine
from lab.benchmarks.latency.prefix_cache import PrefixCache

_WORDS = "tower bridge built stone height metres city river old year name house road line garden".split()
_PAGES, _PAGE_WORDS = 16, 140  # 3,000 tokens of evidence
_QUESTION = "How tall is this tower?"
_SHOWN: dict[str, Any] = {
    "recognised": [("Eiffel Tower", 0.97)],
    "by_eye": [],
    "parts": [],
    "pictured": None,
    "sheet": None,
}


class SharedOptions(Options):
    """Options of the count."""

    picture_tokens: int = Field(
        1200, ge=1, description="tokens of a photo; Qwen3-VL: one for 32 x 32 of 960 x 1280 pixels"
    )


def make_requests() -> dict[str, ChatRequest]:
    """Make the requests of a turn, in their order."""
    prompts, rng = PromptLibrary(PROMPTS, sees=True), random.Random(0)
    pages = [SimpleNamespace(title="A page", text=" ".join(rng.choices(_WORDS, k=_PAGE_WORDS))) for _ in range(_PAGES)]
    photo = Image.new("RGB", (960, 1280), "gray")

    def ask(name: str, **values: Any) -> ChatRequest:
        return prompts[name].request(image=photo, question=_QUESTION, history=[], entity="Eiffel Tower", **values)

    return {
        "look": ask("look"),
        "answer": ask("grounded_answer", evidence=pages, last=False, **_SHOWN),
        "answer after one more search": ask("grounded_answer", evidence=[*pages[8:], *pages[:8]], last=True, **_SHOWN),
        "check": ask(
            "cross_check", evidence=pages, answers=["330 metres", "300 metres"], letters="AB", own=True, **_SHOWN
        ),
    }


def count_tokens(options: SharedOptions, *, pictures_first: bool) -> list[tuple[str, float, float]]:
    """Count each prompt's tokens, and those that need not be read again."""
    characters, requests = Machine.read().characters, make_requests()
    cache, rows = PrefixCache(len(requests), pictures_first=pictures_first), []
    for name, request in requests.items():
        text = sum(len(message.content) for message in request.messages) / characters
        pictures = sum(len(message.images) for message in request.messages) * options.picture_tokens
        overlap = cache.read(request)
        rows.append(
            (name, text + pictures, overlap.characters / characters + overlap.pictures * options.picture_tokens)
        )
    return rows


def _measure(options: SharedOptions) -> int:
    system, first = (count_tokens(options, pictures_first=before) for before in (False, True))
    rows: list[tuple[str, ...]] = [
        (name, f"{tokens:.0f}", f"{known_tokens:.0f}", f"{known_first:.0f}")
        for (name, tokens, known_tokens), (_, _, known_first) in zip(system, first, strict=True)
    ]
    total = sum(tokens for _, tokens, _ in system)
    shares = [sum(known_tokens for _, _, known_tokens in counts) / total for counts in (system, first)]
    rows.append(("all", f"{total:.0f}", *(f"{share * total:.0f} ({share:.0%})" for share in shares)))
    headings = ("prompt", "tokens", "not read again: instructions first", "photo first")
    make_console().print(build_table("prompts of a turn of best, for a model that sees", headings, rows))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table.

    Returns:
        0; 2 for a wrong command line.
    """
    return run(_measure, SharedOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
