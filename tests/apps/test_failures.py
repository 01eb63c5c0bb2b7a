"""A failure is told as one, by terminal, server, metrics and health, and an answer of "I don't know" is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from agents.base_agent import Message
from agents.models.base import ModelError
from agents.record import Unanswered
from agents.unanswered import WORDS
from apps import terminal
from apps.answering import AgentError, Answerer, Question
from tests.apps.conftest import KEY, PHOTO, ScriptedAgent, crag_agent, data_url, make_message, serving
from tests.apps.test_terminal import printed
from tests.support.failing_server import FAILURES
from tests.support.failure_table import WAYS, answering, tell

CAUSES = {
    **dict.fromkeys(FAILURES, "busy"),
    **dict.fromkeys(
        ("no credit", "too long", "blind", "blind, by llama.cpp", "blind, by a router", "blind, in the stream"), "model"
    ),
    **dict.fromkeys((way for way in FAILURES if way.startswith("thinks")), "model"),
    **dict.fromkeys(("says nothing", "calls a tool"), "model"),
    **dict.fromkeys(("declines", "filters", "filters the prompt, by Azure"), None),
    "hangs": "time",
    "search": "search",
    "stage": "stage",
}
TOLD = {
    "busy": (503, "model_busy", "10"),
    "model": (502, "model_failed", ""),
    "search": (502, "search_failed", ""),
    "stage": (500, "agent_failed", ""),
    "time": (504, "timeout", "10"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_fail_is_told_to_whoever_asked(way: str, tmp_path: Path) -> None:
    failure, cause = tell(way, tmp_path), CAUSES[way]
    if cause is None:  # a model that declines answers
        assert (failure.status, failure.http, failure.stderr) == (0, 200, "")
        assert "I don't know" in failure.stdout and failure.body["crag"]["cause"] == "refused"
        assert failure.metrics == {'crag_requests_total{code="",status="200"}': 1.0, "crag_abstentions_total": 1.0}
        return
    status, code, wait = TOLD[cause]
    assert failure.status == 1 and failure.stdout == ""
    assert (
        failure.stderr.startswith("error: ")
        and len(failure.stderr.splitlines()) == 1
        and "Traceback" not in failure.stderr
    )
    assert (failure.http, failure.code, failure.retry_after) == (status, code, wait)
    words = WORDS[Unanswered(cause)]
    assert failure.stderr.startswith(f"error: {words}") and failure.body["error"]["message"].startswith(f"{words}; ")
    assert "://" not in failure.body["error"]["message"], "where the model's server is concerns no client"
    assert failure.metrics == {
        f'crag_requests_total{{code="{code}",status="{status}"}}': 1.0,
        f'crag_failures_total{{cause="{cause}"}}': 1.0,
    }


def test_json_has_the_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    PHOTO.save(tmp_path / "photo.png")
    with answering("broken") as agent:
        monkeypatch.setattr(terminal, "start", lambda _: Answerer(agent))
        assert terminal.main([str(tmp_path / "photo.png"), "How tall is this?", "--json"]) == 1
    captured = capsys.readouterr()
    fields = json.loads(captured.out)
    assert fields["cause"] == "busy" and "The server answers 500" in fields["error"]
    assert captured.err.startswith("error: the model's server is busy")


def test_details_of_a_failure_are_printed_without_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    PHOTO.save(tmp_path / "photo.png")
    with answering("hangs") as agent:
        monkeypatch.setattr(terminal, "start", lambda _: Answerer(agent))
        assert terminal.main([str(tmp_path / "photo.png"), "How tall is this?"]) == 1
    captured = capsys.readouterr()
    assert "there is no answer" in captured.out and "I don't know" not in captured.out
    assert "the time was up; give it more with --set limits.seconds_per_turn=120" in captured.err


def test_a_dialog_goes_on_without_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    histories: list[list[Message]] = []

    class Recorded(Answerer):
        def answer(self, questions: Any, watch: Any = None) -> Any:
            histories.append(list(questions[0].history))
            return super().answer(questions, watch)

    lines = iter(["What is it?", "And this?", ""])
    console = printed(200)
    with answering("broken") as agent:
        terminal.talk(Recorded(agent), PHOTO, console, brief=True, read=lambda: next(lines))
    assert histories == [[], []]
    assert capsys.readouterr().err.count("error: the model's server is busy") == 2
    assert console.export_text() == ""


def test_an_answer_tells_no_client_what_a_failed_stage_quotes(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> None:
        raise ModelError("Cannot reach http://10.0.0.5:9000/rerank: /srv/models/x")

    agent = crag_agent()
    agent.pipeline.stages[-3].run = fail  # type: ignore[method-assign]
    with serving(agent) as address:
        response = post(address, "How tall is this?", data_url(PHOTO))
    assert response.status_code == 200 and "10.0.0.5" not in response.text and "/srv" not in response.text
    assert response.json()["crag"]["error"] == "rerank: ModelError"
    assert "something went wrong: rerank: ModelError: Cannot reach http://10.0.0.5" in caplog.text


@pytest.fixture
def url() -> Iterator[str]:
    """A server whose agent raises on questions that say so."""

    def say(query: str) -> str:
        if "raise" in query:
            raise RuntimeError("out of memory")
        return "300 m"

    with serving(ScriptedAgent(say)) as address:
        yield address


def post(url: str, text: str, image: str | None = None, **more: Any) -> httpx.Response:
    body = {"model": "crag-mm-test", "messages": [make_message(text, image)], **more}
    return httpx.post(f"{url}/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {KEY}"}, timeout=60)


def health(url: str) -> tuple[int, str, int]:
    answer = httpx.get(f"{url}/health")
    return answer.status_code, answer.json()["status"], answer.json()["failures"]


def test_health_is_degraded_by_failures_in_a_row_and_mended_by_an_answer(url: str) -> None:
    for number in (1, 2):
        assert post(url, "raise").status_code == 500
        assert health(url) == (200, "ok", number)
    assert post(url, "raise").status_code == 500
    assert health(url) == (200, "degraded", 3)
    assert post(url, "How tall?").status_code == 200
    assert health(url) == (200, "ok", 0)


def test_a_stream_ends_with_the_error() -> None:
    with answering("broken") as agent, serving(agent) as address:
        client = openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0, timeout=60)
        messages: Any = [make_message("How tall is this?", data_url(PHOTO))]
        pieces = client.chat.completions.create(model="crag-mm-test", messages=messages, stream=True)
        with pytest.raises(openai.APIError, match="the model's server is busy") as failure:
            list(pieces)
        assert failure.value.code == "model_busy"
        counters = httpx.get(f"{address}/metrics", headers={"Authorization": f"Bearer {KEY}"}).text
    assert 'crag_requests_total{code="model_busy",status="503"} 1.0' in counters


def test_an_agent_that_returns_no_text_has_failed() -> None:
    agent = ScriptedAgent(lambda _: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(AgentError, match="it returned NoneType instead of text"):
        Answerer(agent).answer([Question("What?", PHOTO)])
