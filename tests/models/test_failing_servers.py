"""Servers as they are: each way to fail is told with its cure, and what a server refuses is found once."""

from __future__ import annotations

from typing import Any

import pytest
from PIL import Image
from pytest_httpserver import HTTPServer

from agents.models.base import ChatMessage, ChatReply, ChatRequest, ModelError
from agents.models.chat.openai_chat import OpenAIChat
from tests.support.chat_server import serve_chat, streamed
from tests.support.failing_server import (
    CONTEXTS,
    FAILURES,
    NO_SYSTEM,
    error,
    error_in_stream,
    limit_context,
    list_texts,
    pieces,
    refuse,
    refuse_system,
    shows_pictures,
    whole,
)

PHOTO = Image.new("RGB", (32, 32), "red")
SCHEMA = {"type": "object", "properties": {"x": {"type": "boolean"}}}
EVERYTHING: dict[str, Any] = {"logprobs": True, "schema": SCHEMA, "seed": 1, "stop": ("\n\n",), "temperature": 0.5}


def client(server: HTTPServer, **options: Any) -> OpenAIChat:
    return OpenAIChat("m", server.url_for("/v1"), **{"max_pause": 0.01, "attempts": 2, **options})


def ask(text: str = "What is it?", *, photo: bool = False, **settings: Any) -> ChatRequest:
    return ChatRequest((ChatMessage("user", text, (PHOTO,) if photo else ()),), **settings)


def ask_server(server: HTTPServer, way: str, **options: Any) -> ChatReply:
    serve_chat(server, FAILURES[way])
    return client(server, **options).chat([ask(photo=True, max_tokens=64)])[0]


SILENT = {
    "always busy": "The server answers 429: ",
    "broken": "The server answers 500: ",
    "page of a proxy": "The server answers 502: ",
    "page with 200": "answers with a page (text/html) and no reply: name the root of its API with --base-url",
    "cut connection": "ended its reply early",
    "no choices": "ended its reply early or sent none",
    "bad JSON": "The server's reply is no JSON",
    "error with 200": "The server sends an error: upstream is down",
    "error in the stream": "The server sends an error: upstream is down",
    "busy in the stream": "The server answers 529: Provider is overloaded",
    "no code in the stream": "The server sends an error: overloaded",
}


@pytest.mark.parametrize("way", SILENT)
def test_a_silent_server_does_not_count_as_a_model_without_an_answer(httpserver: HTTPServer, way: str) -> None:
    reply = ask_server(httpserver, way)
    assert (reply.text, reply.finish_reason, reply.no_answer) == ("", "error", True)
    assert SILENT[way] in str(reply.error) and "<" not in str(reply.error)


def test_an_account_without_credit_ends_the_call_and_is_not_asked_again(httpserver: HTTPServer) -> None:
    bodies = serve_chat(httpserver, FAILURES["no credit"])
    with pytest.raises(ModelError, match="no credit left: add some, or set OPENAI_API_KEY to another key"):
        client(httpserver).chat([ask()])
    assert len(bodies) == 1


REFUSED = {
    "too long": "maximum context length is 4096",
    "blind": "not a multimodal model",
    "blind, in the stream": "does not support image input",
    "blind, by llama.cpp": "image input is not supported",
    "blind, by a router": "support image input",
}


def test_a_refusal_for_want_of_tokens_costs_no_parameter(httpserver: HTTPServer) -> None:
    bodies = serve_chat(httpserver, FAILURES["thinks, by a refusal"])
    chat = client(httpserver)
    (reply,) = chat.chat([ask(**EVERYTHING)])
    assert (reply.fault, len(bodies), chat.dialect.refused) == ("tokens", 1, frozenset())


@pytest.mark.parametrize("way", REFUSED)
def test_what_no_parameter_is_to_blame_for_is_told_at_once(httpserver: HTTPServer, way: str) -> None:
    bodies = serve_chat(httpserver, FAILURES[way])
    (reply,) = client(httpserver).chat([ask(photo=True, **EVERYTHING)])
    assert reply.finish_reason == "error" and REFUSED[way] in str(reply.error) and len(bodies) == 1


@pytest.mark.parametrize(
    ("way", "fault", "message"),
    [
        ("declines", "refusal", "the model declines to answer: I'm sorry, I cannot help."),
        ("filters", "refusal", "content filter"),
        (
            "thinks on",
            "tokens",
            "64 tokens went into thoughts, and none is left for the answer: give them more with --rea",
        ),
        ("thinks in tags", "tokens", "64 tokens went into thoughts"),
        ("thinks unseen", "tokens", "64 tokens went by without a word, and none is left for the answer"),
        ("thinks, by a refusal", "tokens", "64 tokens went by without a word, and none is left for the answer"),
        ("thinks alone", "empty", "the reply is thoughts alone: turn thoughts off"),
        ("thinks alone, in the stream", "empty", "the reply is thoughts alone: turn thoughts off"),
        ("thinks alone, in tags", "empty", "the reply is thoughts alone: turn thoughts off"),
        ("says nothing", "empty", "the reply is empty: look at the server's log"),
        ("calls a tool", "empty", "the model calls a tool in place of an answer: turn off the tools"),
    ],
)
def test_a_model_without_an_answer_says_which_kind(httpserver: HTTPServer, way: str, fault: str, message: str) -> None:
    reply = ask_server(httpserver, way)
    assert (reply.finish_reason, reply.fault, reply.no_answer) == ("error", fault, False)
    assert message in str(reply.error)


def test_thoughts_have_tokens_of_their_own(httpserver: HTTPServer) -> None:
    bodies = serve_chat(httpserver, lambda _: pieces({"reasoning": "Hmm"}, {"content": "330 m"}))
    (reply,) = client(httpserver, reasoning_tokens=1000).chat([ask(max_tokens=64)])
    assert (reply.text, bodies[0]["max_tokens"]) == ("330 m", 1064)


@pytest.mark.parametrize(
    "text",
    [
        "<think>\nIs it 300? No.\n</think>\n\n330 m",
        "Is it 300?</think>330 m",
        "[THINK]x[/THINK]330 m",
        " 330 m",
        "◁think▷Is it 300?◁/think▷330 m",
        "<|channel>thought\nIs it 300?<channel|>330 m<turn|>",
        "<seed:think>Is it 300?</seed:think>330 m",
        "<|channel|>analysis<|message|>Is it 300?<|end|><|start|>assistant<|channel|>final<|message|>330 m<|return|>",
        "<|channel|>final <|constrain|>json<|message|>330 m",
        "analysisWe ask if it is 300.assistantfinal330 m",
        "<|START_THINKING|>Is it 300?<|END_THINKING|><|START_RESPONSE|>330 m<|END_RESPONSE|>",
        "<|begin_of_box|>330 m<|end_of_box|>",
        "<think>Is it 300?</think><answer>\n<|begin_of_box|>330 m<|end_of_box|></answer>",
    ],
)
def test_thoughts_in_the_text_are_not_read(httpserver: HTTPServer, text: str) -> None:
    serve_chat(httpserver, lambda _: streamed(text))
    assert client(httpserver).chat([ask()])[0].text == "330 m"


@pytest.mark.parametrize(
    "text",
    ["analysis", "Analysis of the photo: 3 < 4 and a<|b", "I think <i>so</i>", "the final answer: a|b", "x <answer"],
)
def test_words_that_resemble_marks_stay(httpserver: HTTPServer, text: str) -> None:
    serve_chat(httpserver, lambda _: streamed(text))
    assert client(httpserver).chat([ask(stop=("\n",))])[0].text == text


def test_a_stop_string_ends_no_reply_at_the_blank_line_behind_its_thoughts(httpserver: HTTPServer) -> None:
    serve_chat(httpserver, lambda _: streamed("<think>x</think>\n\n330 m\nQ: next"))
    assert client(httpserver).chat([ask(stop=("\n",))])[0].text == "330 m"


def test_what_a_reasoning_model_refuses_is_found_once(httpserver: HTTPServer) -> None:
    answer = refuse("temperature", "logprobs", "stop", "seed", "stream", max_tokens="max_completion_tokens")
    bodies = serve_chat(httpserver, answer)
    first = client(httpserver).chat([ask(max_tokens=9, **EVERYTHING)])
    num_requests = len(bodies)
    again = client(httpserver).chat([ask(max_tokens=9, **EVERYTHING)])  # another client of the same run
    assert [reply.text for reply in (*first, *again)] == ["yes", "yes"]
    assert len(bodies) == num_requests + 1 == 8
    assert bodies[-1].keys() == {"model", "messages", "response_format", "max_completion_tokens"}
    assert bodies[-1]["max_completion_tokens"] == 9


def test_a_parameter_refused_with_403_is_no_wrong_key(httpserver: HTTPServer) -> None:
    message = "You are not allowed to request logprobs from this model."
    serve_chat(httpserver, lambda body: error(403, message) if "logprobs" in body else streamed("yes"))
    assert client(httpserver).chat([ask(logprobs=True)])[0].text == "yes"


def test_a_stop_that_the_server_does_not_know_ends_the_reply_all_the_same(httpserver: HTTPServer) -> None:
    serve_chat(
        httpserver, lambda body: error(400, "no", param="stop") if "stop" in body else streamed("330 m\nQ: next")
    )
    assert client(httpserver).chat([ask(stop=("\n",))])[0].text == "330 m"


def test_a_gateway_that_streams_nothing_works(httpserver: HTTPServer) -> None:
    bodies = serve_chat(httpserver, lambda _: whole({"content": "330 m"}))
    chat = client(httpserver)
    assert [chat.chat([ask()])[0].text for _ in range(2)] == ["330 m", "330 m"]
    assert [body.get("stream") for body in bodies] == [True, None]


def test_after_a_success_a_refusal_without_reason_costs_one_request(httpserver: HTTPServer) -> None:
    bodies = serve_chat(httpserver, lambda body: error(400, "no") if shows_pictures(body) else streamed('{"x": true}'))
    chat = client(httpserver)
    good, bad = (chat.chat([ask(photo=photo, **EVERYTHING)])[0] for photo in (False, True))
    assert (good.text, bad.finish_reason, len(bodies)) == ('{"x": true}', "error", 2)


RULES = ChatMessage("system", "Answer in one word.")
QUESTION = ChatMessage("user", "What is it?", (PHOTO,))


@pytest.mark.parametrize("way", NO_SYSTEM)
def test_a_server_without_system_messages_finds_them_in_the_users(httpserver: HTTPServer, way: str) -> None:
    bodies = serve_chat(httpserver, refuse_system(way))
    chat = client(httpserver)
    request = ChatRequest((RULES, QUESTION, ChatMessage("assistant", "Glass."), ChatMessage("user", "Sure?")), seed=1)
    replies = [*chat.chat([request]), *client(httpserver).chat([request])]
    assert [reply.text for reply in replies] == ["yes", "yes"] and len(bodies) == 3  # it is found once
    assert [message["role"] for message in bodies[-1]["messages"]] == ["user", "assistant", "user"]
    assert list_texts(bodies[-1]["messages"][0]) == ["Answer in one word.\n\nWhat is it?"]
    assert shows_pictures(bodies[-1]) and bodies[-1]["seed"] == 1


@pytest.mark.parametrize("message", ["Your role does not permit this", "no", "the photo shows the operating system"])
def test_another_refusal_leaves_the_system_message_where_it_is(httpserver: HTTPServer, message: str) -> None:
    bodies = serve_chat(httpserver, lambda body: error(400, message) if "seed" in body else streamed("yes"))
    assert client(httpserver).chat([ChatRequest((RULES, QUESTION), seed=1)])[0].text == "yes"
    assert all(body["messages"][0]["role"] == "system" for body in bodies)


def test_a_complaint_of_roles_without_a_system_message_is_told_at_once(httpserver: HTTPServer) -> None:
    bodies = serve_chat(httpserver, lambda _: error(400, "Conversation roles must alternate user/assistant/user/..."))
    (reply,) = client(httpserver).chat([ask(**EVERYTHING)])
    assert "must alternate" in str(reply.error) and len(bodies) == 1


EVIDENCE = "Which tower is it?\n" + "The tower is 330 m high. " * 800 + "\nHow high is it?"


@pytest.mark.parametrize("picture", [0, 1500])
@pytest.mark.parametrize("way", CONTEXTS)
def test_a_prompt_that_is_too_long_loses_its_middle(httpserver: HTTPServer, way: str, picture: int) -> None:
    bodies = serve_chat(httpserver, limit_context(way, 4096, picture=picture))
    chat = client(httpserver)
    (reply,) = chat.chat([ask(EVIDENCE, photo=picture > 0, max_tokens=75, **EVERYTHING | {"temperature": 0.0})])
    prompt_text = list_texts(bodies[-1]["messages"][0])[0]
    assert (reply.text, reply.finish_reason) == ("yes", "stop")
    assert prompt_text.startswith("Which tower") and prompt_text.endswith("How high is it?") and " ... " in prompt_text
    assert len(prompt_text) > len(EVIDENCE) // (4 if picture else 3) and reply.prompt_cut > 500
    assert chat.dialect.refused == frozenset() and len(bodies) <= 4
    assert client(httpserver).chat([ask("Hi", max_tokens=75)])[0].prompt_cut == 0


def test_a_complaint_that_cannot_be_read_costs_its_request_alone(httpserver: HTTPServer) -> None:
    odd = f"This model's maximum context length is {'9' * 5_000} tokens"  # more digits than Python converts
    serve_chat(
        httpserver, lambda body: error(400, odd) if list_texts(body["messages"][0]) == [EVIDENCE] else streamed("yes")
    )
    broken, whole_reply = client(httpserver).chat([ask(EVIDENCE), ask("Hi")])
    assert broken.finish_reason == "error" and str(broken.error).startswith("ValueError: ")
    assert whole_reply.text == "yes"


def test_an_error_within_a_stream_is_read_like_one_with_a_status(httpserver: HTTPServer) -> None:
    too_long = CONTEXTS["OpenAI"].format(prompt=9000, limit=4096, reply=75, total=9075)
    answers = iter([error_in_stream(too_long), streamed("yes")])
    bodies = serve_chat(httpserver, lambda _: next(answers))
    (reply,) = client(httpserver).chat([ask(EVIDENCE, max_tokens=75)])
    assert (reply.text, len(bodies)) == ("yes", 2) and reply.prompt_cut > 500


@pytest.mark.parametrize("code", [401, "401", "invalid_api_key"])
def test_a_wrong_key_told_within_a_stream_ends_the_call(httpserver: HTTPServer, code: int | str) -> None:
    bodies = serve_chat(httpserver, lambda _: error_in_stream("Invalid API key", code))
    with pytest.raises(ModelError, match="refuses the key: set the environment variable OPENAI_API_KEY"):
        client(httpserver).chat([ask()])
    assert len(bodies) == 1


@pytest.mark.parametrize("exact", [{"max_tokens": 75}, None])
def test_what_cannot_be_cut_fails_with_the_words_of_the_server(httpserver: HTTPServer, exact: Any) -> None:
    bodies = serve_chat(httpserver, limit_context("OpenAI", 4096 if exact else 64))
    (reply,) = client(httpserver).chat([ask(EVIDENCE if exact else "Hi", max_tokens=75, exact=exact)])
    assert "maximum context length is" in str(reply.error) and len(bodies) == 1
