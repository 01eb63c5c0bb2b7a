"""The llama.cpp adapter on a real GGUF model (SmolLM2-135M, out of the package that carries it)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from agents.models.base import ChatMessage, ChatRequest, ModelError
from agents.models.chat import smollm2
from agents.models.chat.llama_cpp import LlamaCppChat, _fingerprint, check_gguf
from agents.models.chat.openai_chat import OpenAIChat
from agents.models.chat.openai_probe import probe
from agents.time_limits.deadline import Deadline


class Clock:
    """A clock that moves by one second each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture(scope="module")
def gguf() -> Path:
    return smollm2.gguf_file()


@pytest.fixture(scope="module")
def model(gguf: Path) -> LlamaCppChat:
    return LlamaCppChat(gguf, context=512, threads=1)


def test_the_fingerprint_is_of_all_weights(model: LlamaCppChat, gguf: Path, tmp_path: Path) -> None:
    sights = [tmp_path / name / "mmproj.gguf" for name in "ab"]
    for number, sight in enumerate(sights):
        sight.parent.mkdir()
        sight.write_bytes(bytes([number]) * 9000)
    prints = {_fingerprint(gguf, sight) for sight in (None, *sights)}
    assert len(prints) == 3
    assert model.fingerprint == _fingerprint(gguf, None, 512) not in prints  # a shorter context cuts longer prompts


def ask(text: str, **settings: object) -> ChatRequest:
    return ChatRequest((ChatMessage("user", text),), **settings)  # type: ignore[arg-type]


def test_replies_come_in_order_with_their_probabilities(model: LlamaCppChat) -> None:
    first, second = model.chat(
        [ask("What is the capital of France?", logprobs=True, max_tokens=12), ask("Say hello.", max_tokens=3)]
    )
    assert first.text
    assert first.logprobs is not None and 1 <= len(first.logprobs) <= 12
    assert first.first_token_probs is not None and len(first.first_token_probs) == 10
    assert max(first.first_token_probs.values()) == pytest.approx(
        math.exp(first.logprobs[0]), abs=1e-6
    )  # greedy takes the likeliest
    assert sum(first.first_token_probs.values()) <= 1 + 1e-6
    assert second.finish_reason == "length" and second.logprobs is None and second.first_token_probs is None


def test_a_schema_is_kept(model: LlamaCppChat) -> None:
    schema = {
        "type": "object",
        "properties": {"entity": {"type": "integer"}},
        "required": ["entity"],
        "additionalProperties": False,
    }
    (reply,) = model.chat([ask("Pick a number.", schema=schema, max_tokens=40)])
    assert isinstance(json.loads(reply.text)["entity"], int)


def test_the_deadline_keeps_what_has_come(model: LlamaCppChat) -> None:
    (whole,) = model.chat([ask("Count from one to fifty in words.", max_tokens=60, logprobs=True)])
    (cut,) = model.chat([ask("Count from one to fifty in words.", max_tokens=60, logprobs=True)], Deadline(12, Clock()))
    assert cut.finish_reason == "abort" and cut.text
    assert whole.text.startswith(cut.text) and len(cut.text) < len(whole.text)
    assert cut.logprobs is not None and len(cut.logprobs) < 60


def test_a_prompt_is_not_read_to_its_end_after_the_deadline(gguf: Path) -> None:
    model = LlamaCppChat(gguf, context=2048, threads=1)
    clock = Clock()
    (reply,) = model.chat([ask("word " * 1500)], Deadline(4, clock))
    assert reply.finish_reason == "abort" and not reply.text
    assert clock.now < 9, "the engine was let to read all twelve batches of the prompt"


def test_an_engine_that_an_abandoned_call_still_holds_is_not_waited_for(model: LlamaCppChat) -> None:
    model._lock.acquire()
    try:
        deadline = Deadline(0.2)
        (reply,) = model.chat([ask("Hello")], deadline)
    finally:
        model._lock.release()
    assert (reply.text, reply.finish_reason) == ("", "abort")
    assert -5.0 < deadline.left() <= 0.0


def test_no_time_left_asks_nothing(model: LlamaCppChat) -> None:
    assert [reply.finish_reason for reply in model.chat([ask("Hello")] * 2, Deadline(0))] == ["abort", "abort"]


def test_a_prompt_over_the_context_loses_its_middle(model: LlamaCppChat) -> None:
    system = ChatRequest((ChatMessage("system", "word " * 900), ChatMessage("user", "Hi")))
    long, short, hopeless = model.chat([ask("word " * 900), ask("Say hello.", max_tokens=3), system])
    assert long.error is None and long.prompt_cut > 900 - 512
    assert short.text and short.prompt_cut == 0
    assert "more than the context of 512: show less" in str(hopeless.error)


def test_a_model_without_sight_refuses_a_picture(model: LlamaCppChat) -> None:
    request = ChatRequest((ChatMessage("user", "What is this?", (Image.new("RGB", (8, 8)),)),))
    (reply,) = model.chat([request])
    assert reply.finish_reason == "error" and reply.error is not None and "no vision" in reply.error


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>"], ids=["empty", "html"])
def test_a_broken_file_says_how_to_get_it(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(content)
    with pytest.raises(ModelError, match=r"agents\.models\.chat\.gguf"):
        LlamaCppChat(file)


def test_a_file_that_was_cut_short_is_an_error(tmp_path: Path, gguf: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(gguf.read_bytes()[: 1 << 20])
    with pytest.raises(ModelError, match=r"cannot be loaded.*free more memory than its 0\.0 GB; .* --cache CACHE"):
        LlamaCppChat(file)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model file"):
        check_gguf(tmp_path / "none.gguf")


@pytest.fixture(scope="module")
def server(gguf: Path) -> Iterator[tuple[str, str]]:
    """A real llama.cpp server over HTTP: its address and its key."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path, settings.n_ctx, settings.n_parallel = str(gguf), 512, 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1  # more wait for each other on a busy machine
    settings.api_keys, settings.verbosity, settings.warmup = ["a-key-of-the-test"], 0, False
    running = xllamacpp.Server(settings)
    yield f"{running.listening_address}/v1", "a-key-of-the-test"


def test_the_server_profile_over_http(server: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from agents.settings.run_config import RunConfig

    address, key = server
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    chat = RunConfig.read("vlm_only", "server", cache=tmp_path).models().chat("small_chat")
    assert isinstance(chat, OpenAIChat)
    (reply,) = chat.chat([ask("What is the capital of France?", max_tokens=12, logprobs=True)])
    assert reply.error is None and reply.text and reply.logprobs


def test_the_probe_finds_what_llama_cpps_own_server_can(
    server: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", server[1])
    chat = OpenAIChat("any", base_url=server[0])
    report = probe(chat, sees=False)
    can = {each.name: each.can for each in report.findings}
    assert can | {"context": None} == {
        "schema": True,
        "log-probabilities": True,
        "streaming": True,
        "temperature": True,
        "limit of tokens": True,
        "context": None,
    }
    assert report.fault is None and report.requests == 2
    assert "the model takes no picture" in str(probe(chat, sees=True, thorough=False).fault)


def test_the_engine_listens_on_loopback_with_a_key(model: LlamaCppChat) -> None:
    import httpx

    address = model._server.listening_address
    assert address.startswith("http://127.0.0.1:")
    assert httpx.post(f"{address}/v1/chat/completions", json={"messages": []}).status_code == 401
    assert os.environ.get("LLAMA_API_KEY") is None
