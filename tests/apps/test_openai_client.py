"""What people do with the openai client, blocking and async: calls, streams, raw responses, models, its errors, timeouts and retries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest
from pydantic import BaseModel

from apps.serving.app import ServerLimits
from tests.apps.conftest import KEY, PHOTO, ScriptedAgent, data_url, make_message, serving

MODEL = "crag-mm-test"
QUESTION: dict[str, Any] = {"model": MODEL, "messages": [make_message("Who?", data_url(PHOTO))]}
SAID = "answer to Who?"


def client(url: str, key: str = KEY, **more: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, **{"max_retries": 0, "timeout": 60, **more})


def run_async(url: str, use: Callable[[openai.AsyncOpenAI], Any]) -> Any:
    async def call() -> Any:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=60) as async_client:
            return await use(async_client)

    return asyncio.run(call())


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(ScriptedAgent(), limits=ServerLimits(requests_per_minute=1000)) as address:
        yield address


def test_the_streaming_helper(url: str) -> None:
    with client(url).chat.completions.stream(**QUESTION) as stream:
        kinds = {event.type for event in stream}
        assert "content.delta" in kinds
        assert stream.get_final_completion().choices[0].message.content == SAID


def test_raw_and_streamed_responses(url: str) -> None:
    raw = client(url).chat.completions.with_raw_response.create(**QUESTION)
    assert raw.status_code == 200 and raw.headers["content-type"] == "application/json"
    assert raw.parse().choices[0].message.content == SAID
    assert json.loads(raw.content)["crag"]["abstained"] is False
    with client(url).chat.completions.with_streaming_response.create(**QUESTION, stream=True) as streamed:
        assert streamed.headers["content-type"].startswith("text/event-stream")
        assert streamed.headers["x-accel-buffering"] == "no", "nginx passes events on at once"
        assert [line for line in streamed.iter_lines() if line][-1] == "data: [DONE]"


def test_extra_fields_and_headers_are_ignored(url: str) -> None:
    completion = client(url).chat.completions.create(
        **QUESTION,
        temperature=0.2,
        top_p=0.5,
        seed=1,
        user="u",
        response_format={"type": "text"},
        extra_body={"x": {}},
        extra_headers={"X-A": "b"},
    )
    assert completion.choices[0].message.content == SAID


def test_the_async_client(url: str) -> None:
    async def use(async_client: openai.AsyncOpenAI) -> None:
        several = await asyncio.gather(*(async_client.chat.completions.create(**QUESTION) for _ in range(4)))
        assert {one.choices[0].message.content for one in several} == {SAID}
        stream = await async_client.chat.completions.create(**QUESTION, stream=True)
        assert "".join([piece.choices[0].delta.content or "" async for piece in stream]) == SAID
        assert [model.id async for model in async_client.models.list()] == [MODEL]
        assert (await async_client.models.retrieve(MODEL)).id == MODEL
        raw = await async_client.chat.completions.with_raw_response.create(**QUESTION)
        assert raw.parse().choices[0].message.content == SAID

    run_async(url, use)


WRONG: dict[str, tuple[type[openai.APIStatusError], int, Callable[[openai.OpenAI], Any]]] = {
    "bad request": (openai.BadRequestError, 400, lambda c: c.chat.completions.create(model=MODEL, messages=[])),
    "another model": (openai.NotFoundError, 404, lambda c: c.chat.completions.create(**{**QUESTION, "model": "x"})),
    "model unknown": (openai.NotFoundError, 404, lambda c: c.models.retrieve("org/x")),
    "no such route": (openai.NotFoundError, 404, lambda c: c.embeddings.create(model=MODEL, input="x")),
    "wrong key": (openai.AuthenticationError, 401, lambda c: c.with_options(api_key="wrong").models.list()),
    "foreign page": (
        openai.PermissionDeniedError, 403,
        lambda c: c.chat.completions.create(**QUESTION, extra_headers={"Origin": "https://attacker.example"}),
    ),
    "too large": (
        openai.APIStatusError, 413,
        lambda c: c.chat.completions.create(model=MODEL, messages=[make_message("x" * 21 * 1024 * 1024)]),
    ),
}  # fmt: skip


class Said(BaseModel):
    """An answer as a program would have it."""

    answer: str


def test_an_answer_in_a_form_of_the_clients_own_is_refused_by_name(url: str) -> None:
    with pytest.raises(openai.BadRequestError, match="answers are plain text") as failure:
        client(url).chat.completions.parse(**QUESTION, response_format=Said)
    assert failure.value.param == "response_format.type"


@pytest.mark.parametrize("case", WRONG)
def test_errors_are_the_clients_own(url: str, case: str) -> None:
    kind, status, call = WRONG[case]
    with pytest.raises(kind) as failure:
        call(client(url))
    assert failure.value.status_code == status
    assert failure.value.message and isinstance(failure.value.body, dict)


def test_the_client_tries_again_where_the_agent_failed_once(agent: ScriptedAgent) -> None:
    def say(query: str) -> str:
        if len(agent.calls) == 1:
            raise RuntimeError
        return "second time"

    agent.say = say
    with serving(agent) as url:
        completion = client(url, max_retries=1).chat.completions.create(**QUESTION)
    assert completion.choices[0].message.content == "second time"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_gives_up_has_its_own_error_and_gives_its_place_back(agent: ScriptedAgent, stream: bool) -> None:
    agent.open.clear()
    with serving(agent, limits=ServerLimits(questions=1)) as url:
        with pytest.raises(openai.APITimeoutError if not stream else (openai.APITimeoutError, httpx.ReadTimeout)):
            completion = client(url, timeout=0.3).chat.completions.create(**QUESTION, stream=stream)
            list(completion)
        agent.open.set()
        assert client(url, max_retries=5).chat.completions.create(**QUESTION).choices[0].message.content == SAID
