"""The kit's agents ask our model through a server that counts; what it passes on is not changed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image
from pytest_httpserver import HTTPServer
from werkzeug import Response

from agents.models.base import ChatMessage, ChatRequest
from agents.models.chat.openai_chat import OpenAIChat
from agents.settings.presets import load_settings
from evaluation.run.foreign_agent import ForeignAgent
from evaluation.run.generate import Generation
from lab.side_by_side import __main__ as side_by_side
from lab.side_by_side.__main__ import (
    CountedSearch,
    Row,
    SideBySideOptions,
    _build_kit_agent,
    _write_profile,
    shorten_names,
)
from lab.side_by_side.counted_server import CountingServer, Counts
from tests.support.chat_server import serve_chat

AGENT = """
import vllm
from agents.base_agent import BaseAgent

class MyAgent(BaseAgent):
    def __init__(self, search_pipeline):
        super().__init__(search_pipeline)
        self.llm = vllm.LLM("any", max_num_seqs=2)

    def get_batch_size(self):
        return 4

    def batch_generate_response(self, queries, images, message_histories):
        template = self.llm.get_tokenizer().apply_chat_template
        inputs = []
        for query, image in zip(queries, images):
            found = self.search_pipeline(query, k=2)[0]["page_name"]
            self.search_pipeline(image, k=1)
            content = [{"type": "image"}, {"type": "text", "text": f"{query} {found}"}]
            prompt = template([{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False)
            inputs.append({"prompt": prompt, "multi_modal_data": {"image": image}})
        sampling = vllm.SamplingParams(temperature=0.1, top_p=0.9, max_tokens=7, skip_special_tokens=True)
        return [output.outputs[0].text for output in self.llm.generate(inputs, sampling_params=sampling)]
"""
USAGE = {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}


def reply(body: Mapping[str, Any], text: str) -> Response:
    """Make a reply with its usage, streamed if that is wanted."""
    if not body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return Response(json.dumps({"choices": [choice], "usage": USAGE}, indent=1), content_type="application/json")
    assert body["stream_options"] == {"include_usage": True}
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    delta_choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    # As llama.cpp says it: of ten tokens of the prompt six were read.
    timings = {"cache_n": 4, "prompt_n": 6, "predicted_n": 3}
    chunks = [
        {**head, "choices": [delta_choice]},
        {**head, "choices": [end]},
        {**head, "choices": [], "timings": timings},
    ]
    lines = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return Response(f"{lines}data: [DONE]\n\n", content_type="text/event-stream")


def test_replies_pass_unchanged_and_are_counted(httpserver: HTTPServer) -> None:
    serve_chat(httpserver, lambda body: reply(body, f"to {body['messages'][0]['content']}"))
    counting = CountingServer(httpserver.url_for("/v1"))
    with counting.serve() as url:
        requests = [ChatRequest((ChatMessage("user", name),), max_tokens=5) for name in "ab"]
        assert [each.text for each in OpenAIChat("m", url).chat(requests)] == ["to a", "to b"]
    assert counting.counts == Counts(calls=2, prompt_tokens=20, reused_tokens=8, reply_tokens=6)


def test_a_refusal_passes_and_is_no_reply(httpserver: HTTPServer) -> None:
    refused = Response(json.dumps({"error": {"message": "too long"}}), 400, content_type="application/json")
    serve_chat(httpserver, lambda _: refused)
    counting = CountingServer(httpserver.url_for("/v1"))
    with counting.serve() as url:
        [failed] = OpenAIChat("m", url).chat([ChatRequest((ChatMessage("user", "a"),), max_tokens=5)])
    assert failed.error is not None and "too long" in failed.error and counting.counts == Counts()


def test_an_unmodified_agent_of_the_kit_asks_the_counted_model(
    httpserver: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    (tmp_path / "kit" / "agents").mkdir(parents=True)
    (tmp_path / "kit" / "agents" / "base_agent.py").write_text(
        "class BaseAgent:\n    def __init__(self, search_pipeline):\n        self.search_pipeline = search_pipeline\n"
    )
    (tmp_path / "kit" / "agents" / "my_agent.py").write_text(AGENT)
    bodies = serve_chat(httpserver, lambda body: reply(body, body["messages"][0]["content"].upper()))
    counting, search = (
        CountingServer(httpserver.url_for("/v1")),
        CountedSearch(lambda query, k: [{"page_name": "x"}] * k),
    )
    arguments = ["--kit", str(tmp_path / "kit"), "--kit-python", sys.executable, "--out", str(tmp_path)]
    with counting.serve() as url:
        agent = _build_kit_agent(SideBySideOptions.parse(arguments), "agents.my_agent:MyAgent", url, search)
        assert isinstance(agent, ForeignAgent)
        try:
            picture = Image.new("RGB", (8, 8))
            assert agent.batch_generate_response(["a", "b"], [picture, picture], [[], []]) == ["A X", "B X"]
        finally:
            agent.close()
    assert {body["messages"][0]["content"] for body in bodies} == {"a x", "b x"} and bodies[0]["max_tokens"] == 7
    assert counting.counts == Counts(2, 20, 8, 6)
    assert (search.texts, search.pictures) == (2, 2)


def test_presets_are_set_as_under_the_profile_with_the_same_model(tmp_path: Path) -> None:
    profile = _write_profile(SideBySideOptions.parse(["--out", str(tmp_path)]), "http://127.0.0.1:1/v1")
    assert load_settings("best", str(profile)) == load_settings("best", "embedded")


def test_a_row_counts_by_the_turn() -> None:
    row = Row("best", 4, 10.0, Counts(8, 100, 40, 20), 12, 6, 2, 1, 1, 0, 0.25, (-0.5, 0.75))
    cells = ("best", "2.50", "2.0", "15.0", "10.0", "5.0", "3.0", "1.5", "2", "1", "1", "0", "25.0 [-50.0, 75.0]")
    assert row.cells() == cells


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Row, bool]]:
    """Measure an agent with these options; return its row, and whether it was run for it."""
    monkeypatch.setattr(side_by_side, "PreparedSet", lambda *_: SimpleNamespace(search=lambda: None))
    monkeypatch.setattr(side_by_side, "_build_kit_agent", lambda *_: None)
    names: list[str] = []

    def answer(_: object, name: str, *__: object) -> Row:
        names.append(name)
        return Row(name, len(names), 10.0, Counts(8, 100, 40, 20), 12, 6, 2, 1, 1, 0, 0.25, (-0.5, 0.75))

    monkeypatch.setattr(side_by_side, "_run_agent", answer)

    def measure(name: str, *arguments: str) -> tuple[Row, bool]:
        options = SideBySideOptions.parse(["--out", str(tmp_path / "out"), "--kit", str(tmp_path / "kit"), *arguments])
        build = side_by_side._build_kit_agent if ":" in name else lambda *_: None
        before = len(names)
        return side_by_side._measure_row(options, name, build, "http://127.0.0.1:9/v1"), len(names) > before

    return measure


def test_an_agent_is_run_again_for_other_questions_or_another_model(runs: Callable[..., tuple[Row, bool]]) -> None:
    row, ran = runs("best")
    assert ran and runs("best") == (row, False) == runs("best", "--presets", "best", "--num-conversations", "16")
    for changed in (
        ["--num-conversations", "3"],
        ["--seed", "1"],
        ["--split", "public_test"],
        ["--model-name", "other"],
    ):
        assert runs("best", *changed)[1] and not runs("best", *changed)[1]
    assert runs("best")[1] and runs("direct_rag")[1] and not runs("best")[1]


def test_agents_of_one_class_name_are_kept_apart(runs: Callable[..., tuple[Row, bool]], tmp_path: Path) -> None:
    one, two = "agents.one:MyAgent", "agents.two:MyAgent"
    first, second = runs(one), runs(two)
    assert first[1] and second[1] and (first[0].agent, second[0].agent) == (one, two)
    assert runs(one) == (first[0], False) and runs(two) == (second[0], False)
    assert runs(one, "--kit", str(tmp_path / "other"))[1], "another checkout has other agents"
    assert shorten_names([one, two, "x:Other", "best"]) == [one, two, "Other", "best"]


def test_figures_of_an_earlier_version_are_made_again(runs: Callable[..., tuple[Row, bool]], tmp_path: Path) -> None:
    """They do not say what was asked."""
    row, _ = runs("best")
    (tmp_path / "out" / "best" / side_by_side.ROW).write_text(json.dumps(asdict(row)))
    assert runs("best")[1] and not runs("best")[1]


def test_a_stopped_run_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = SimpleNamespace(sessions=lambda _: SimpleNamespace(sessions=[], accept={}), search=lambda: None)
    monkeypatch.setattr(side_by_side, "PreparedSet", lambda *_: data)
    monkeypatch.setattr(side_by_side, "load_truncator", lambda: None)
    monkeypatch.setattr(side_by_side, "generate", lambda *_: Generation([], 3, interrupted=True))
    monkeypatch.setattr(side_by_side, "_build_preset", lambda *_: None)
    arguments = ["--out", str(tmp_path), "--base-url", "http://127.0.0.1:9/v1", "--presets", "best", "direct_rag"]
    assert side_by_side.main(arguments) == 130
    assert not list(tmp_path.glob("*/row.json"))
