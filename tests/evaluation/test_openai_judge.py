"""The judges behind a server, against a real one on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from tenacity import wait_none
from werkzeug import Request, Response

from evaluation.judge.judging import choose_judge, judge_turns
from evaluation.judge.model_server import SERVER_TRIES
from evaluation.judge.openai_judge import TRIES, OpenAIJudge, style_of
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import JudgeError, JudgeItem
from evaluation.rules import RESEARCH_RELEASE, STARTER_KIT, Rules
from tests.evaluation.worlds import judged

ITEM = JudgeItem("How tall is it?", "It is 330 m tall.", "330 metres")
PATH = "/v1/chat/completions"

Reply = str | Response


def _completion(content: str | None) -> Response:
    message = {"role": "assistant", "content": content}
    body = {
        "id": "c", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }  # fmt: skip
    return Response(json.dumps(body), content_type="application/json")


def _error(status: int, message: str = "no") -> Response:
    return Response(
        json.dumps({"error": {"message": message, "type": "t", "code": None}}), status, content_type="application/json"
    )


@pytest.fixture
def httpserver() -> Iterator[HTTPServer]:
    """A server that goes on answering while one of its handlers hangs."""
    with HTTPServer(threaded=True) as server:
        yield server


class Server:
    """Gives the replies it was told, the last one from then on, and keeps what it was asked."""

    def __init__(self, server: HTTPServer, *replies: Reply | Callable[[Request], Response]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self._replies = list(replies)
        self._lock = threading.Lock()
        self.url = server.url_for("/v1")
        server.expect_request(PATH, method="POST").respond_with_handler(self._answer)

    def _answer(self, request: Request) -> Response:
        with self._lock:
            self.requests.append(request.get_json())
            self.keys.append(request.headers.get("Authorization", ""))
            reply = self._replies[0] if len(self._replies) == 1 else self._replies.pop(0)
        if callable(reply) and not isinstance(reply, Response):
            return reply(request)
        if isinstance(reply, str):
            return _completion(reply)
        return Response(reply.get_data(), reply.status, headers=dict(reply.headers))

    def judge(self, model: str = "gpt-4o-mini", **settings: Any) -> OpenAIJudge:
        return OpenAIJudge(model, base_url=self.url, **({"api_key": "key", "wait": wait_none()} | settings))


def test_the_challenges_judge_replies_in_json(httpserver: HTTPServer) -> None:
    server = Server(httpserver, '{"accuracy": true}', '{"accuracy": false}')
    judge = server.judge()
    assert judge.judge(ITEM).correct
    assert not judge.judge(ITEM).correct
    request = server.requests[0]
    assert request["model"] == "gpt-4o-mini"
    assert request["temperature"] == 0
    assert request["response_format"]["json_schema"]["strict"] is True
    assert server.keys[0] == "Bearer key"
    text = "\n".join(message["content"] for message in request["messages"])
    assert all(part in text for part in (ITEM.query, ITEM.ground_truth, ITEM.response))


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("It asks ... both say so.\nResult: CORRECT", True),
        ("They differ.\n**Result: WRONG**", False),
        ("Not 'Result: CORRECT' here.\nresult: wrong", False),
        ("Result:\nCORRECT", True),
    ],
)
def test_the_research_releases_judge_explains(httpserver: HTTPServer, reply: str, right: bool) -> None:
    server = Server(httpserver, reply)
    verdict = server.judge("gpt-4o").judge(ITEM)
    assert verdict.correct is right
    assert verdict.reason == reply
    assert (server.requests[0]["max_tokens"], server.requests[0]["temperature"]) == (1024, 0)
    assert "response_format" not in server.requests[0]


def test_the_style_follows_the_model() -> None:
    assert style_of("gpt-4o") == style_of("gpt-4o-2024-11-20") == "explained"
    assert style_of("gpt-4o-mini") == style_of("openai/gpt-4o-mini") == style_of("Qwen/Qwen3-8B") == "structured"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_tried_again(httpserver: HTTPServer, status: int) -> None:
    server = Server(httpserver, _error(status), _error(status), '{"accuracy": true}')
    assert server.judge().judge(ITEM).correct
    assert len(server.requests) == 3


def test_a_server_that_stays_busy_is_an_error(httpserver: HTTPServer) -> None:
    server = Server(httpserver, _error(429, "quota"))
    with pytest.raises(JudgeError, match=r"did not answer after 6 tries.*quota"):
        server.judge().judge(ITEM)
    assert len(server.requests) == SERVER_TRIES


def test_a_slow_server_is_tried_again(httpserver: HTTPServer) -> None:
    let_go = threading.Event()

    def hang(request: Request) -> Response:
        let_go.wait(20)
        return _completion("late")

    server = Server(httpserver, hang, '{"accuracy": true}')
    try:
        assert server.judge(timeout=0.5).judge(ITEM).correct
        assert len(server.requests) == 2
    finally:
        let_go.set()


@pytest.mark.parametrize(
    "garbage", ["", "maybe", '{"accuracy": "so so"}', '{"right": true}', "[1, 2", "Result: PERHAPS"]
)
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4o-mini"])
def test_garbage_is_asked_for_again_and_then_counts_as_wrong(
    httpserver: HTTPServer, tmp_path: Path, garbage: str, model: str
) -> None:
    server = Server(httpserver, garbage)
    verdict = server.judge(model, cache=tmp_path).judge(ITEM)
    assert (verdict.correct, verdict.failed) == (False, True)
    assert len(server.requests) == TRIES
    assert not list(tmp_path.rglob("*.json"))  # the next run asks again


def test_garbage_once_is_forgiven(httpserver: HTTPServer) -> None:
    server = Server(httpserver, "hm", '```json\n{"accuracy": true}\n```')
    assert server.judge().judge(ITEM).correct


@pytest.mark.parametrize("body", ["<html>gateway</html>", "", "{}", '{"choices": []}', "null"])
def test_a_reply_that_is_no_completion_counts_as_garbage(httpserver: HTTPServer, body: str) -> None:
    server = Server(httpserver, Response(body, content_type="application/json"))
    assert server.judge().judge(ITEM).failed


@pytest.mark.parametrize(
    ("status", "said"), [(401, "refuses the key"), (403, "may not use"), (404, "no model"), (400, "the judge's server")]
)
def test_what_no_retry_mends_is_said_at_once(httpserver: HTTPServer, status: int, said: str) -> None:
    server = Server(httpserver, _error(status))
    with pytest.raises(JudgeError, match=said):
        server.judge().judge(ITEM)
    assert len(server.requests) == 1


def test_no_server_at_all_is_said(httpserver: HTTPServer) -> None:
    judge = OpenAIJudge("m", base_url="http://127.0.0.1:9/v1", api_key="k", wait=wait_none())
    with pytest.raises(JudgeError, match="did not answer"):
        judge.judge(ITEM)


def test_a_server_without_structured_outputs_is_asked_without(httpserver: HTTPServer) -> None:
    server = Server(httpserver, _error(400, "response_format is not supported"), 'Here: {"accuracy": true}')
    assert server.judge().judge(ITEM).correct
    assert "response_format" not in server.requests[1]


def test_judgements_are_kept_by_content(httpserver: HTTPServer, tmp_path: Path) -> None:
    server = Server(httpserver, '{"accuracy": true}')
    assert server.judge(cache=tmp_path).judge(ITEM) == server.judge(cache=tmp_path).judge(ITEM)
    assert len(server.requests) == 1
    server.judge(cache=tmp_path).judge(JudgeItem(ITEM.query, ITEM.ground_truth, "331 metres"))
    server.judge("other", cache=tmp_path).judge(ITEM)
    assert len(server.requests) == 3
    for file in tmp_path.rglob("*.json"):
        file.write_text("{torn")
    assert server.judge(cache=tmp_path).judge(ITEM).correct
    assert len(server.requests) == 4


def test_a_judging_run_that_breaks_off_goes_on_where_it_was(httpserver: HTTPServer, tmp_path: Path) -> None:
    turns = [turn.turn for number in range(6) for turn in judged("hh", f"s{number}")]
    unlike = [turn.__class__(**{**turn.to_dict(), "agent_response": f"answer {n}"}) for n, turn in enumerate(turns)]
    server = Server(httpserver, *['{"accuracy": true}'] * 5, _error(401))
    with pytest.raises(JudgeError, match="refuses the key"):
        judge_turns(unlike, server.judge(cache=tmp_path), workers=1)
    kept = len(list(tmp_path.rglob("*.json")))
    assert kept == 5
    server._replies = ['{"accuracy": true}']
    before = len(server.requests)
    results = judge_turns(unlike, server.judge(cache=tmp_path), workers=4)
    assert all(result.correct for result in results)
    assert len(server.requests) - before == len(unlike) - kept


def test_misses_and_exact_answers_are_not_asked_about(httpserver: HTTPServer) -> None:
    server = Server(httpserver, '{"accuracy": true}')
    base = judged("h")[0].turn.to_dict()
    kind = type(judged("h")[0].turn)
    answers = [("I don't know", "x"), (" TRUTH ", "truth"), ("I don't know", "I don't know"), ("else", "truth")]
    turns = [
        kind(**{**base, "interaction_id": str(n), "agent_response": answer, "ground_truth": truth})
        for n, (answer, truth) in enumerate(answers)
    ]
    results = judge_turns(turns, server.judge(), workers=2)
    assert [result.verdict for result in results] == ["miss", "correct", "miss", "correct"]
    assert [result.semantic for result in results] == [None, None, None, True]
    assert len(server.requests) == 1


def test_which_judge_a_run_gets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert isinstance(choose_judge(None, cache=tmp_path), RuleJudge)
    assert isinstance(choose_judge("None", cache=tmp_path), RuleJudge)
    with pytest.raises(JudgeError, match="OPENAI_API_KEY"):
        choose_judge("gpt-4o", cache=tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert choose_judge(None, cache=tmp_path).name == "gpt-4o-mini (structured)"
    assert isinstance(choose_judge("None", cache=tmp_path), RuleJudge)
    assert choose_judge("gpt-4o", cache=tmp_path).name == "gpt-4o (explained)"
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert choose_judge("local-model", cache=tmp_path).name == "local-model (structured)"


def test_which_judge_a_run_gets_by_the_rules_of_a_release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "key")

    def name(eval_model: str | None, rules: Rules) -> str:
        return choose_judge(eval_model, cache=tmp_path, rules=rules).name

    assert name(None, STARTER_KIT) == "gpt-4o-mini (structured)"
    assert name(None, RESEARCH_RELEASE) == "gpt-4o (explained)"
    assert name("gpt-4o", STARTER_KIT) == "gpt-4o (structured)"  # a release has one form of reply, whatever the model
    assert name("gpt-4o-mini", RESEARCH_RELEASE) == "gpt-4o-mini (explained)"
    for rules in (STARTER_KIT, RESEARCH_RELEASE):
        nobody = choose_judge("None", cache=tmp_path, rules=rules)
        assert not nobody.judge(JudgeItem("Who?", "Eiffel", "Gustave Eiffel")).correct
        assert isinstance(choose_judge("rule", cache=tmp_path, rules=rules), RuleJudge)
