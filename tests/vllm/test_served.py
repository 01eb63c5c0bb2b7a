"""``vllm serve`` behind the adapter for OpenAI-compatible servers."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from agents.models.base import ModelError
from agents.models.chat.openai_chat import OpenAIChat
from agents.models.chat.openai_probe import probe
from agents.models.chat.openai_protocol import StreamedReply
from agents.time_limits.deadline import Deadline
from tests.vllm.asking import SCHEMA, ask, enough_for, picture
from tests.vllm.tiny import CONTEXT

SECONDS_TO_START = 300
SLACK = 5.0  # seconds; the machine may be busy, but the whole reply would take longer


@dataclass(frozen=True)
class Server:
    url: str
    process: subprocess.Popen[bytes]

    def chat(self, model: str = "tiny", **options: int) -> OpenAIChat:
        return OpenAIChat(model, self.url, **options)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # gone already
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def serve(folder: Path, log: Path) -> Server:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("vllm")), "serve", str(folder), "--served-model-name", "tiny"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager"]
    command += ["--gpu-memory-utilization", "0.3"]  # of the machine's memory, which other tests use too
    command += ["--max-num-seqs", "8", "--limit-mm-per-prompt", '{"image": 1, "video": 0}']
    with log.open("wb") as log_file:
        process = subprocess.Popen(command, stdout=log_file, stderr=subprocess.STDOUT, start_new_session=True)
    server = Server(f"http://127.0.0.1:{port}/v1", process)
    client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
    limit = time.monotonic() + SECONDS_TO_START
    while process.poll() is None and time.monotonic() < limit:
        try:
            client.models.list()
            return server
        except openai.OpenAIError:
            time.sleep(0.5)  # waits for another process to start, not for a race to be won
    server.kill()
    raise RuntimeError(f"vllm serve does not start: {log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(scope="module")
def server(qwen_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = serve(qwen_folder, tmp_path_factory.mktemp("served") / "log.txt")
    yield running
    running.kill()


def test_a_batch_with_pictures_settings_and_log_probabilities(server: Server) -> None:
    requests = [
        ask("What is this?", picture(1), max_tokens=12, logprobs=True),
        ask("What is this?", picture(2), max_tokens=12),
        ask("What is this?", max_tokens=5),
        ask("Go on", max_tokens=20, temperature=1.5, seed=1),
        ask("Go on", max_tokens=20, temperature=1.5, seed=1),
        ask("Go on", max_tokens=20, temperature=1.5, seed=2),
    ]
    replies = server.chat().chat(requests)
    assert [reply.error for reply in replies] == [None] * 6
    assert [reply.finish_reason for reply in replies] == ["length"] * 6
    assert len({reply.text for reply in replies[:3]}) == 3
    assert replies[3].text == replies[4].text != replies[5].text
    assert replies[0].logprobs is not None
    assert len(replies[0].logprobs) == 12
    assert replies[1].logprobs is None


def test_what_a_picture_shows_reaches_the_model(server: Server) -> None:
    picture_lists = [(picture(1),), (picture(2),), (picture(1),), ()]
    replies = server.chat().chat(
        [ask("What is this?", *pictures, max_tokens=8, logprobs=True) for pictures in picture_lists]
    )
    one, other, again, blind = (reply.first_token_probs for reply in replies)
    assert one is not None and again == pytest.approx(one, abs=1e-2)
    assert other != pytest.approx(one, abs=1e-2) and blind != pytest.approx(one, abs=1e-2)


def test_a_schema_is_followed(server: Server) -> None:
    reply = server.chat().chat([ask("What?", max_tokens=200, schema=SCHEMA)])[0]
    assert set(json.loads(reply.text)) == {"seen", "kind"}


def test_at_the_deadline_the_text_that_has_come_is_kept(server: Server) -> None:
    model = server.chat()
    deadline = enough_for(model, ask("What?", picture(), max_tokens=2))
    short, long = model.chat([ask("What?", max_tokens=2), ask("Go on", picture(), max_tokens=CONTEXT - 200)], deadline)
    assert deadline.left() > -SLACK
    assert short.finish_reason == "length"
    assert long.finish_reason == "abort"
    assert len(long.text) > 10


def test_an_over_long_prompt_loses_its_middle_and_costs_no_neighbour(server: Server) -> None:
    long, short = server.chat().chat([ask("tower " * 3 * CONTEXT, max_tokens=5), ask("What?", max_tokens=5)])
    assert (long.finish_reason, long.error) == ("length", None)
    assert long.prompt_cut > 0
    assert (short.finish_reason, short.prompt_cut) == ("length", 0)


def test_an_unknown_model_is_named(server: Server) -> None:
    with pytest.raises(ModelError, match="does not know model 'other'"):
        server.chat("other").chat([ask("What?")])


def test_a_server_that_dies_in_mid_request_costs_what_was_not_done(
    llama_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = serve(llama_folder, tmp_path / "log.txt")
    take = StreamedReply.take
    num_choices = 0

    def kill_after_a_while(streamed: StreamedReply, choice: Mapping[str, Any]) -> None:
        nonlocal num_choices
        take(streamed, choice)
        num_choices += 1
        if num_choices == 30:
            dying.kill()

    monkeypatch.setattr(StreamedReply, "take", kill_after_a_while)
    reply, lost = dying.chat(attempts=2).chat(
        [ask("What?", max_tokens=2), ask("Go on", max_tokens=CONTEXT - 100)], Deadline(60)
    )
    assert reply.finish_reason == "length"
    assert lost.finish_reason == "error"
    assert "connection" in (lost.error or "").lower()


def test_the_probe_finds_all_that_vllm_can(server: Server) -> None:
    report = probe(server.chat(), sees=True)
    can = {each.name: each.can for each in report.findings}
    assert report.fault is not None and "named a" in report.fault  # random weights see no colours
    assert can.pop("pictures") is False and report.requests == 3
    for name in ("schema", "log-probabilities", "streaming", "temperature", "limit of tokens", "context"):
        assert can[name] is True, report
