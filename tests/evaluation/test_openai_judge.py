"""The judges behind a server, against a real one on this machine."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from diskcache import Cache
from openai import OpenAI
from pydantic import create_model
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from agents.models.base import ChatReply, ChatRequest
from agents.models.chat.openai_chat import OpenAIChat
from agents.models.reply_cache import request_key
from evaluation.files.outputs import read_turn_table
from evaluation.judge import inactivity
from evaluation.judge.inactivity import GIVE_UP_AFTER
from evaluation.judge.judging import choose_judge, judge_turns
from evaluation.judge.openai_judge import TRIES, OpenAIJudge
from evaluation.judge.options import parse_price
from evaluation.judge.replies import parse_kit_verdict, parse_structured_verdict
from evaluation.judge.rule_judge import RuleJudge
from evaluation.judge.server import SERVER_TRIES
from evaluation.judge.spending import Price, Spending, look_up_price
from evaluation.records import AnsweredTurn, JudgeError, JudgeItem, Verdict
from evaluation.rules import OURS, RESEARCH_RELEASE, RULES, STARTER_KIT, Rules
from evaluation.run.command import main
from tests.evaluation.worlds import judged, run_command

ITEM = JudgeItem("How tall is it?", "It is 330 m tall.", "330 metres")
PATH = "/v1/chat/completions"

Reply = str | Response


def _completion(content: str | None, tokens: tuple[int, int] | None = None) -> Response:
    message = {"role": "assistant", "content": content}
    body: dict[str, Any] = {
        "id": "c", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }  # fmt: skip
    if tokens is not None:
        body["usage"] = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    return Response(json.dumps(body), content_type="application/json")


def _error(status: int, message: str = "no", param: str | None = None) -> Response:
    error = {"message": message, "type": "t", "code": None, "param": param}
    return Response(json.dumps({"error": error}), status, content_type="application/json")


@pytest.fixture
def httpserver() -> Iterator[HTTPServer]:
    """A server that goes on answering while one of its handlers hangs."""
    with HTTPServer(threaded=True) as server:
        yield server


class Server:
    """Server that gives scripted replies, the last one again and again, and keeps the requests."""

    def __init__(self, server: HTTPServer, *replies: Reply | Callable[[Request], Response]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.keys: list[str] = []
        self._replies = list(replies)
        self._lock = threading.Lock()
        self.url = server.url_for("/v1")
        server.expect_request(PATH, method="POST").respond_with_handler(self._answer)

    def _answer(self, request: Request) -> Response:
        with self._lock:
            self.requests.append(request.get_json())
            self.bodies.append(request.get_data())
            self.keys.append(request.headers.get("Authorization", ""))
            reply = self._replies[0] if len(self._replies) == 1 else self._replies.pop(0)
        if callable(reply) and not isinstance(reply, Response):
            return reply(request)
        if isinstance(reply, str):
            return _completion(reply)
        return Response(reply.get_data(), reply.status, headers=dict(reply.headers))

    def judge(self, model: str = "gpt-4o-mini", **settings: Any) -> OpenAIJudge:
        return OpenAIJudge(model, base_url=self.url, **({"first_pause": 0.0} | settings))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")


def list_judgements(folder: Path) -> list[str]:
    """Return the keys of the judgements in a cache."""
    with Cache(str(folder)) as cache:
        return list(cache)


def test_the_challenges_judge_replies_in_json(httpserver: HTTPServer) -> None:
    server = Server(httpserver, '{"accuracy": true}', '{"accuracy": false}')
    judge = server.judge()
    assert judge.judge(ITEM).correct
    assert not judge.judge(ITEM).correct
    request = server.requests[0]
    assert request["model"] == "gpt-4o-mini"
    assert set(request) == {
        "model",
        "messages",
        "response_format",
        "stream",
    }  # as in the starter kit: nothing that a model may refuse
    assert server.keys[0] == "Bearer key"
    text = "\n".join(message["content"] for message in request["messages"])
    assert all(part in text for part in (ITEM.query, ITEM.ground_truth, ITEM.response))


KIT = '''
class Unused(BaseModel):
    accuracy: bool

class CRAGTurnEvaluationResult(BaseModel):
    """An invented docstring."""
    accuracy: bool

def ask(client, query, ground_truth, agent_response):
    messages = [
        {"role": "system", "content": "Say 'accuracy'."},
        {"role": "user", "content": f"Q: {query}\\nT: {ground_truth}\\nP: {agent_response}"},
    ]
    return client.beta.chat.completions.parse(model="m", messages=messages, response_format=CRAGTurnEvaluationResult)
'''

RELEASE = """
def ask(client, query, ground_truth, prediction):
    messages = [
        {"role": "system", "content": "End in 'Result: CORRECT' or 'Result: WRONG'."},
        {"role": "user", "content": f"Q: {query}\\nT: {ground_truth}\\nP: {prediction}"},
    ]
"""


def test_the_structured_request_is_the_kits_byte_for_byte(httpserver: HTTPServer, tmp_path: Path) -> None:
    """The kit hands a class to the openai library, which makes a schema of its name, its docstring and its field."""
    (tmp_path / "local_evaluation.py").write_text(KIT)
    server = Server(httpserver, '{"accuracy": true}')
    assert server.judge(organiser=tmp_path).judge(ITEM).correct
    assert server.judge().judge(ITEM).correct
    described = {
        "An invented docstring.": server.requests[0],
        "Whether the assistant's answer is accurate.": server.requests[1],
    }
    for description, request in described.items():
        theirs = create_model("CRAGTurnEvaluationResult", __doc__=description, accuracy=(bool, ...))
        client = OpenAI(api_key="key", base_url=server.url)
        client.beta.chat.completions.parse(model="gpt-4o-mini", messages=request["messages"], response_format=theirs)
    assert server.bodies[:2] == server.bodies[2:]
    assert len(server.bodies) == 4


EXPLAINED = [  # reply, by our rules, as the release reads: wrong anywhere goes first, the last line may hold the bare word, case counts
    ("It asks ... both say so.\nResult: CORRECT", True, True),
    ("They differ.\n**Result: WRONG**", False, False),
    ("They agree.\nCORRECT", True, True),
    ("They agree.\n**Result**: CORRECT.", True, True),
    ("Result:\nCORRECT", True, True),
    ("Result: WRONG\nAs for the year:\nResult: CORRECT", True, False),
    ("They agree.\n**Result:** Correct\n", True, None),
    ("They differ.\nresult: wrong", False, None),
    ("They differ.\nResult: INCORRECT", None, True),
    ("They differ.\nResult: NOT CORRECT", None, True),
    ("Half of it.\nResult: PARTIALLY CORRECT", None, True),
    ("```\nResult: CORRECT\n```", True, True),
    ("So it is\n\\boxed{WRONG}", False, False),
    ("Result: CORRECT or WRONG", None, False),
    ("Result: CORRECT, not WRONG\nso it is", None, True),
    ("Result: CORRECT\nnot WRONG", None, False),
    ("Result: CORRECT, though cut off after\nit", None, True),
]


def _is_right(judge: OpenAIJudge) -> bool | None:
    verdict = judge.judge(ITEM)
    return None if verdict.failed else verdict.correct


@pytest.mark.parametrize(("reply", "right", "right_by_release"), EXPLAINED)
def test_an_explanation_ends_in_its_verdict_alone_unless_it_is_read_as_the_release_reads(
    httpserver: HTTPServer, tmp_path: Path, reply: str, right: bool | None, right_by_release: bool | None
) -> None:
    server = Server(httpserver, reply)
    assert _is_right(server.judge("gpt-4o")) is right
    assert _is_right(server.judge("gpt-4o", exact_verdicts="explained")) is right_by_release
    (tmp_path / "local_evaluation.py").write_text(RELEASE)
    assert _is_right(server.judge("gpt-4o", organiser=tmp_path)) is right_by_release
    assert (server.requests[0]["max_tokens"], server.requests[0]["temperature"]) == (1024, 0)
    assert "response_format" not in server.requests[0]


def test_only_the_research_releases_rules_read_its_way(
    httpserver: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(httpserver, "They differ.\nResult: INCORRECT")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)

    def judge(rules: Rules) -> Verdict:
        return choose_judge("gpt-4o", cache=tmp_path, rules=rules, style="explained").judge(ITEM)

    assert judge(RESEARCH_RELEASE).correct
    assert judge(OURS).failed and judge(STARTER_KIT).failed
    server._replies = ["Result: WRONG"]
    again = judge(OURS)  # the reply that is kept for the release is no verdict here
    assert not again.correct and not again.failed


def test_a_judgement_that_a_busy_server_never_makes_fails_alone(httpserver: HTTPServer, tmp_path: Path) -> None:
    server = Server(httpserver, *[_error(429, "quota")] * SERVER_TRIES, '{"accuracy": true}')
    judge = server.judge(cache=tmp_path)
    verdict = judge.judge(ITEM)
    assert (verdict.correct, verdict.failed) == (False, True)
    assert "did not answer after 6 tries" in verdict.reason and "quota" in verdict.reason
    assert judge.judge(ITEM).correct  # it was not kept


def test_a_server_that_is_gone_is_not_asked_for_ever(httpserver: HTTPServer) -> None:
    server = Server(httpserver, '{"accuracy": true}', *[_error(503)] * (SERVER_TRIES * GIVE_UP_AFTER + 1))
    results = judge_turns(make_answers(12), server.judge(), workers=1, max_failures=0)
    assert [result.judge_failed for result in results] == [False, *[True] * 11]
    assert len(server.requests) == 1 + SERVER_TRIES * GIVE_UP_AFTER
    assert "not asked" in results[-1].reason


def no_credit(_: Request) -> Response:
    return _error(402, "Insufficient credits")


def bad_key_of_gemini(_: Request) -> Response:
    body = [{"error": {"code": 400, "message": "API key not valid", "status": "INVALID_ARGUMENT"}}]
    return Response(json.dumps(body), 400, content_type="application/json")


def polite(_: Request) -> Response:
    return _completion("Sure! I would be glad to help.")


@dataclass
class Evaluation:
    """Runs the command on saved answers, with a judge behind a server."""

    server: Server
    folder: Path
    workers: int

    def run(self, answers: int, *more: str) -> tuple[int, str]:
        saved = self.folder / "response.jsonl"
        saved.write_text("".join(json.dumps(turn.to_dict()) + "\n" for turn in make_answers(answers)))
        out = self.folder / "out"
        words = f"--mode evaluate --input-file {saved} --output-dir {out} --cache {self.folder} --eval-model gpt-4o-mini --no-progress"
        return run_command(main, *words.split(), "--num-workers", str(self.workers), *more, width=1000)


@pytest.fixture(params=[1, 4])
def evaluation(
    request: pytest.FixtureRequest, httpserver: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[Request], Response]], Evaluation]:
    def make(reply: Callable[[Request], Response]) -> Evaluation:
        server = Server(httpserver, reply)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        return Evaluation(server, tmp_path, request.param)

    return make


MakeEvaluation = Callable[[Callable[[Request], Response]], Evaluation]


def test_a_judge_that_judges_nothing_is_given_up_and_makes_no_score(evaluation: MakeEvaluation) -> None:
    useless = evaluation(polite)
    status, output = useless.run(40)
    assert status == 1 and "truthfulness" not in output.lower() and "no verdict 3 times in a row" in output
    assert len(useless.server.requests) <= TRIES * (GIVE_UP_AFTER + useless.workers)
    assert not (useless.folder / "out" / "scores_dictionary.json").exists()
    # Too few for three in a row, and all of them in spite of it
    for number, more in ((2, ()), (5, ("--max-failures", "0"))):
        status, output = useless.run(number, *more)
        assert status == 1 and "truthfulness" not in output.lower() and f"on any of {number} answers" in output


@pytest.mark.parametrize(("refusing", "reason"), [(no_credit, "credit"), (bad_key_of_gemini, "key")])
def test_a_judge_that_no_request_can_reach_ends_at_its_first_refusal(
    evaluation: MakeEvaluation, refusing: Callable[[Request], Response], reason: str
) -> None:
    """No key and no credit will do better at the next answer."""
    refused = evaluation(refusing)
    status, output = refused.run(40)
    assert status == 2 and "truthfulness" not in output.lower() and reason in output
    assert len(refused.server.requests) <= 2 * refused.workers  # those under way, and one each that was taken meanwhile
    assert not (refused.folder / "out" / "scores_dictionary.json").exists()


def test_three_failures_that_are_not_in_a_row_end_nothing(httpserver: HTTPServer) -> None:
    bad: Reply = _error(400, "this content is filtered")
    server = Server(httpserver, *(bad, bad, '{"accuracy": true}') * 2, '{"accuracy": true}')
    failed = [result.judge_failed for result in judge_turns(make_answers(7), server.judge())]
    assert failed == [True, True, False, True, True, False, False]


def test_a_slow_server_is_tried_again(httpserver: HTTPServer) -> None:
    let_go = threading.Event()

    def hang(request: Request) -> Response:
        let_go.wait(20)
        return _completion('{"accuracy": false}')

    server = Server(httpserver, hang, '{"accuracy": true}')
    try:
        assert server.judge(timeout=0.5).judge(ITEM).correct
        assert len(server.requests) == 2
    finally:
        let_go.set()


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("silent", ["says nothing", "says a blank now and then"])
def test_a_judge_that_hangs_is_given_up_in_time_with_signs_of_life(
    httpserver: HTTPServer, silent: str, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A blank now and then keeps a connection alive, and a client's limit on reading never comes."""
    let_go = threading.Event()

    def blanks() -> Iterator[bytes]:
        while not let_go.wait(0.02):
            yield b" "

    def hang(_: Request) -> Response:
        if silent == "says nothing":
            let_go.wait(20)
            return _completion("late")
        return Response(blanks(), content_type="application/json")

    server = Server(httpserver, hang)
    judge = server.judge("gpt-4o", timeout=0.2, patience=0.7, sign=0.1)
    began = time.monotonic()
    try:
        results = judge_turns(make_answers(40), judge, rules=RESEARCH_RELEASE, workers=workers, max_failures=0)
    finally:
        let_go.set()
    assert time.monotonic() - began < 10  # 40 judgements of 6 tries of 0.2 s take 48
    assert all(result.judge_failed and not result.correct for result in results)
    assert len(server.requests) <= 4 * workers  # as many as there are tries in that time
    assert "not asked" in results[-1].reason
    signs = [record.getMessage() for record in caplog.records if "has not replied for" in record.getMessage()]
    assert 2 <= len(signs) <= 7  # of all workers together
    assert "given up after 1 s" in signs[0]


def test_only_time_with_a_question_pending_counts_as_silence(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two data sets the agent answers, for longer than the judge's server may be silent."""
    clock = [0.0]
    monkeypatch.setattr(inactivity, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def fail_slowly(_: Request) -> Response:
        clock[0] += 100.0
        return _error(503)

    failed = [fail_slowly] * SERVER_TRIES
    server = Server(httpserver, *failed, '{"accuracy": true}', *failed, *failed, '{"accuracy": true}')
    judge = server.judge(patience=1000.0)

    def is_judged() -> bool:
        clock[0] += 5000.0
        return not judge.judge(ITEM).failed

    assert [is_judged() for _ in range(4)] == [False, True, False, False]
    requests = len(server.requests)
    assert "not asked: the judge's server has not replied for 1200 s" in judge.judge(ITEM).reason
    assert len(server.requests) == requests == 3 * SERVER_TRIES + 1


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "maybe",
        '{"accuracy": "so so"}',
        '{"right": true}',
        "[1, 2",
        "Result: PERHAPS",
        "Result: INCORRECT",
    ],
)
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4o-mini"])
def test_garbage_is_asked_for_again_and_then_counts_as_wrong(
    httpserver: HTTPServer, tmp_path: Path, garbage: str, model: str
) -> None:
    server = Server(httpserver, garbage)
    verdict = server.judge(model, cache=tmp_path).judge(ITEM)
    assert (verdict.correct, verdict.failed) == (False, True)
    assert len(server.requests) == (TRIES if garbage else 1), "an empty reply is an error of its own"
    assert list_judgements(tmp_path) == []  # the next run asks again


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ('Of the set {1, 2} one is meant: {"accuracy": true}', True),
        ('{"accuracy": true, "note": "it says } and {"}', True),
        ('{"why": {"height": "{330 m}"}, "accuracy": false}', False),
        ('{"result": {"accuracy": false}}', False),
        ('{"accuracy": true}\n{"accuracy": true}', True),
        ('{"accuracy": false}\nNo, I was wrong: {"accuracy": true}', None),
        ('{"accuracy": true', True),
        ("{'accuracy': True}", True),
        ('{"accuracy": true,}', True),
        ('{"reason": "it costs \\$5", "accuracy": false}', False),
        ('{"accuracy": false, "reason": "the tower', False),
        ('{"reason": "\\"accuracy\\": true", "accuracy": tr', None),
        ('{"accuracy": trueish}', None),
        ('{"accuracy": null}', None),
        ("{" * 100_000, None),
        ('{"a":' * 5_000 + "1" + "}" * 5_000, None),
    ],
)
def test_a_verdict_is_read_whatever_stands_around_it(reply: str, right: bool | None) -> None:
    verdict = parse_structured_verdict(reply)
    assert (None if verdict is None else verdict.correct) is right


@pytest.mark.parametrize(
    "reply", ['```json\n{"accuracy": true}\n```', '{"accuracy": true,}', 'Right: {"accuracy": true}']
)
def test_by_the_starter_kits_rules_only_its_own_reading_counts(httpserver: HTTPServer, reply: str) -> None:
    """A replay under those rules must give the kit's score: it reads the whole reply as JSON."""
    server = Server(httpserver, reply)
    assert _is_right(server.judge()) is True
    assert _is_right(server.judge(exact_verdicts=STARTER_KIT.exact_verdicts)) is None
    assert parse_kit_verdict('{"accuracy": true, "note": "x"}\n') is not None


def test_garbage_once_is_forgiven(httpserver: HTTPServer) -> None:
    server = Server(httpserver, "hm", '```json\n{"accuracy": true}\n```')
    assert server.judge().judge(ITEM).correct


@pytest.mark.parametrize(
    ("status", "message"), [(401, "refuses the key"), (403, "refuses the key"), (404, "does not know model")]
)
def test_what_no_retry_mends_is_said_at_once(httpserver: HTTPServer, status: int, message: str) -> None:
    server = Server(httpserver, _error(status))
    with pytest.raises(JudgeError, match=message) as caught:
        server.judge().judge(ITEM)
    assert "\n" not in str(caught.value)
    assert len(server.requests) == 1


def make_answers(number: int) -> list[AnsweredTurn]:
    """Make answers that a judge has to be asked about."""
    base = judged("h")[0].turn
    return [
        replace(base, session_id=f"s{n}", interaction_id=f"i{n}", agent_response=f"answer {n}") for n in range(number)
    ]


def test_a_model_of_the_same_name_on_another_server_is_another_judge(httpserver: HTTPServer, tmp_path: Path) -> None:
    lenient = Server(httpserver, '{"accuracy": true}')
    assert lenient.judge(cache=tmp_path).judge(ITEM).correct
    with HTTPServer() as another:
        strict = Server(another, '{"accuracy": false}')
        assert not strict.judge(cache=tmp_path).judge(ITEM).correct
        assert strict.judge(cache=tmp_path).name != lenient.judge(cache=tmp_path).name
    assert lenient.judge(cache=tmp_path).judge(ITEM).correct
    assert len(lenient.requests) == len(strict.requests) == 1


@pytest.mark.parametrize("address", [None, "https://api.openai.com/v1", "https://api.openai.com/v1/"])
def test_kept_judgements_of_openais_server_are_found_by_the_models_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str | None
) -> None:
    """They were paid for, and kept before other servers were told apart."""
    asked: list[ChatRequest] = []

    def reply(_: OpenAIChat, requests: Sequence[ChatRequest], *__: object) -> list[ChatReply]:
        asked.extend(requests)
        return [ChatReply('{"accuracy": true}', "stop") for _ in requests]

    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr(OpenAIChat, "chat", reply)
    judge = OpenAIJudge("gpt-4o-mini", base_url=address, cache=tmp_path)
    assert judge.judge(ITEM).correct
    assert list_judgements(tmp_path) == [request_key("gpt-4o-mini ", asked[0])]
    assert judge.name == "gpt-4o-mini (structured; our words)"


def test_what_a_judge_costs_is_told(httpserver: HTTPServer, tmp_path: Path) -> None:
    server = Server(httpserver, lambda _: _completion('{"accuracy": true}', (1000, 10)))
    judge = server.judge(cache=tmp_path)
    judge_turns(make_answers(3), judge, workers=2)
    # three times 1000 tokens at 0.15 and 10 at 0.60 dollars a million
    assert judge.spending.dollars == pytest.approx(3 * (0.00015 + 0.000006))
    assert str(judge.spending).startswith("3 requests, 3000 tokens read, 30 written: $0.0005 (prices of May 2026")
    later = server.judge(cache=tmp_path)
    judge_turns(make_answers(4), later, workers=2)
    assert later.spending.dollars == pytest.approx(0.000156)
    assert later.spending.report()["dollars_of_kept_judgements"] == pytest.approx(3 * 0.000156)
    assert len(server.requests) == 4


def test_a_reply_that_is_no_verdict_is_paid_too(httpserver: HTTPServer) -> None:
    server = Server(httpserver, lambda _: _completion("hm", (100, 1)))
    judge = server.judge()
    judge.judge(ITEM)
    assert judge.spending.report()["tokens_read"] == 100 * TRIES


def test_judging_stops_at_its_price_and_goes_on_from_there(httpserver: HTTPServer, tmp_path: Path) -> None:
    server = Server(httpserver, lambda _: _completion('{"accuracy": true}', (1_000_000, 0)))
    price = Price(1.0, 0.0)
    with pytest.raises(JudgeError, match=r"has cost \$3.0000, and --max-cost is \$2.5; every judgement is kept"):
        judge_turns(make_answers(8), server.judge(cache=tmp_path, spending=Spending(price, 2.5)), workers=1)
    assert len(server.requests) == len(list_judgements(tmp_path)) == 3
    judge = server.judge(cache=tmp_path, spending=Spending(price, 6.0))
    assert all(result.correct for result in judge_turns(make_answers(8), judge, workers=4))
    assert len(server.requests) == 8  # five more: nothing was asked twice
    assert judge.spending.dollars == 5.0


def test_a_limit_that_cannot_be_held_is_refused(httpserver: HTTPServer, tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="--judge-price"):
        choose_judge("local-model", cache=tmp_path, max_cost=1.0)
    silent = Server(httpserver, '{"accuracy": true}')
    with pytest.raises(JudgeError, match="does not report how many tokens"):
        silent.judge(spending=Spending(Price(1.0, 1.0), 5.0)).judge(ITEM)
    unlimited = silent.judge("local-model")
    unlimited.judge(ITEM)
    assert "1 requests without token counts; the model's price is not known" in str(unlimited.spending)


@pytest.mark.parametrize(
    ("model", "read"),
    [("gpt-4o-mini", 0.15), ("openai/gpt-4o", 2.5), ("gpt-4o-2024-11-20", 2.5), ("gpt-4o-audio", None)],
)
def test_prices_are_those_of_the_table(model: str, read: float | None) -> None:
    price = look_up_price(model)
    assert (price.read if price else None) == read


@pytest.mark.parametrize("text", ["1", "a,b", "1,2,3", "-1,2", "nan,1"])
def test_a_price_is_two_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="write READ,WRITTEN"):
        parse_price(text)
    assert parse_price("0.5,2") == Price(0.5, 2.0)


def test_judgements_are_kept_by_content(httpserver: HTTPServer, tmp_path: Path) -> None:
    server = Server(httpserver, '{"accuracy": true}')
    assert server.judge(cache=tmp_path).judge(ITEM) == server.judge(cache=tmp_path).judge(ITEM)
    assert len(server.requests) == 1
    server.judge(cache=tmp_path).judge(JudgeItem(ITEM.query, ITEM.ground_truth, "331 metres"))
    server.judge("other", cache=tmp_path).judge(ITEM)
    assert len(server.requests) == 3
    with Cache(str(tmp_path)) as cache:
        for key in cache:
            cache[key] = b"{torn"
    assert server.judge(cache=tmp_path).judge(ITEM).correct
    assert len(server.requests) == 4


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
    for rules in RULES.values():
        assert isinstance(
            choose_judge(None, cache=tmp_path, rules=rules), RuleJudge
        )  # a key alone sends nothing anywhere
    assert choose_judge("gpt-4o-mini", cache=tmp_path).name == "gpt-4o-mini (structured; our words)"
    assert isinstance(choose_judge("None", cache=tmp_path), RuleJudge)
    assert choose_judge("gpt-4o", cache=tmp_path).name == "gpt-4o (explained; our words)"
    assert choose_judge("openai/gpt-4o-2024-11-20", cache=tmp_path).name.endswith(" (explained; our words)")
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    named = choose_judge("local-model", cache=tmp_path).name
    assert named == "local-model (structured; our words; http://127.0.0.1:1/v1)"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:secret@127.0.0.1:1/v1")
    assert "secret" not in choose_judge("local-model", cache=tmp_path).name
    named = choose_judge("local-model", cache=tmp_path, base_url="http://127.0.0.1:2/v1").name
    assert named == "local-model (structured; our words; http://127.0.0.1:2/v1)"


def test_which_judge_a_run_gets_by_the_rules_of_a_release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "key")

    def name(eval_model: str, rules: Rules) -> str:
        return choose_judge(eval_model, cache=tmp_path, rules=rules).name

    # A release has one form of reply, whatever the model
    assert name("gpt-4o", STARTER_KIT) == "gpt-4o (structured; our words)"
    assert name("gpt-4o-mini", RESEARCH_RELEASE) == "gpt-4o-mini (explained; our words)"
    for rules in (STARTER_KIT, RESEARCH_RELEASE):
        nobody = choose_judge("None", cache=tmp_path, rules=rules)
        assert not nobody.judge(JudgeItem("Who?", "Eiffel", "Gustave Eiffel")).correct
        assert isinstance(choose_judge("rule", cache=tmp_path, rules=rules), RuleJudge)


def test_a_run_is_judged_within_its_price_shown_and_judged_again(
    httpserver: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands: what fails is counted apart and asked for again, what is too dear stops, and nothing is paid twice."""

    def answer(request: Request) -> Response:
        upset = "answer 1<" in request.get_json()["messages"][1]["content"] and not mended
        return _error(400, "filtered") if upset else _completion('{"accuracy": true}', (1000, 10))

    mended: list[bool] = []
    server = Server(httpserver, answer)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    saved = tmp_path / "response.jsonl"
    saved.write_text("".join(json.dumps(turn.to_dict()) + "\n" for turn in make_answers(4)))

    words = f"--mode evaluate --input-file {saved} --output-dir {tmp_path}/out --cache {tmp_path}/cache --eval-model gpt-4o-mini"

    def evaluate(*more: str) -> tuple[int, str]:
        return run_command(main, *words.split(), "--no-progress", "--num-workers", "1", *more)

    status, output = evaluate("--max-cost", "0.0003")
    assert status == 2 and "--max-cost is $0.0003; every judgement is kept" in output
    assert "goes on from here, a run with --resume" in " ".join(output.split())
    assert not (tmp_path / "out" / "scores_dictionary.json").exists()  # scores of a part would mislead
    status, output = evaluate()
    assert status == 1 and "1 answers are not judged" in output and "filtered" in output and "--resume" in output
    about = json.loads((tmp_path / "out" / "scores_dictionary.json").read_text())["about"]
    assert about["judge_failures"] == 1 and about["judge"] == f"gpt-4o-mini (structured; our words; {server.url})"
    assert about["judge_cost"]["dollars_of_kept_judgements"] == pytest.approx(2 * 0.000156)
    assert [turn.judge_failed for turn in read_turn_table(tmp_path / "out")] == [False, True, False, False]
    assert "Not judged, counted as wrong" in (tmp_path / "out" / "report.html").read_text()
    mended.append(True)
    before = len(server.requests)
    status, output = evaluate("--resume")
    assert (
        status == 0 and "not judged" not in output and "$0.0002; judgements kept from before had cost $0.0005" in output
    )
    assert len(server.requests) - before == 1
