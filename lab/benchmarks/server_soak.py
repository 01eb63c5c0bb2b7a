"""Soak test of the server while a fifth of the clients disconnect.

    python -m lab.benchmarks.server_soak --seconds 600 --clients 50

All others must be answered, and neither places nor memory may leak. The server of ``apps.serve`` runs in a process of its own on loopback.
Its agent has no model and takes a tenth of a second a call, so that it is the server that is measured. Every client asks about a photo,
waits for the answer (every other one in a stream) and a moment more. Those who leave close the connection within that tenth. The status is
1 if an answer is wrong or missing, a place is lost, or memory grows.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import multiprocessing
import random
import socket
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import httpx
import psutil
import uvicorn
from PIL import Image
from pydantic import Field

from agents.base.command_options import Options
from agents.base_agent import BaseAgent
from apps.answering import Answerer
from apps.http_server import configure, protect
from apps.serving.app import Server, ServerLimits
from evaluation.commands import make_console, run_to_exit_status
from lab.benchmarks.common import build_table

MAX_GROWTH = 1.05
"""Maximum growth of resident memory from after the warm-up to the end, as in tests/search/test_soak.py."""

_MODEL = "crag-mm-soak"
_CALL_SECONDS = 0.1
_PAUSE_SECONDS = 0.5  # of a client between two questions, on average
_LEAVING_SHARE = 5  # one in so many clients leaves
_PARTS = 6  # of the time: the first is the warm-up; memory is compared between the second and the last
_PHOTO_SIDE = 256  # pixels


class EchoAgent(BaseAgent):
    """Agent that answers each question with itself after ``_CALL_SECONDS``."""

    def get_batch_size(self) -> int:
        """Return the maximum of the challenge."""
        return 16

    def batch_generate_response(self, queries: Sequence[str], *_: Any, **__: Any) -> list[str]:
        """Return the questions."""
        time.sleep(_CALL_SECONDS)
        return list(queries)


@dataclass
class Soak:
    """Result of a soak: counts of requests, seconds of the answers, and samples of the server.

    Requests are counted as ``answered``, ``left``, ``wrong`` or ``status N``.
    """

    counts: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    samples: list[tuple[float, int, int, int]] = field(default_factory=list)  # time, resident bytes, threads, files
    inside: int = -1  # questions that the server still counts when all clients are done

    def part(self, number: int) -> tuple[float, float, float]:
        """Return median MiB, threads and files of one of ``_PARTS`` parts of the time."""
        first, last = self.samples[0][0], self.samples[-1][0]
        step = (last - first) / _PARTS
        samples = [s for s in self.samples if first + number * step <= s[0] <= first + (number + 1) * step]
        memory, threads, files = (statistics.median(column) for column in list(zip(*samples, strict=True))[1:])
        return memory / 2**20, threads, files

    def list_faults(self) -> list[str]:
        """Return the faults, one line each."""
        faults = [
            f"{number} requests: {outcome}"
            for outcome, number in self.counts.items()
            if outcome not in ("answered", "left")
        ]
        if self.inside:
            faults.append(f"{self.inside} places are lost")
        before, after = self.part(1)[0], self.part(_PARTS - 1)[0]
        if after > before * MAX_GROWTH:
            faults.append(f"memory grew from {before:.1f} to {after:.1f} MiB")
        return faults


def serve(clients: int, connection: Connection) -> None:
    """Run the server, with just the places that ``clients`` need, until the other end of ``connection`` closes."""
    places = clients + -(-clients // _LEAVING_SHARE)  # a client who left and asks again may have two for a moment
    limits = ServerLimits(questions=places, requests_per_minute=10**9)
    server = Server(Answerer(EchoAgent()), model=_MODEL, key=None, limits=limits)
    web = uvicorn.Server(configure(protect(server.app)))

    def wait() -> None:
        connection.poll(None)
        web.should_exit = True

    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        connection.send(listener.getsockname()[1])
        threading.Thread(target=wait, daemon=True).start()
        web.run(sockets=[listener])


async def soak(url: str, pid: int, clients: int, seconds: float) -> Soak:
    """Let clients ask the server at ``url``, the process ``pid``, and wait for the last answers."""
    result = Soak()
    photo = _make_photo()
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        (await client.get("/health")).raise_for_status()  # once it is up; until then connections wait
    end = time.monotonic() + seconds
    async with asyncio.TaskGroup() as tasks:
        for number in range(clients):
            tasks.create_task(_client(url, number, photo, end, result))
        tasks.create_task(_watch(psutil.Process(pid), seconds, end, result))
    async with httpx.AsyncClient(base_url=url) as client:
        for _ in range(100):  # the last who left
            result.inside = int((await client.get("/health")).json()["questions"])
            if not result.inside:
                break
            await asyncio.sleep(_CALL_SECONDS / 10)
    return result


async def _client(url: str, number: int, photo: str, end: float, result: Soak) -> None:
    chance = random.Random(number)
    leaves, stream = number % _LEAVING_SHARE == 0, number % 2 == 1
    num_questions = 0
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        await asyncio.sleep(chance.uniform(0, _PAUSE_SECONDS))
        while num_questions == 0 or time.monotonic() < end:
            num_questions += 1
            question = f"client {number}, question {num_questions}"
            began = time.monotonic()
            try:
                async with asyncio.timeout(chance.uniform(0, _CALL_SECONDS) if leaves else None):
                    outcome = await _ask(client, question, photo, stream)
            except TimeoutError:
                outcome = "left"
            except httpx.HTTPError as error:
                outcome = type(error).__name__
            result.counts[outcome] += 1
            if outcome == "answered":
                result.seconds.append(time.monotonic() - began)
            await asyncio.sleep(chance.uniform(0, 2 * _PAUSE_SECONDS))


async def _ask(client: httpx.AsyncClient, question: str, photo: str, stream: bool) -> str:
    content = [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": photo}}]
    body = {"model": _MODEL, "messages": [{"role": "user", "content": content}], "stream": stream}
    answer = await client.post("/v1/chat/completions", json=body)
    if answer.status_code != 200:
        return f"status {answer.status_code}"
    if not stream:
        return "answered" if answer.json()["choices"][0]["message"]["content"] == question else "wrong"
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    reply_text = "".join(json.loads(event)["choices"][0]["delta"].get("content", "") for event in events[:-1])
    return "answered" if reply_text == question and events[-1] == "[DONE]" else "wrong"


async def _watch(server: psutil.Process, seconds: float, end: float, result: Soak) -> None:
    while True:  # a short soak on a busy machine may be over before its first sample
        result.samples.append((time.monotonic(), server.memory_info().rss, server.num_threads(), server.num_fds()))
        if time.monotonic() >= end:
            return
        await asyncio.sleep(min(1.0, seconds / (4 * _PARTS)))


def _make_photo() -> str:
    buffer = io.BytesIO()
    Image.effect_noise((_PHOTO_SIDE, _PHOTO_SIDE), 64).convert("RGB").save(buffer, "JPEG")
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def run_soak(clients: int, seconds: float) -> Soak:
    """Start a server, soak it, stop it."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    process = spawning.Process(target=serve, args=(clients, there), daemon=True)
    process.start()
    there.close()
    try:
        assert process.pid is not None
        return asyncio.run(soak(f"http://127.0.0.1:{here.recv()}", process.pid, clients, seconds))
    finally:
        here.close()
        process.join(30)
        process.kill()


def _measure(options: SoakOptions) -> int:
    result = run_soak(options.clients, options.seconds)
    console = make_console()
    rows = [(outcome, str(number)) for outcome, number in sorted(result.counts.items())]
    seconds = statistics.quantiles(result.seconds, n=100)
    rows += [("seconds to the answer, median", f"{seconds[49]:.2f}"), ("99th percentile", f"{seconds[98]:.2f}")]
    for name, part in (("after the warm-up", 1), ("at the end", _PARTS - 1)):
        memory, threads, files = result.part(part)
        rows.append((f"resident MiB, threads, open files {name}", f"{memory:.1f}, {threads:.0f}, {files:.0f}"))
    rows.append(("places taken in the end", str(result.inside)))
    console.print(build_table(f"{options.clients} clients, {options.seconds:g} s", ("requests", ""), rows))
    for fault in result.list_faults():
        console.print(fault, style="red")
    return int(bool(result.list_faults()))


class SoakOptions(Options):
    """Options of how long it lasts, and under how many clients."""

    seconds: float = Field(600, description="duration")
    clients: int = Field(50, description="number of simultaneous clients")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the result.

    Returns:
        0, or 1 if something went wrong.
    """
    options = SoakOptions.parse(arguments, description=__doc__)
    return run_to_exit_status(lambda: _measure(options), make_console())


if __name__ == "__main__":
    sys.exit(main())
