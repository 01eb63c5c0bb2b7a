"""Real servers' errors, in the form of each: what they say reaches the user, and what can be done about it is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from agents.models.base import ModelError
from agents.models.chat.error_bodies import parse_error_body
from agents.models.chat.openai_chat import OpenAIChat
from agents.models.chat.openai_probe import probe
from tests.models.test_failing_servers import EVERYTHING, EVIDENCE, ask, client
from tests.support.chat_server import serve_chat, streamed
from tests.support.failing_server import Body, shows_pictures
from tests.support.server_dialects import BODIES, FORMS, list_bodies, send


def serve(server: HTTPServer, status: int, body: Any, *, when: Callable[[Body], bool] = lambda _: True) -> list[Any]:
    return serve_chat(server, lambda asked: send(status, body) if when(asked) else streamed("yes"))


def find_words(body: Any) -> str:
    """Return the beginning of the longest text of a body, which is its message."""
    if isinstance(body, str):
        return body[:40].split("\n")[0]
    inner = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return max((find_words(each) for each in inner), key=lambda text: (" " in text, len(text)), default="")


FATAL = {
    "key": "refuses the key",
    "credit": "no credit left",
    "model": "does not know model 'm'",
    "path": "is not the root of its API",
}


@pytest.mark.parametrize(
    ("kind", "server", "status", "body"), [(kind, *each) for kind in FATAL for each in list_bodies(kind)]
)
def test_what_no_request_can_mend_ends_the_call_with_the_words_of_the_server(
    httpserver: HTTPServer, kind: str, server: str, status: int, body: Any
) -> None:
    bodies = serve(httpserver, status, body)
    with pytest.raises(ModelError, match=FATAL[kind]) as caught:
        client(httpserver).chat([ask(**EVERYTHING)])
    message = str(caught.value)
    assert f"It says ({status})" in message or status == 200
    assert (find_words(body) in message or server == "nginx") and "\n" not in message and "<" not in message
    assert len(bodies) == 1


@pytest.mark.parametrize(
    ("server", "kind"),
    [(server, kind) for server, kinds in BODIES.items() for kind in kinds if kind.startswith("busy")],
)
def test_a_busy_server_is_waited_for_as_long_as_its_body_says(
    httpserver: HTTPServer, server: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def sleep(_: OpenAIChat, seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(OpenAIChat, "_sleep", sleep)
    status, body = BODIES[server][kind]
    answers = iter([send(status, body), streamed("yes")])
    serve_chat(httpserver, lambda _: next(answers))
    assert client(httpserver, max_wait=120).chat([ask()])[0].text == "yes"
    seconds = float(kind.removeprefix("busy "))
    assert pauses == [pytest.approx(seconds)] if seconds else pauses[0] <= 0.01


@pytest.mark.parametrize(("server", "status", "body"), list_bodies("long"))
def test_a_prompt_beyond_the_context_is_cut(httpserver: HTTPServer, server: str, status: int, body: Any) -> None:
    bodies = serve(httpserver, status, body, when=lambda asked: len(asked["messages"][0]["content"]) > 10_000)
    (reply,) = client(httpserver).chat([ask(EVIDENCE, max_tokens=75, **EVERYTHING)])
    assert (reply.text, len(bodies)) == ("yes", 2) and reply.prompt_cut > 500


@pytest.mark.parametrize(("server", "status", "body"), list_bodies("logprobs"))
def test_a_refused_parameter_costs_no_other_one(httpserver: HTTPServer, server: str, status: int, body: Any) -> None:
    bodies = serve(httpserver, status, body, when=lambda asked: "logprobs" in asked)
    assert client(httpserver).chat([ask(**EVERYTHING)])[0].text == "yes"
    assert set(bodies[0]) - set(bodies[-1]) == {"logprobs", "top_logprobs"} and len(bodies) == 2


@pytest.mark.parametrize(("server", "status", "body"), list_bodies("blind"))
def test_a_blind_model_is_told(httpserver: HTTPServer, server: str, status: int, body: Any) -> None:
    serve(httpserver, status, body, when=shows_pictures)
    fault = probe(client(httpserver), sees=True, thorough=False).fault
    assert "the model takes no picture" in str(fault) and find_words(body) in str(fault)


@pytest.mark.parametrize(("server", "status", "body"), list_bodies("filtered"))
def test_a_filtered_prompt_is_a_refusal_to_answer(httpserver: HTTPServer, server: str, status: int, body: Any) -> None:
    bodies = serve(httpserver, status, body)
    (reply,) = client(httpserver).chat([ask(**EVERYTHING)])
    assert (reply.fault, reply.no_answer, len(bodies)) == ("refusal", False, 1)
    assert str(reply.error).startswith("the model declines to answer: ") and find_words(body) in str(reply.error)


def test_a_page_says_its_title_once() -> None:
    _, page = BODIES["nginx"]["busy 0"]
    assert parse_error_body(page).message == "502 Bad Gateway nginx"


@pytest.mark.parametrize("form", FORMS)
def test_a_refusal_is_told_in_the_words_of_the_server(httpserver: HTTPServer, form: str) -> None:
    message = "At most 1 image(s) may be provided in one prompt"
    bodies = serve(httpserver, 400, FORMS[form](400, message))
    (reply,) = client(httpserver).chat([ask(photo=True, **EVERYTHING)])
    assert message in str(reply.error) and len(bodies) == 1
    assert "--set limits.pictures=1" in str(reply.error)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"success": False, "error": True, "message": "no such tenant"}, "no such tenant"),
        ({"error": "Bad Request", "message": "no such tenant"}, "Bad Request; no such tenant"),
        ({"errors": [{"message": "one"}, {"message": "two"}]}, "one; two"),
        ({"code": 7, "hint": "see the page"}, '{"code": 7, "hint": "see the page"}'),
        ("a\x1b[2Jb\r\nc", "a [2Jb c"),
        ("<!-- x --><h1>Bad &amp; broken</h1><script>a < b</script>", "Bad & broken"),
        ("[1, 2", "[1, 2"),
        ("", "(no message)"),
        (None, "null"),
        ({"error": {"message": ""}}, '{"error": {"message": ""}}'),
    ],
)
def test_words_are_found_in_bodies_of_any_form(body: Any, message: str) -> None:
    assert parse_error_body(body).message == message


@pytest.mark.parametrize(
    "text", ["<style" * 20_000, "<!--" * 30_000, "[" * 100_000, '{"a":' * 50_000, "retry in " + "1s" * 50_000]
)
def test_hostile_bodies_are_read_in_no_time(text: str) -> None:
    began = time.process_time()
    parse_error_body(text)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("status", [400, 500])
def test_an_error_without_words_is_told_with_its_status(httpserver: HTTPServer, status: int) -> None:
    serve(httpserver, status, "")
    assert "(no message)" in str(client(httpserver).chat([ask()])[0].error)
