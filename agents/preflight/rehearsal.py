"""A batch of sixteen turns through the embedded profile with no network, run in a process of its own.

Run: ``python -m agents.preflight.rehearsal --preset best --task 2``; the last line of its output is a JSON report.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

TURNS = 16
_BLOCKED = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.bind")
_QUESTIONS = (
    "What is this?", "Who made this, and when was it first shown?", "How tall is it compared to the Eiffel Tower?",
    "What does the sign say?", "What is the price of this today?", "Which of the two animals lives longer?",
    "", "Was ist das? 這是什麼？ \U0001f981",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer the batch and print the report; 1 where something broke."""
    parser = argparse.ArgumentParser(prog="python -m agents.preflight.rehearsal")
    parser.add_argument("--preset", default="best")
    parser.add_argument("--profile", default="embedded")
    parser.add_argument("--task", type=int, default=2, choices=(1, 2, 3))
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args(arguments)
    os.environ.update({"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"})
    attempts = block_network()
    print(json.dumps({**rehearse(options.preset, options.profile, options.task, options.cache), "attempts": attempts}))
    return 0


def block_network() -> list[str]:
    """Refuse every connection of this process from now on, for good; the list returned grows with those that were tried."""
    tried: list[str] = []

    def hook(event: str, details: tuple[Any, ...]) -> None:
        if event not in _BLOCKED:
            return
        address = details[1] if event in ("socket.connect", "socket.sendto", "socket.bind") else details[0]
        if isinstance(address, (str, bytes)) and event in ("socket.connect", "socket.bind"):
            return  # a Unix socket: this machine
        if event == "socket.bind":
            return
        tried.append(f"{event.removeprefix('socket.')} {address}")
        raise OSError(f"the network is blocked: {address}")

    sys.addaudithook(hook)
    return tried


def rehearse(preset: str, profile: str, task: int, cache: Path | None) -> dict[str, Any]:
    """Start the agent and let it answer a batch; the report holds times in seconds, answers and their tokens."""
    from agents.launch import DEFAULT_CACHE, build_agent, build_pipeline, prepare
    from agents.runtime.start_up import StartUp, start_up
    from agents.search.hits import SearchError

    cache = cache or DEFAULT_CACHE
    prepare(cache, profile)
    searching = ""
    try:
        pipeline = build_pipeline(profile, split="validation", web=task != 1, cache=cache)
    except SearchError as error:
        pipeline, searching = None, str(error)
    agent: Any = build_agent(preset, profile, pipeline, cache=cache)
    started: StartUp = start_up(agent)
    batch = turns(TURNS)
    began = time.perf_counter()
    answers = agent.batch_generate_response(*batch)
    seconds = time.perf_counter() - began
    name, count = token_counter()
    return {
        "start_up": round(started.seconds, 2),
        "start_up_failures": [f"{step.name}: {step.error}" for step in started.failures],
        "seconds": round(seconds, 2),
        "answers": answers,
        "turns": TURNS,
        "tokens": [count(answer) for answer in answers],
        "tokenizer": name,
        "without_search": searching,
    }


def turns(number: int) -> tuple[list[str], list[Any], list[list[dict[str, str]]]]:
    """Questions, pictures of many kinds, and for every other turn a dialog that came before."""
    from PIL import Image, ImageDraw

    kinds = (
        ("RGB", (960, 1280)),
        ("RGBA", (640, 480)),
        ("P", (1280, 960)),
        ("L", (32, 32)),
        ("CMYK", (800, 600)),
        ("RGB", (1, 1)),
    )
    pictures: list[Any] = []
    for index in range(number):
        mode, size = kinds[index % len(kinds)]
        picture = Image.new("RGB", size, (40 + 10 * index, 90, 160))
        if min(size) > 100:
            ImageDraw.Draw(picture).text((60, 60), "EIFFEL TOWER", fill="white", font_size=64)
        pictures.append(picture.convert(mode))
    before = [{"role": "user", "content": "What is this?"}, {"role": "assistant", "content": "The Eiffel Tower."}]
    queries = [_QUESTIONS[index % len(_QUESTIONS)] for index in range(number)]
    return queries, pictures, [list(before) if index % 2 else [] for index in range(number)]


def token_counter() -> tuple[str, Callable[[str], int]]:
    """The evaluator's tokenizer where it is in the local cache, else MiniLM's, whose pieces are shorter, so that it counts more."""
    from transformers import AutoTokenizer

    from agents.search.encoders import MINILM, text_checkpoint

    for name in ("meta-llama/Llama-3.2-1B-Instruct", "meta-llama/Llama-3.2-11B-Vision-Instruct"):
        try:
            tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=True)
        except (OSError, ValueError):
            continue
        return name, partial(_count, tokenizer)
    return "MiniLM (stand-in)", partial(_count, AutoTokenizer.from_pretrained(text_checkpoint(MINILM)))


def _count(tokenizer: Any, text: str) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False, truncation=False))


if __name__ == "__main__":
    sys.exit(main())
