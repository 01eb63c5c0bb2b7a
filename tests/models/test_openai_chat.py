"""The OpenAI-compatible adapter against a real HTTP server on this machine, well-behaved and not."""

from __future__ import annotations

import base64
import io
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import openai
import pytest
from PIL import Image
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from agents.models.base import FIRST_TOKEN_ALTERNATIVES, ChatMessage, ChatReply, ChatRequest, ModelError
from agents.models.chat.openai_chat import OpenAIChat
from agents.models.chat.openai_protocol import StreamedReply
from agents.time_limits.deadline import Deadline

KEY = "sk-secret-0123456789"
PATH = "/v1/chat/completions"
SLACK = 5.0  # seconds, for a busy machine; what is waited for in these tests takes 30
Handler = Callable[[Request], Response]


@pytest.fixture
def httpserver() -> Iterator[HTTPServer]:
    """A server of each test's own, with threads, so that a request given up in one test is not counted in the next."""
    with HTTPServer(threaded=True) as server:
        yield server


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """What a hanging handler waits for; set when the test is over."""
    over = threading.Event()
    yield over
    over.set()


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)


def chunk(
    text: str | None = None,
    finish: str | None = None,
    logprob: float | None = None,
    others: Mapping[str, float] | None = None,
) -> bytes:
    choice: dict[str, Any] = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}
    if logprob is not None:
        top = [{"token": token, "logprob": value, "bytes": None} for token, value in (others or {}).items()]
        choice["logprobs"] = {"content": [{"token": text, "logprob": logprob, "bytes": None, "top_logprobs": top}]}
    body = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def stream(*pieces: str, finish: str = "stop", logprob: float | None = None) -> Response:
    body = b"".join(chunk(piece, logprob=logprob) for piece in pieces) + chunk(finish=finish) + b"data: [DONE]\n\n"
    return Response(body, content_type="text/event-stream")


def fault(status: int, message: str = "no") -> Response:
    return Response(json.dumps({"error": {"message": message}}), status=status, content_type="application/json")


def ask(text: str = "Hi", *images: Image.Image, **settings: Any) -> ChatRequest:
    return ChatRequest((ChatMessage("user", text, tuple(images)),), **settings)


def client(server: HTTPServer, **options: Any) -> OpenAIChat:
    return OpenAIChat("m", server.url_for("/v1"), api_key_env="TEST_KEY", **{"max_pause": 0.02, **options})


def script(server: HTTPServer, *responses: Response | Handler) -> list[dict[str, Any]]:
    """Answer with one response after the other, the last for ever; returns the request bodies as they come."""
    bodies: list[dict[str, Any]] = []

    def handle(request: Request) -> Response:
        bodies.append(json.loads(request.data))
        response = responses[min(len(bodies), len(responses)) - 1]
        return response if isinstance(response, Response) else response(request)

    server.expect_request(PATH, method="POST").respond_with_handler(handle)
    return bodies


def test_settings_reach_the_server_and_the_reply_comes_back(httpserver: HTTPServer) -> None:
    bodies = script(httpserver, stream("Hel", "lo ", logprob=-0.25))
    request = ask(max_tokens=9, temperature=0.5, seed=3, stop=("\n",), logprobs=True, schema={"type": "object"})
    reply = client(httpserver).chat([request])[0]
    assert (reply.text, reply.finish_reason, reply.logprobs) == ("Hello", "stop", (-0.25, -0.25))
    request_settings = {
        key: bodies[0][key] for key in ("model", "max_tokens", "temperature", "seed", "stop", "logprobs")
    }
    assert request_settings == {
        "model": "m",
        "max_tokens": 9,
        "temperature": 0.5,
        "seed": 3,
        "stop": ["\n"],
        "logprobs": True,
    }
    assert bodies[0]["response_format"]["json_schema"]["schema"] == {"type": "object"}


def test_replies_stand_in_the_order_of_the_requests(httpserver: HTTPServer) -> None:
    httpserver.expect_request(PATH).respond_with_handler(
        lambda request: stream("to " + json.loads(request.data)["messages"][0]["content"])
    )
    replies = client(httpserver, concurrency=3).chat([ask(str(i)) for i in range(10)])
    assert [reply.text for reply in replies] == [f"to {i}" for i in range(10)]


def test_images_go_as_small_jpeg_data_urls_before_the_text(httpserver: HTTPServer) -> None:
    bodies = script(httpserver, stream("ok"))
    client(httpserver, max_image_side=64).chat([ask("What?", Image.new("RGBA", (400, 100), "red"))])
    image, text = bodies[0]["messages"][0]["content"]
    head, data = image["image_url"]["url"].split(",")
    assert head == "data:image/jpeg;base64"
    jpeg = Image.open(io.BytesIO(base64.b64decode(data)))
    assert (jpeg.format, jpeg.size) == ("JPEG", (64, 28)), "servers with Qwen's tower fail on smaller sides"
    assert text == {"type": "text", "text": "What?"}


def test_a_server_without_schemas_is_asked_without_and_remembered(httpserver: HTTPServer) -> None:
    bodies = script(httpserver, fault(400, "response_format is not supported"), stream("{}"))
    chat = client(httpserver)
    assert [chat.chat([ask(schema={"type": "object"})])[0].text for _ in range(2)] == ["{}", "{}"]
    assert ["response_format" in body for body in bodies] == [True, False, False]


def whole(content: str) -> Response:
    body = {
        "id": "1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    }  # fmt: skip
    return Response(json.dumps(body), content_type="application/json")


def token(text: str, logprob: float | None = -0.5, *alternatives: float | None) -> dict[str, Any]:
    top = [{"token": text, "logprob": value} for value in alternatives]
    return {"token": text, "logprob": logprob, "top_logprobs": top}


def parse_whole(text: str, logprobs: Any, finish: str | None = "stop", **settings: Any) -> ChatReply:
    """The reply that is made of a completion in one piece."""
    streamed = StreamedReply(ask(logprobs=True, **settings))
    choice = {"message": {"content": text}, "finish_reason": finish, "logprobs": logprobs}
    streamed.take_whole({"choices": [choice]})
    return streamed.reply()


@pytest.mark.parametrize(
    ("text", "texts", "finish", "stop", "num_logprobs"),
    [
        ("Yes.", ["Yes", ".", "<|eot_id|>"], "stop", (), 2),  # vLLM's server has the end token
        ("Yes.", ["Yes", ".", "</s>"], "stop", (), 2),
        ("Yes.", ["Yes", ".", ""], "stop", (), 2),
        ("Yes.", ["Yes", "."], "stop", (), 2),
        ("a <b>", ["a", " ", "<b>"], "stop", (), 3),
        ("Yes \U0001f981", ["Yes ", "\ufffd", "\ufffd"], "stop", (), 3),
        ("Yes ", ["Yes", " ", ""], "length", (), 3),
        ("Yes\nUser: no", ["Yes", "\n", "User", ": no"], "stop", ("\n",), 2),  # a server that knows no stop strings
        ("Yes. END", ["Yes", ". E", "ND", " x"], "stop", ("END",), 3),
        (
            "<think>no</think><|begin_of_box|>yes.",
            ["<think>", "no", "</think>", "<|begin_of_box|>", "yes", "."],
            "stop",
            (),
            2,
        ),
    ],
)
def test_log_probabilities_are_those_of_the_tokens_that_engines_in_process_count(
    text: str, texts: list[str], finish: str, stop: tuple[str, ...], num_logprobs: int
) -> None:
    reply = parse_whole(text, {"content": [token(each) for each in texts]}, finish, stop=stop)
    assert reply.logprobs == (-0.5,) * num_logprobs


def test_the_first_token_of_a_reply_is_found_behind_thoughts_of_many_bytes() -> None:
    lion = "\U0001f981"
    texts = ["<think>", *["\ufffd"] * 4, "</think>", "\n\n", "Yes"]
    reply = parse_whole(f"<think>{lion}</think>\n\nYes", {"content": [token(each, -0.5, -0.5) for each in texts]})
    assert (reply.text, reply.logprobs, set(reply.first_token_probs or ())) == ("Yes", (-0.5,), {"Yes"})


@pytest.mark.parametrize(
    "logprobs",
    [[1], {"tokens": ["Yes"]}, {"content": None}, {"content": [token("Yes", None)]}, {"content": [{"token": "Yes"}]}],
)
def test_log_probabilities_of_another_form_cost_no_reply(logprobs: Any) -> None:
    assert (parse_whole("Yes", logprobs).text, parse_whole("Yes", logprobs).logprobs) == ("Yes", None)
    assert parse_whole("Yes", {"content": [token("Yes", -0.5, None)]}).logprobs == (-0.5,)


@pytest.mark.parametrize(
    ("ending", "finish"),
    [("abort", "abort"), ("error", "abort"), ("content_filter", "abort"), ("max_tokens", "length"), (None, "stop")],
)
def test_a_reply_that_was_cut_is_not_taken_for_whole(ending: str | None, finish: str) -> None:
    assert parse_whole("The tower is", None, ending).finish_reason == finish


@pytest.mark.parametrize("ending", ["abort", "error"])
def test_a_reply_that_the_server_gives_up_is_asked_for_again(httpserver: HTTPServer, ending: str) -> None:
    bodies = script(httpserver, stream("The tow", finish=ending), stream("330 m"))
    assert (client(httpserver).chat([ask()])[0].text, len(bodies)) == ("330 m", 2)


def test_an_error_of_null_is_none(httpserver: HTTPServer) -> None:
    body = {**json.loads(whole("yes").data), "error": None}
    bodies = script(httpserver, Response(json.dumps(body), content_type="application/json"))
    assert (client(httpserver).chat([ask()])[0].text, len(bodies)) == ("yes", 1)


def test_another_address_is_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    prints = [OpenAIChat("m").fingerprint, OpenAIChat("m", "http://a/v1").fingerprint]
    monkeypatch.setenv("OPENAI_BASE_URL", "http://a/v1")
    prints.append(OpenAIChat("m").fingerprint)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://b/v1")
    prints.append(OpenAIChat("m").fingerprint)
    assert prints[1] == prints[2] and len({*prints}) == 3


def test_an_exact_request_is_sent_to_the_letter_and_its_reply_left_as_it_is(httpserver: HTTPServer) -> None:
    bodies = script(httpserver, whole("yes\n"))
    request = ask(max_tokens=9, temperature=0.5, stop=("x",), exact={"top_p": 0.5})
    reply = client(httpserver).chat([request])[0]
    assert bodies == [{"model": "m", "messages": [{"role": "user", "content": "Hi"}], "top_p": 0.5}]
    assert (reply.text, reply.finish_reason, reply.usage) == ("yes\n", "stop", (12, 3))


def test_an_exact_request_drops_only_parameters_that_the_server_names(httpserver: HTTPServer) -> None:
    bodies = script(httpserver, fault(400, "this content is filtered"))
    reply = client(httpserver).chat([ask(exact={"response_format": {"type": "json_object"}})])[0]
    assert (reply.finish_reason, reply.no_answer, len(bodies)) == ("error", False, 1)


def busy(seconds: str, header: str = "Retry-After") -> Response:
    response = fault(429, "rate limit reached")
    response.headers[header] = seconds
    return response


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses that are asked for and not made."""
    durations: list[float] = []

    async def sleep(_: OpenAIChat, seconds: float) -> None:
        durations.append(seconds)

    monkeypatch.setattr(OpenAIChat, "_sleep", sleep)
    return durations


def test_the_pauses_that_a_server_asks_for_are_made_and_count_as_no_tries(
    httpserver: HTTPServer, pauses: list[float]
) -> None:
    script(httpserver, *[busy("7")] * 5, busy("250", "retry-after-ms"), stream("ok"))
    assert client(httpserver, attempts=2).chat([ask()])[0].text == "ok"
    assert pauses == [7.0] * 5 + [0.25]


def test_a_server_that_asks_for_more_than_may_be_waited_is_not_waited_for(
    httpserver: HTTPServer, pauses: list[float]
) -> None:
    bodies = script(httpserver, busy("20"), busy("20"), busy("30"))
    reply = client(httpserver, max_wait=45).chat([ask()])[0]
    assert reply.no_answer and "429: " in str(reply.error) and "beyond the 45 s of --max-wait" in str(reply.error)
    assert pauses == [20.0, 20.0] and len(bodies) == 3


def test_a_pause_beyond_the_deadline_is_not_begun(httpserver: HTTPServer, pauses: list[float]) -> None:
    script(httpserver, busy("30"))
    (reply,) = client(httpserver).chat([ask()], Deadline(20))
    assert (reply.finish_reason, pauses) == ("error", [])
    assert "asks to wait 30 s, longer than there is time for the answer" in str(reply.error)


def test_a_date_to_come_back_is_understood(httpserver: HTTPServer, pauses: list[float]) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    script(httpserver, busy(later), busy("soon"), stream("ok"))
    assert client(httpserver).chat([ask()])[0].text == "ok"
    assert 20 < pauses[0] <= 40 and pauses[1] <= 0.02


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-reset-requests": "2s"}, 2.0),
        (
            {
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-tokens": "12",
            },
            1.0,
        ),
        ({"x-ratelimit-reset-requests": "20ms", "x-ratelimit-reset-tokens": "3.5"}, 3.5),
        ({"x-ratelimit-reset-requests": "9s", "Retry-After": "4"}, 4.0),
    ],
)
def test_the_time_at_which_a_limit_is_reset_is_waited_for(
    httpserver: HTTPServer, pauses: list[float], headers: dict[str, str], seconds: float
) -> None:
    script(httpserver, Response("{}", status=429, content_type="application/json", headers=headers), stream("ok"))
    assert client(httpserver).chat([ask()])[0].text == "ok"
    assert pauses == [pytest.approx(seconds)]


def test_a_reset_may_be_a_time_since_1970_in_the_body(httpserver: HTTPServer, pauses: list[float]) -> None:
    reset = {"X-RateLimit-Reset": str(int((time.time() + 30) * 1000))}
    body = {"error": {"message": "Rate limit", "code": 429, "metadata": {"headers": reset}}}
    script(httpserver, Response(json.dumps(body), status=429, content_type="application/json"), stream("ok"))
    assert client(httpserver).chat([ask()])[0].text == "ok"
    assert 25 < pauses[0] <= 30


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "text/event-stream"])
def test_a_whole_reply_is_known_by_its_first_letter(httpserver: HTTPServer, kind: str) -> None:
    body = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"content": "Paris"}, "finish_reason": "stop"}],
    }
    script(httpserver, Response(f"\n {json.dumps(body)}", content_type=kind))
    assert client(httpserver).chat([ask()])[0].text == "Paris"


def test_a_stream_may_have_the_type_of_json(httpserver: HTTPServer) -> None:
    streamed = stream("Paris")
    script(httpserver, Response(streamed.data, content_type="application/json"))
    assert client(httpserver).chat([ask()])[0].text == "Paris"


@pytest.mark.parametrize("data", ['{"message": "out of memory", "code": 500}', "out of memory"])
def test_an_event_that_is_an_error_is_told_in_the_servers_words(httpserver: HTTPServer, data: str) -> None:
    script(httpserver, *[Response(f"event: error\ndata: {data}\n\n", content_type="text/event-stream")] * 2)
    (reply,) = client(httpserver, attempts=2).chat([ask()])
    assert reply.no_answer and "out of memory" in str(reply.error)


def test_a_try_is_given_up_in_its_own_time(httpserver: HTTPServer, hang: threading.Event) -> None:
    def wait(_: Request) -> Response:
        hang.wait(30)
        return stream("late")

    script(httpserver, wait, stream("ok"))
    assert client(httpserver, try_seconds=0.5).chat([ask()])[0].text == "ok"


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_passing_failure_is_tried_again(httpserver: HTTPServer, status: int) -> None:
    bodies = script(httpserver, fault(status), fault(status), stream("ok"))
    assert client(httpserver).chat([ask()])[0].text == "ok"
    assert len(bodies) == 3


def test_a_lasting_failure_ends_as_an_error_after_the_tries(httpserver: HTTPServer) -> None:
    bodies = script(httpserver, fault(500, "on fire"))
    reply = client(httpserver, attempts=3).chat([ask()])[0]
    assert (reply.text, reply.finish_reason) == ("", "error")
    assert "500" in (reply.error or "")
    assert len(bodies) == 3


def test_a_wrong_key_says_what_to_do_and_does_not_show_the_key(
    httpserver: HTTPServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    script(httpserver, fault(401, f"Incorrect API key provided: {KEY}"))
    chat = client(httpserver)
    with pytest.raises(ModelError, match="TEST_KEY") as caught:
        chat.chat([ask(), ask()])
    visible_text = f"{caught.value!r} {caught.value.__cause__!r} {chat!r} {caplog.text}"
    assert KEY not in visible_text
    assert caught.value.__suppress_context__


def test_the_deadline_keeps_what_has_come(httpserver: HTTPServer, hang: threading.Event) -> None:
    def slow(request: Request) -> Response:
        def body() -> Iterator[bytes]:
            yield chunk("Hel", logprob=-0.5)
            yield chunk("lo", logprob=-0.5)
            hang.wait(30)
            yield chunk(" world", finish="stop")

        return Response(body(), content_type="text/event-stream")

    script(httpserver, slow)
    started = time.monotonic()
    reply = client(httpserver).chat([ask(logprobs=True)], Deadline(2.0))[0]
    assert (reply.text, reply.finish_reason, reply.logprobs) == ("Hello", "abort", (-0.5, -0.5))
    assert time.monotonic() - started < 10


def test_a_server_that_trickles_is_left_with_what_has_come(httpserver: HTTPServer, hang: threading.Event) -> None:
    """No read ever times out: a word comes every hundredth of a second, and the last one never."""

    def trickle(request: Request) -> Response:
        def body() -> Iterator[bytes]:
            while not hang.wait(0.01):
                yield chunk("word ")

        return Response(body(), content_type="text/event-stream")

    script(httpserver, trickle)
    deadline = Deadline(1.0)
    reply = client(httpserver).chat([ask()], deadline)[0]
    assert deadline.left() > -SLACK
    assert reply.finish_reason == "abort" and set(reply.text.split()) == {"word"}


@pytest.mark.parametrize("where", ["the stream", "the end of the client", "a picture"])
def test_a_held_up_event_loop_holds_up_nobody_and_loses_nothing(
    httpserver: HTTPServer, hang: threading.Event, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Whatever holds up the loop, the call ends in time with what has come; another call has a loop of its own."""
    script(httpserver, stream("Hel", "lo", "!"))
    hold_event = threading.Event()

    def hold(*_: object, **__: object) -> None:
        hold_event.set()
        hang.wait(30)

    if where == "the stream":
        whole = StreamedReply.take

        def take(self: StreamedReply, choice: Mapping[str, Any]) -> None:
            whole(self, choice) if len(self.texts) < 2 else hold()

        monkeypatch.setattr(StreamedReply, "take", take)
    elif where == "the end of the client":

        async def close(self: openai.AsyncOpenAI) -> None:
            hold()

        monkeypatch.setattr(openai.AsyncOpenAI, "close", close)
    else:
        monkeypatch.setattr("agents.models.chat.openai_protocol.jpeg_data_url", hold)
    pictures = [Image.new("RGB", (8, 8))] * (where == "a picture")
    deadline = Deadline(1.5)
    reply = client(httpserver).chat([ask("Hi", *pictures)], deadline)[0]
    assert hold_event.is_set() and deadline.left() > -SLACK
    came = {"the stream": ("Hello", "abort"), "the end of the client": ("Hello!", "stop"), "a picture": ("", "abort")}
    assert (reply.text, reply.finish_reason) == came[where]
    monkeypatch.undo()
    monkeypatch.setenv("TEST_KEY", KEY)
    assert client(httpserver).chat([ask()], Deadline(30.0))[0].text == "Hello!"


def test_a_server_that_hangs_costs_its_request_alone(httpserver: HTTPServer, hang: threading.Event) -> None:
    def handle(request: Request) -> Response:
        if json.loads(request.data)["messages"][0]["content"] == "hang":
            hang.wait(30)
        return stream("ok")

    httpserver.expect_request(PATH).respond_with_handler(handle)
    hung, quick = client(httpserver).chat([ask("hang"), ask("quick")], Deadline(2.0))
    assert quick.text == "ok"
    assert (hung.text, hung.finish_reason) == ("", "abort")


@pytest.mark.parametrize("server", ["hangs", "streams", "is busy"])
def test_a_cancelled_call_ends_at_once_with_what_has_come(
    httpserver: HTTPServer, hang: threading.Event, server: str
) -> None:
    began = threading.Event()

    def handle(request: Request) -> Response:
        def body() -> Iterator[bytes]:
            yield chunk("word")
            began.set()
            hang.wait(30)

        if server == "streams":
            return Response(body(), content_type="text/event-stream")
        began.set()
        hang.wait(30 if server == "hangs" else 0)
        return fault(503)

    httpserver.expect_request(PATH).respond_with_handler(handle)
    call = Deadline(30.0)
    threading.Thread(target=lambda: began.wait(20) and (time.sleep(0.2), call.cancel()), daemon=True).start()
    started = time.monotonic()
    busy = {"attempts": 10_000, "first_wait": 20.0} if server == "is busy" else {}
    replies = client(httpserver, concurrency=1, **busy).chat([ask(), ask()], call.sooner(1.0))
    assert time.monotonic() - started < 10
    assert [reply.finish_reason for reply in replies] == ["abort"] * 2
    assert replies[0].text == ("word" if server == "streams" else "")


def test_retries_end_at_the_deadline(httpserver: HTTPServer) -> None:
    script(httpserver, fault(503))
    started = time.monotonic()
    reply = client(httpserver, attempts=10_000).chat([ask()], Deadline(0.4))[0]
    assert reply.finish_reason == "abort"
    assert time.monotonic() - started < 10


def test_after_the_deadline_the_server_is_left_alone(httpserver: HTTPServer) -> None:
    bodies = script(httpserver, stream("ok"))
    assert client(httpserver).chat([ask()], Deadline(-1.0))[0].finish_reason == "abort"
    assert bodies == []


def test_a_connection_dropped_midway_is_tried_again_from_the_start(httpserver: HTTPServer) -> None:
    cut = Response(chunk("Half of"), content_type="text/event-stream", headers={"Content-Length": "100000"})
    script(httpserver, cut, stream("Whole"))
    assert client(httpserver).chat([ask()])[0].text == "Whole"


def test_a_broken_image_costs_its_request_alone(httpserver: HTTPServer) -> None:
    script(httpserver, stream("ok"))
    broken, fine = client(httpserver).chat([ask("x", Image.new("RGB", (0, 5))), ask("y")])
    assert broken.finish_reason == "error"
    assert fine.text == "ok"


def test_the_opening_holds_the_alternatives_of_the_first_token_alone(httpserver: HTTPServer) -> None:
    first = chunk(
        "Yes", logprob=math.log(0.6), others={"Yes": math.log(0.6), " yes": math.log(0.1), "No": math.log(0.3)}
    )
    second = chunk(".", logprob=0.0, others={".": 0.0})
    body = first + second + chunk(finish="stop") + b"data: [DONE]\n\n"
    bodies = script(httpserver, Response(body, content_type="text/event-stream"))
    reply, plain = client(httpserver, concurrency=1).chat([ask(logprobs=True), ask()])
    assert reply.first_token_probs == pytest.approx({"Yes": 0.6, " yes": 0.1, "No": 0.3})
    assert plain.first_token_probs is None
    assert [body.get("top_logprobs") for body in bodies] == [FIRST_TOKEN_ALTERNATIVES, None]


def test_a_server_that_gives_no_alternatives_still_gives_log_probabilities(httpserver: HTTPServer) -> None:
    bodies = script(httpserver, fault(400, "top_logprobs is not supported"), stream("ok", logprob=-0.5))
    chat = client(httpserver)
    replies = [chat.chat([ask(logprobs=True)])[0] for _ in range(2)]
    assert [(reply.logprobs, reply.first_token_probs) for reply in replies] == [((-0.5,), None)] * 2
    assert ["top_logprobs" in body for body in bodies] == [True, False, False]
    assert all(body["logprobs"] for body in bodies)
