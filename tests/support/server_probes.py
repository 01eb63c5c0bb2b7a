"""Probes of servers, and a run under a rate limit: ``python -m tests.support.server_probes`` prints them for lab/notes/errors.md."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pytest_httpserver import HTTPServer
from rich.console import Console
from werkzeug import Response

from agents.models.chat import smollm2
from agents.models.chat.openai_chat import OpenAIChat
from agents.models.chat.openai_probe import Probe, probe
from evaluation.files.responses import RESPONSES, read_responses
from evaluation.run import command
from tests.apps.conftest import KEY, crag_agent, serving
from tests.evaluation.worlds import picture, row, write_dataset
from tests.support.chat_server import refused, serve_chat
from tests.support.failing_server import FAILURES, refuse

_KEY = "PROBED_SERVER_KEY"
_MARKS = {True: "yes", False: "no", None: "unknown"}


@contextlib.contextmanager
def llama_cpp() -> Iterator[OpenAIChat]:
    """llama.cpp's own server with SmolLM2-135M, which takes no pictures."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(smollm2.gguf_file())
    settings.n_ctx, settings.n_parallel = 512, 1
    settings.api_keys, settings.verbosity, settings.warmup = [KEY], 0, False
    running = xllamacpp.Server(settings)
    yield OpenAIChat("smollm2", f"{running.listening_address}/v1", _KEY)


@contextlib.contextmanager
def crag_serve() -> Iterator[OpenAIChat]:
    """Our own server, over an agent of the real pipeline with a scripted model."""
    with serving(crag_agent()) as url:
        yield OpenAIChat("crag-mm-test", f"{url}/v1", _KEY)


@contextlib.contextmanager
def failing(way: str) -> Iterator[OpenAIChat]:
    """The server of the tests that fails in this way; ``reasons``: it refuses what models that reason do."""
    reasons = refuse("temperature", "logprobs", "response_format", max_tokens="max_completion_tokens")
    with HTTPServer(threaded=True) as server:
        serve_chat(server, reasons if way == "reasons" else FAILURES[way])
        yield OpenAIChat("m", server.url_for("/v1"), _KEY, attempts=1)


SERVERS = {
    "llama.cpp's own, SmolLM2-135M, for a profile that does not see": (llama_cpp, False),
    "llama.cpp's own, for one that sees": (llama_cpp, True),
    "crag serve": (crag_serve, True),
    "the tests': a model that reasons, as OpenAI serves it": (lambda: failing("reasons"), True),
    "the tests': a model that never ends its thoughts": (lambda: failing("thinks on"), True),
}


def list_rows(report: Probe) -> Iterator[str]:
    """Yield the rows of a probe in Markdown."""
    for each in report.findings:
        yield f"| {each.name} | {_MARKS[each.can]} | {each.detail} | {each.cure} |".replace("  |", " |")


class LowTier:
    """A server that answers ``allowed`` requests in each window; it refuses others with 429 and ``Retry-After``, as OpenAI does."""

    def __init__(self, allowed: int, window: float) -> None:
        self.allowed, self.window = allowed, window
        self.requests = self.refusals = 0
        self._answered: deque[float] = deque()
        self._lock = threading.Lock()

    def say(self, _: Any) -> str | Response:
        """Answer a request, or refuse it."""
        with self._lock:
            self.requests += 1
            now = time.monotonic()
            while self._answered and now - self._answered[0] >= self.window:
                self._answered.popleft()
            if len(self._answered) < self.allowed:
                self._answered.append(now)
                return "a lion"
            self.refusals += 1
        busy = refused(429, "Rate limit reached")
        busy.headers["Retry-After"] = f"{self.window / 3:g}"
        return busy


@dataclass(frozen=True)
class LimitedRun:
    """What became of a run under a rate limit."""

    status: int
    seconds: float
    answered: int
    errors: int
    requests: int
    refusals: int


def run_limited(folder: Path, server: LowTier, questions: int, more: Sequence[str] = ()) -> LimitedRun:
    """Answer questions by the real client of a server with a rate limit, four a call; ``more``: further options of ``crag run``."""
    write_dataset(folder, [row(f"s{n}", 1, "v0.1.2", picture(), None) for n in range(questions)], "v0.1.2")
    out, began, before = folder / "out", time.monotonic(), (server.requests, server.refusals)
    with HTTPServer(threaded=True) as http:
        serve_chat(http, server.say)
        status = command.main(
            [
                *(
                    "--preset",
                    "vlm_only",
                    "--profile",
                    "server",
                    "--base-url",
                    http.url_for("/v1"),
                    "--model-name",
                    "m",
                ),
                *(
                    "--dataset",
                    str(folder),
                    "--dataset-type",
                    "multi-turn",
                    "--set",
                    "limits.batch_size=4",
                    "--no-probe",
                ),
                *("--suppress-web-search-api", "--suppress-image-search-api", "--no-progress", "--no-report"),
                *("--eval-model", "rule", "--cache", str(folder / "cache"), "--output-dir", str(out), *more),
            ],
            Console(quiet=True),
        )
    turns = read_responses(out / RESPONSES)
    errors = sum(turn.error_cause is not None for turn in turns)
    counts = (server.requests - before[0], server.refusals - before[1])
    return LimitedRun(status, time.monotonic() - began, len(turns) - errors, errors, *counts)


def main() -> int:
    """Print the tables, as Markdown."""
    logging.disable(logging.CRITICAL)
    for name, (start, sees) in SERVERS.items():
        with patch.dict(os.environ, {_KEY: KEY}), start() as chat:
            report = probe(chat, sees=sees)
        print(f"**{name}**: {report.requests} requests\n\n| what | can it? | found | what to do |\n|---|---|---|---|")
        print("\n".join(list_rows(report)))
        print(f"\nRefused: {report.fault.partition(': ')[2]}.\n" if report.fault else "")
    print(
        "| run | status | answered | errors | requests | refused with 429 | seconds |\n|---|---:|---:|---:|---:|---:|---:|"
    )
    with tempfile.TemporaryDirectory() as folder:
        tier = LowTier(3, 3.0)
        for more in ((), ("--max-wait", "0", "--max-retries", "0"), ("--resume",)):
            outcome = run_limited(Path(folder), tier, 12, more)
            print(
                f"| {' '.join(more) or 'as it is'} | {outcome.status} | {outcome.answered} | {outcome.errors} | {outcome.requests} "
                f"| {outcome.refusals} | {outcome.seconds:.0f} |"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
