"""The real openai client against the real server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from PIL import Image

from agents.profiles.profile import Limits
from apps import http_server
from apps.answering import Answerer, CancelledError, Question
from apps.outcome import Outcome, ShownEvidence
from apps.serving import app
from apps.serving.app import Server, ServerLimits
from apps.serving.batcher import Batcher
from apps.serving.protocol import ChatRequest, ProtocolError, parse_request
from tests.apps.conftest import (
    KEY,
    PHOTO,
    ScriptedAgent,
    crag_agent,
    data_url,
    listening,
    make_message,
    serving,
    unanswered,
    within_a_minute,
)
from tests.apps.held_stage import held

MODEL = "crag-mm-test"


def client(url: str, key: str = KEY) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=60)


def complete(url: str, *messages: Any, **more: Any) -> Any:
    return client(url).chat.completions.create(model=MODEL, messages=list(messages), **more)


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    """A server of the real agent over scripted models."""
    with serving(crag_agent(), limits=ServerLimits(requests_per_minute=1000, wrong_keys_per_minute=1000)) as url:
        yield url


def test_an_answer_comes_with_its_sources(real: str) -> None:
    completion = complete(real, make_message("How tall is this?", data_url(PHOTO)))
    choice = completion.choices[0]
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "300 m", "stop")
    crag_fields = completion.model_extra["crag"]
    assert (
        crag_fields["entity"] == "Red Tower"
        and crag_fields["verdict"] == "answered"
        and crag_fields["abstained"] is False
    )
    assert crag_fields["question"] == "How tall is this?"
    assert (
        crag_fields["sources"][0]["kind"] == "kg" and crag_fields["sources"][0]["url"] == "https://i.example/Red Tower"
    )


def test_a_stream_ends_with_the_sources(real: str) -> None:
    pieces = list(complete(real, make_message("How tall is this?", data_url(PHOTO, "JPEG")), stream=True))
    assert pieces[0].choices[0].delta.role == "assistant"
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == "300 m"
    assert [piece.choices[0].finish_reason for piece in pieces] == [*[None] * (len(pieces) - 1), "stop"]
    assert pieces[-1].model_extra["crag"]["entity"] == "Red Tower"
    assert len({piece.id for piece in pieces}) == 1


def test_a_stream_tells_the_stages_before_the_answer_and_nothing_of_the_answer(real: str) -> None:
    pieces = list(complete(real, make_message("How tall is this?", data_url(PHOTO)), stream=True))
    stage_fields = [piece.model_extra.get("crag_stage") for piece in pieces]
    stages = [words for words in stage_fields if words]
    assert stages[0] == "searching for similar pictures" and stages[-1] == "deciding whether to answer"
    assert "reading the results" in stages and "writing an answer" in stages
    contents = [piece.choices[0].delta.content for piece in pieces]
    assert contents[: len(stages) + 1] == [""] * (len(stages) + 1), "naive clients print what is there"
    assert contents[len(stages) + 1 :] == ["300 m", None]
    assert all("crag" not in piece.model_extra for piece in pieces[:-1])


def test_no_part_of_an_answer_that_is_withheld_is_sent_before_the_decision() -> None:
    with serving(crag_agent("It is 299 m tall, but I don't know.")) as url:
        pieces = list(complete(url, make_message("How tall is this?", data_url(PHOTO)), stream=True))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces).startswith("I don't know")
    chance = {"id", "created"}  # digits of their own
    assert not any("299" in piece.model_dump_json(exclude=chance) for piece in pieces[:-1])


def test_a_question_beside_a_stream_tells_nothing_and_both_are_answered() -> None:
    agent, stage = held()
    with serving(agent) as url, ThreadPoolExecutor(1) as other:
        pieces = iter(complete(url, make_message("How tall is this?", data_url(PHOTO)), stream=True))
        stages = (piece.model_extra.get("crag_stage") for piece in pieces)
        assert "waiting for the test" in stages, "while the agent works"
        plain = other.submit(complete, url, make_message("How tall is this?", data_url(PHOTO)))
        stage.go.set()
        assert [*stages][-1] is None and plain.result().choices[0].message.content == "300 m"


def test_models_are_listed_and_retrieved(real: str) -> None:
    assert [model.id for model in client(real).models.list()] == [MODEL]
    assert client(real).models.retrieve(MODEL).owned_by == "crag-mm-agent"
    with pytest.raises(openai.NotFoundError, match=MODEL):
        client(real).models.retrieve("gpt-9")


def test_a_dialog_reaches_the_agent(agent: ScriptedAgent) -> None:
    with serving(agent) as url:
        complete(
            url,
            {"role": "system", "content": "Be brief."},
            make_message("What is it?", data_url(PHOTO)),
            {"role": "assistant", "content": "A tower."},
            make_message("How tall?"),
            temperature=0.3,
            max_tokens=5,
        )
    assert agent.calls == [["How tall?"]]
    assert agent.histories == [
        [{"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "A tower."}]
    ]
    assert agent.images[0].size == PHOTO.size and agent.images[0].getpixel((3, 3)) == (200, 30, 30)


def test_a_question_needs_no_photo(agent: ScriptedAgent) -> None:
    with serving(agent) as url:
        assert complete(url, make_message("Who?")).choices[0].message.content == "answer to Who?"
    assert agent.images == [None]


@pytest.mark.parametrize("words", [(), ({"type": "text", "text": " "},)], ids=["no text", "an empty text"])
def test_a_photo_without_a_text_asks_for_its_subject(agent: ScriptedAgent, words: tuple[Any, ...]) -> None:
    picture = {"type": "image_url", "image_url": {"url": data_url(PHOTO)}}
    with serving(agent) as url:
        complete(url, {"role": "user", "content": [picture, *words]})
    assert agent.calls == [["What is this?"]] and agent.images[0].size == PHOTO.size


def test_a_history_may_hold_calls_of_tools_and_refusals(agent: ScriptedAgent) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    with serving(agent) as url:
        complete(
            url,
            make_message("What is it?"),
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "a result", "tool_call_id": "1"},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot say."}]},
            make_message("How tall?"),
        )
    first, answer = {"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "I cannot say."}
    assert agent.histories == [[first, answer]]


BIG = Image.new("1", (3000, 2000))


def parts(*more: Any) -> dict[str, Any]:
    """A user's message of a text and further parts."""
    return {"role": "user", "content": [{"type": "text", "text": "How tall?"}, *more]}


REFUSED: dict[str, tuple[list[Any], dict[str, Any], int, str]] = {
    "no base64": ([make_message("?", "data:image/png;base64,@@@")], {}, 400, "not valid base64"),
    "base64 cut within a letter": ([make_message("?", "data:image/png;base64,aGVsbG8h\naGVsb")], {}, 400, "not valid base64"),
    "no picture": ([make_message("?", "data:image/png;base64,aGVsbG8=")], {}, 400, "cannot be decoded"),
    "no data URL": ([make_message("?", "data:text/html,hi")], {}, 400, "has to begin with data:image"),
    "http": ([make_message("?", "http://127.0.0.1/secret.png")], {}, 400, "send a data URL"),
    "file": ([make_message("?", "file:///etc/passwd")], {}, 400, "send a data URL"),
    "many pixels": ([make_message("?", data_url(BIG))], {}, 400, "3000 x 2000 pixels"),
    "two pictures": (
        [{"role": "user", "content": [*make_message("?", data_url(PHOTO))["content"], make_message("?", data_url(PHOTO))["content"][1]]}],
        {}, 400, "one picture",
    ),
    "no question": ([{"role": "assistant", "content": "Hi."}], {}, 400, "last message"),
    "empty question": ([make_message("  ")], {}, 400, "last message"),
    "another role": ([{"role": "critic", "content": "x"}], {}, 400, "messages.0.role"),
    "a tool's result to answer": ([make_message("?"), {"role": "tool", "content": "x", "tool_call_id": "1"}], {}, 400, "last message"),
    "a URL as a text": ([parts({"type": "image_url", "image_url": "x"})], {}, 400, "content.1.image_url: it has to be an object"),
    "a number as content": ([{"role": "user", "content": 5}], {}, 400, "messages.0.content: the content of a message is a text"),
    "101 parts": ([parts(*[{"type": "text", "text": "a"}] * 100)], {}, 400, "messages.0.content: a message may have 100 parts"),
    "several answers": ([make_message("?")], {"n": 2}, 400, "n:"),
    "tools": ([make_message("?")], {"tools": [{"type": "function", "function": {"name": "f"}}]}, 400, "tools: this agent calls no tools"),
    "JSON": (
        [make_message("?")],
        {"response_format": {"type": "json_object"}},
        400,
        "response_format.type: answers are plain text: leave it out",
    ),
    "a schema": (
        [make_message("?")],
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}},
        400, "response_format.type: answers are plain text",
    ),
    "audio": ([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}], {}, 400, "should be 'text', 'image_url'"),
    "a picture without its URL": ([parts({"type": "image_url"})], {}, 400, "a part has an image_url"),
    "a picture that is null": ([parts({"type": "image_url", "image_url": None})], {}, 400, "a part has an image_url"),
    "an earlier picture without its URL": ([parts({"type": "image_url"}), make_message("?")], {}, 400, "messages.0.content"),
    "a picture as a text": (
        [parts({"type": "text", "text": "a", "image_url": {"url": data_url(PHOTO)}})], {}, 400, "a part has an image_url",
    ),
    "another model": ([make_message("?")], {"model": "gpt-9"}, 404, "crag-mm-test"),
    "large body": ([make_message("x" * 300_000)], {}, 413, "larger than"),
}  # fmt: skip


@pytest.fixture(scope="module")
def small() -> Iterator[tuple[str, ScriptedAgent]]:
    agent = ScriptedAgent()
    with serving(agent, limits=ServerLimits(body_bytes=200_000, pixels=1_000_000, requests_per_minute=1000)) as url:
        yield url, agent


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_answered_is_refused_in_words(small: tuple[str, ScriptedAgent], case: str) -> None:
    messages, more, status, words = REFUSED[case]
    url, agent = small
    with pytest.raises(openai.APIStatusError) as refusal:
        client(url).chat.completions.create(**{"model": MODEL, "messages": messages, **more})
    assert refusal.value.status_code == status
    assert words in refusal.value.body["message"]  # type: ignore[index, call-overload]
    assert not agent.calls


def test_base64_may_have_lines_and_lack_its_padding(agent: ScriptedAgent) -> None:
    head, _, coded = data_url(PHOTO).partition(",")
    lines = [coded[start : start + 76] for start in range(0, len(coded), 76)]
    assert coded.endswith("=") and len(lines) > 1
    with serving(agent) as url:
        for data in ("\n".join(lines), "\r\n".join([*lines, ""]), coded.rstrip("=")):
            complete(url, make_message("Now?", f"{head},{data}"))
    assert [image.getpixel((0, 0)) for image in agent.images] == [PHOTO.getpixel((0, 0))] * 3


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/metrics"])
def test_whoever_asks_by_head_gets_the_headers_alone(real: str, path: str) -> None:
    response, head = (
        httpx.request(each, real + path, headers={"Authorization": f"Bearer {KEY}"}) for each in ("GET", "HEAD")
    )
    assert (head.status_code, head.content, head.headers["Content-Type"]) == (
        200,
        b"",
        response.headers["Content-Type"],
    )
    assert httpx.head(f"{real}/v1/models").status_code == 401


def test_what_is_null_counts_as_left_out(agent: ScriptedAgent) -> None:
    with serving(agent) as url:
        message = parts({"type": "text", "text": "Now?", "image_url": None})
        completion = client(url).chat.completions.create(
            model=MODEL, messages=[message], stream=None, n=None, tools=None
        )  # type: ignore[call-overload]
    assert completion.choices[0].message.content == "answer to How tall?\nNow?" and agent.images == [None]


def test_a_body_without_its_length_is_cut_off_too(small: tuple[str, ScriptedAgent]) -> None:
    url, _ = small
    pieces = (b"x" * 50_000 for _ in range(10))
    answer = httpx.post(f"{url}/v1/chat/completions", content=pieces, headers={"Authorization": f"Bearer {KEY}"})
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"


MANY = "[" + "{}," * 1_300_000 + "1]"  # 4 MB, which took 24 s and 5.5 GB


@pytest.mark.hostile("requests of small JSON that is costly to check")
@pytest.mark.parametrize(
    "body",
    [
        f'{{"model": "{MODEL}", "messages": [{{"role": "user", "content": {MANY}}}]}}',
        f'{{"model": "{MODEL}", "messages": {MANY}}}',
        f'{{"model": "{MODEL}", "messages": [{{"role": "user", "content": "?"}}], "metadata": {MANY}}}',
        f'{{"model": "{MODEL}", "messages": [{{"role": "user", "content": "{"," * 4_000_000}"}}]}}',
        f'{{"model": "{MODEL}", "messages": {"[" * 90_000}{"]" * 90_000}}}',
        f'{{"model": "{MODEL}", "messages": [{{"role": "user", "content": [{"1," * 99_000}1]}}]}}',
        f'{{"model": "{MODEL}", "messages": {"1" * 4_000_000}}}',
    ],
    ids=["parts", "messages", "ignored", "a text", "nested", "as many parts as are parsed", "one number"],
)
def test_json_that_is_costly_to_check_is_refused_at_once(body: str) -> None:
    began = time.process_time()
    with pytest.raises(ProtocolError) as refusal:
        parse_request(body.encode())
    assert time.process_time() - began < 1.0
    assert refusal.value.status == 400 and len(str(refusal.value)) < 300


def test_the_server_answers_others_while_it_parses(agent: ScriptedAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def parse(body: bytes) -> ChatRequest:
        assert released.wait(30)
        return parse_request(body)

    monkeypatch.setattr(app, "parse_request", parse)
    with serving(agent) as url, ThreadPoolExecutor(1) as other:
        asked = other.submit(complete, url, make_message("Who?"))
        inside(url, 1)
        released.set()
        assert asked.result(30).choices[0].message.content == "answer to Who?"


def test_malformed_json_and_unknown_routes_have_openai_errors(small: tuple[str, ScriptedAgent]) -> None:
    url, _ = small
    headers = {"Authorization": f"Bearer {KEY}"}
    broken = httpx.post(f"{url}/v1/chat/completions", content=b"{", headers=headers)
    assert broken.status_code == 400 and broken.json()["error"]["type"] == "invalid_request_error"
    assert httpx.get(f"{url}/v1/nothing", headers=headers).json()["error"]["code"] == "no_such_route"


@pytest.mark.parametrize("path", ["/v1/responses", "/chat/completions", "//v1/chat/completions", "/"])
def test_a_slightly_wrong_address_is_told_the_right_one(small: tuple[str, ScriptedAgent], path: str) -> None:
    url, _ = small
    refusal = httpx.post(f"{url}{path}", json={}, headers={"Authorization": f"Bearer {KEY}"})
    assert refusal.status_code == 404 and "POST /v1/chat/completions" in refusal.json()["error"]["message"]


def test_a_slash_at_the_end_of_an_address_does_not_matter(small: tuple[str, ScriptedAgent]) -> None:
    url, _ = small
    headers = {"Authorization": f"Bearer {KEY}"}
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Who?"}]}
    assert httpx.get(f"{url}/v1/models/", headers=headers).status_code == 200
    assert httpx.post(f"{url}/v1/chat/completions/", json=body, headers=headers).status_code == 200


def test_texts_have_a_longest_length() -> None:
    """16 MB of "How tall is it?" took 44 s, and the reply repeated them."""
    for message, model in (("How tall is it? " * 5_000, "m"), ("Who?", "m" * 1_000)):
        body = {"model": model, "messages": [{"role": "user", "content": message}]}
        with pytest.raises(ProtocolError, match="characters") as refusal:
            parse_request(json.dumps(body).encode())
        assert refusal.value.status == 400 and len(str(refusal.value)) < 300


def test_fields_that_are_null_are_as_if_they_were_left_out() -> None:
    """Clients of some languages write all fields of a part and of the request."""
    picture = {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,QUJD", "detail": None},
        "text": None,
        "refusal": None,
    }
    parts = [{"type": "text", "text": "Who?", "image_url": None, "refusal": None}, picture]
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": parts, "name": None}],
        "n": None,
        "stream": None,
        "stop": None,
    }
    request = parse_request(json.dumps(body).encode())
    assert request.messages[0].content[0].text == "Who?"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/metrics"])
@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic " + KEY, "Bearer ü"])
def test_without_the_key_nothing_is_told(real: str, path: str, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.encode()}
    method = "POST" if path.endswith("completions") else "GET"
    answer = httpx.request(method, real + path, headers=headers)
    assert answer.status_code == 401 and answer.json()["error"]["code"] == "invalid_api_key"


def test_too_many_requests_of_one_address_are_told_when_to_come_again(agent: ScriptedAgent) -> None:
    with serving(agent, limits=ServerLimits(requests_per_minute=2)) as url:
        for _ in range(2):
            complete(url, make_message("?"))
        with pytest.raises(openai.RateLimitError) as refusal:
            complete(url, make_message("?"))
        assert 1 <= int(refusal.value.response.headers["retry-after"]) <= 60
        assert httpx.get(f"{url}/health").json()["status"] == "ok"  # a probe is no request
    assert len(agent.calls) == 2


def test_a_failing_agent_costs_its_own_call(agent: ScriptedAgent) -> None:
    def say(query: str) -> str:
        if query == "bad":
            raise RuntimeError("secret detail")
        return "fine"

    agent.say = say
    with serving(agent) as url:
        with pytest.raises(openai.InternalServerError) as failure:
            complete(url, make_message("bad"))
        assert "secret" not in str(failure.value)
        with pytest.raises(openai.APIError, match="the agent failed"):
            list(complete(url, make_message("bad"), stream=True))
        assert complete(url, make_message("good")).choices[0].message.content == "fine"


@pytest.mark.parametrize("raised", [SystemExit(3), asyncio.CancelledError(), StopIteration(), GeneratorExit()])
def test_an_agent_that_raises_what_ends_programs_does_not_end_the_server(
    agent: ScriptedAgent, raised: BaseException
) -> None:
    def say(query: str) -> str:
        if query == "bad":
            raise raised
        return "fine"

    agent.say = say
    with serving(agent) as url:
        with pytest.raises(openai.InternalServerError, match=f"the agent failed .{type(raised).__name__}") as failure:
            complete(url, make_message("bad"))
        assert failure.value.status_code == 500
        assert complete(url, make_message("good")).choices[0].message.content == "fine"


def test_wrong_keys_of_one_address_are_limited(agent: ScriptedAgent) -> None:
    with serving(agent, limits=ServerLimits(wrong_keys_per_minute=3)) as url:
        for number in range(3):
            with pytest.raises(openai.AuthenticationError):
                client(url, f"guess-{number}").models.list()
        spoofed = {"Authorization": "Bearer guess-4", "X-Forwarded-For": "203.0.113.7"}
        answer = httpx.get(f"{url}/v1/models", headers=spoofed)
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        with pytest.raises(openai.RateLimitError, match="more than 3 wrong keys a minute"):  # or guesses would go on
            client(url).models.list()


def test_requests_without_a_key_are_no_guesses(agent: ScriptedAgent) -> None:
    with serving(agent, limits=ServerLimits(wrong_keys_per_minute=1)) as url:
        assert [httpx.get(f"{url}/v1/models").status_code for _ in range(3)] == [401] * 3
        assert len(client(url).models.list().data) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_what_json_cannot_hold_is_left_out(agent: ScriptedAgent, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = Outcome(
        "half \ud83d", sources=(ShownEvidence("\udc00", "web", "", "", math.nan),), checks={"finalise.odds": math.inf}
    )
    monkeypatch.setattr(Answerer, "answer", lambda *_: [outcome])
    body = {"model": MODEL, "messages": [make_message("?")], "stream": stream}
    with serving(agent, key=None) as url:
        answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200
    last = answer.text.split("data: ")[-2] if stream else answer.text
    crag_fields = json.loads(last, parse_constant=pytest.fail)["crag"]
    assert (crag_fields["answer"], crag_fields["sources"][0]["score"], crag_fields["checks"]) == (
        "half ?",
        None,
        {"finalise.odds": None},
    )


def test_an_agent_that_does_not_end_is_given_up(agent: ScriptedAgent) -> None:
    agent.open.clear()
    with serving(agent, limits=ServerLimits(answer_seconds=0.05)) as url:
        with pytest.raises(openai.InternalServerError) as late:
            complete(url, make_message("?"))
        assert late.value.status_code == 504
        agent.open.set()


def test_a_call_that_hangs_is_no_good_health(agent: ScriptedAgent) -> None:
    server = Server(Answerer(agent), model=MODEL, key=KEY, limits=ServerLimits(answer_seconds=100))

    async def health() -> tuple[int, str]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(server.app), base_url="http://test") as inside:
            answer = await inside.get("/health")
            return answer.status_code, answer.json()["status"]

    def since(*seconds: float) -> None:
        began = [time.monotonic() - each for each in seconds]
        server._batcher._running = dict(enumerate(began))  # type: ignore[assignment]

    since(0.0)
    assert asyncio.run(health()) == (200, "ok")
    since(0.0, 101.0, 5.0)
    assert asyncio.run(health()) == (503, "stuck")


def test_agents_side_by_side_share_what_waits() -> None:
    both = threading.Barrier(2, timeout=60)
    sizes: list[int] = []

    def answer(questions: Sequence[Question], _: object) -> list[Outcome]:
        both.wait()  # ends when a second call is in progress
        return [Outcome(f"answer to {question.text}") for question in questions]

    async def answers() -> list[str]:
        batcher = Batcher(answer, 16, 32, lambda size, _: sizes.append(size), calls=2)
        async with batcher:
            outcomes = await asyncio.gather(*(batcher.ask(Question(f"{number}")) for number in range(7)))
            assert not batcher.runs_longer_than(0)
        return [outcome.answer for outcome in outcomes]

    assert asyncio.run(answers()) == [f"answer to {number}" for number in range(7)]
    assert sorted(sizes) == [3, 4]


async def until_no_call_runs(batcher: Batcher) -> None:
    async with asyncio.timeout(60):
        while batcher.running:
            await asyncio.sleep(0)


def test_a_call_is_cancelled_when_the_last_of_its_clients_has_left(caplog: pytest.LogCaptureFixture) -> None:
    entered, cancelled = threading.Event(), threading.Event()

    def answer(questions: Sequence[Question], _: object) -> list[Outcome]:
        assert len(questions) == 2
        entered.set()
        assert cancelled.wait(60)
        raise CancelledError

    async def leave() -> None:
        async with Batcher(answer, 4, 8, lambda *_: None, cancel=cancelled.set) as batcher:
            first, last = (asyncio.create_task(batcher.ask(Question(text))) for text in ("first", "last"))
            assert await asyncio.to_thread(entered.wait, 60)
            first.cancel()
            await asyncio.wait([first])
            assert not cancelled.is_set() and batcher.running == 1
            last.cancel()
            await until_no_call_runs(batcher)
            assert cancelled.is_set()

    asyncio.run(leave())
    assert "the agent failed" not in caplog.text


def test_a_call_that_began_only_after_its_clients_had_left_is_cancelled_at_its_first_stage() -> None:
    entered, begin, cancelled = threading.Event(), threading.Event(), threading.Semaphore(0)

    def answer(_: Sequence[Question], tell: Any) -> list[Outcome]:
        entered.set()
        assert begin.wait(60) and cancelled.acquire(timeout=60)
        tell("searching")
        assert cancelled.acquire(timeout=60)
        raise CancelledError

    async def leave() -> None:
        async with Batcher(answer, 4, 8, lambda *_: None, cancel=cancelled.release) as batcher:
            asking = asyncio.create_task(batcher.ask(Question("first")))
            assert await asyncio.to_thread(entered.wait, 60)
            asking.cancel()
            await asyncio.wait([asking])
            begin.set()
            await until_no_call_runs(batcher)

    asyncio.run(leave())
    assert not cancelled.acquire(blocking=False)


@pytest.mark.parametrize("stream", [False, True])
def test_the_next_question_does_not_wait_for_an_answer_whose_client_left(stream: bool) -> None:
    agent, stage = held(Limits(seconds_per_turn=300.0, seconds_per_dialog=300.0))
    with serving(agent, key=None) as url:
        body = {"model": MODEL, "messages": [make_message("How tall is this?", data_url(PHOTO))], "stream": stream}
        with unanswered(url, "/v1/chat/completions", json.dumps(body).encode()):
            assert stage.entered.wait(30)
            assert httpx.get(f"{url}/health").json()["calls"] == 1
        inside(url, 0)
        assert within_a_minute(lambda: httpx.get(f"{url}/health").json()["calls"] == 0)
        agent.pipeline.stages.remove(stage)
        assert complete(url, make_message("How tall is this?", data_url(PHOTO))).choices[0].message.content == "300 m"


def test_under_load_it_batches_refuses_politely_and_answers_all_it_took(agent: ScriptedAgent) -> None:
    """30 clients at once, room for 9, batches of 4: the agent is held until the other 21 have been refused."""
    agent.open.clear()

    async def load(url: str) -> tuple[list[openai.RateLimitError], list[str]]:
        refused: list[openai.RateLimitError] = []
        answers: list[str] = []
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=60) as many:

            async def one(number: int) -> Any:
                message = make_message(f"question {number}", data_url(PHOTO))
                return await many.chat.completions.create(model=MODEL, messages=[message])

            for finished in asyncio.as_completed([one(number) for number in range(30)]):
                try:
                    answers.append((await finished).choices[0].message.content)
                except openai.RateLimitError as error:
                    refused.append(error)
                if len(refused) == 21:
                    agent.open.set()
        return refused, answers

    with serving(agent, limits=ServerLimits(questions=9, requests_per_minute=1000)) as url:
        refused, answers = asyncio.run(load(url))
        health = httpx.get(f"{url}/health").json()
        metrics = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {KEY}"}).text
        after = complete(url, make_message("afterwards")).choices[0].message.content
    assert len(refused) == 21 and len(set(answers)) == 9
    assert all(answer.startswith("answer to question") for answer in answers)
    assert {error.body["code"] for error in refused} == {"server_busy"}  # type: ignore[index, call-overload]
    assert all(int(error.response.headers["retry-after"]) >= 1 for error in refused)
    assert sum(map(len, agent.calls)) == 10 and max(map(len, agent.calls)) <= 4
    assert len(agent.calls) <= 5  # 9 questions: a first call of 1 to 4, the rest by fours; and the one afterwards
    assert health["questions"] == 0
    assert 'crag_requests_total{code="server_busy",status="429"} 21.0' in metrics
    assert 'crag_requests_total{code="",status="200"} 9.0' in metrics
    assert after == "answer to afterwards"


@pytest.mark.parametrize("stream", [False, True])
def test_questions_of_clients_who_left_are_not_asked_and_free_their_places(agent: ScriptedAgent, stream: bool) -> None:
    """32 requests are sent and closed while the agent works for another client; then an honest one comes."""
    agent.open.clear()
    limits = ServerLimits(questions=33, requests_per_minute=1000)
    with serving(agent, limits=limits) as url, ThreadPoolExecutor(1) as other, contextlib.ExitStack() as last:
        last.callback(agent.open.set)
        first = other.submit(complete, url, make_message("first"))
        assert agent.entered.wait(30)
        fields = {"model": MODEL, "messages": [make_message("gone", data_url(PHOTO))], "stream": stream}
        body = json.dumps(fields).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
        connections = []
        for _ in range(32):
            connection = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            connections.append(connection)
        inside(url, 33)
        for connection in connections:
            connection.close()
        inside(url, 1)
        honest = other.submit(complete, url, make_message("honest"))
        agent.open.set()
        assert first.result(30).choices[0].message.content == "answer to first"
        assert honest.result(30).choices[0].message.content == "answer to honest"
        metrics = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {KEY}"}).text
    assert agent.calls == [["first"], ["honest"]]
    assert 'crag_requests_total{code="client_left",status="499"} 32.0' in metrics


def inside(url: str, questions: int) -> None:
    """Wait until so many questions are inside: the server learns of connections when its loop comes to them."""
    end = time.monotonic() + 30
    while (num_inside := httpx.get(f"{url}/health").json()["questions"]) != questions:
        assert time.monotonic() < end, f"{num_inside} questions inside instead of {questions}"


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_outlasts_the_grace_is_a_503(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream has sent its status already: its last event has the same error."""
    monkeypatch.setattr(http_server, "_GRACE_SECONDS", 0.3)
    agent = ScriptedAgent()
    agent.open.clear()
    server = Server(Answerer(agent), model="crag-mm-test", key=None)
    body = {"model": "crag-mm-test", "messages": [make_message("late", data_url(PHOTO))], "stream": stream}
    with ThreadPoolExecutor(1) as pool:
        with listening(server.app) as url:
            late = pool.submit(httpx.post, f"{url}/v1/chat/completions", json=body, timeout=30)
            assert agent.entered.wait(30)
        reply = late.result(30)
        agent.open.set()
    error_text = reply.text.rstrip().rpartition("data: ")[2] if stream else reply.text
    error = json.loads(error_text)["error"]
    assert (reply.status_code, error["code"]) == (200 if stream else 503, "server_stopping")
    assert "ask again" in error["message"] and reply.headers["X-Content-Type-Options"] == "nosniff"
    assert 'crag_requests_total{code="server_stopping",status="503"} 1.0' in asyncio.run(fetch_metrics(server))


@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_of_the_server_itself_is_told_and_counted(
    stream: bool, agent: ScriptedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(app, "build_reply", fail)
    body = {"model": MODEL, "messages": [make_message("?")], "stream": stream}
    with serving(agent, key=None) as url:
        reply = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
        metrics = httpx.get(f"{url}/metrics").text
    assert reply.status_code == (200 if stream else 500)
    error = json.loads(reply.text.removeprefix("data: "))["error"]
    assert (error["code"], error["message"]) == ("server_failed", "the server failed (RuntimeError)")
    assert 'crag_requests_total{code="server_failed",status="500"} 1.0' in metrics
    assert metrics.count("crag_requests_total{") == 1


async def fetch_metrics(server: Server) -> str:
    """Metrics of a server that listens nowhere any more."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(server.app), base_url="http://localhost") as inside:
        return (await inside.get("/metrics")).text
