"""What a server can is found before the first question, in few requests and with the cure for each lack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from agents.base.box_forms import BoxForm
from agents.models.base import ModelError
from agents.models.chat.box_check import SCENES
from agents.models.chat.openai_chat import OpenAIChat
from agents.models.chat.openai_probe import Probe, probe
from agents.models.reply_cache import CachedReplies, ReplyStore
from tests.support.chat_server import refused, serve_chat
from tests.support.failing_server import FAILURES, Body, pieces, refuse, whole


def client(server: HTTPServer | str, model: str = "m", **options: Any) -> OpenAIChat:
    url = server if isinstance(server, str) else server.url_for("/v1")
    return OpenAIChat(model, url, api_key_env="TEST_KEY", **{"max_pause": 0.02, **options})


def run_probe(
    server: HTTPServer | str, *, sees: bool = True, thorough: bool = True, boxes: BoxForm = "none", **options: Any
) -> Probe:
    return probe(client(server, **options), sees=sees, thorough=thorough, boxes=boxes)


def index_findings(report: Probe) -> dict[str, tuple[bool | None, str]]:
    return {each.name: (each.can, each.detail) for each in report.findings}


def capable(body: Body) -> Any:
    """A model of today behind a server that can everything."""
    if "response_format" not in body:
        return pieces({"content": "1, 2, 3"}, finish="length")
    text = json.dumps({"colour": "yellow"})
    top = [{"token": token, "logprob": -0.1} for token in "ab"]
    content = [{"token": text, "logprob": -0.1, "top_logprobs": top}]
    return pieces({"content": text}, logprobs={"content": content})


def test_a_server_that_can_everything_is_asked_twice(httpserver: HTTPServer) -> None:
    bodies = serve_chat(httpserver, capable, ("m",))
    report = run_probe(httpserver)
    assert index_findings(report) == {
        "pictures": (True, "named a yellow picture yellow"),
        "schema": (True, "kept"),
        "log-probabilities": (True, "with 2 alternatives"),
        "streaming": (True, "taken"),
        "temperature": (True, "taken"),
        "limit of tokens": (True, "max_tokens"),
        "context": (None, "the server does not say"),
    }
    assert (
        report.requests == len(bodies) == 2
        and report.fault is None
        and report.summary.endswith("has all needed features")
    )
    assert max(body["max_tokens"] for body in bodies) <= 32 and len(json.dumps(bodies[0])) < 4000


def locate(body: Body, *, swapped: bool = False, scale: float = 1.0) -> Any:
    """A model that finds every disc that it is asked for, and gives its box in thousandths."""
    scene = next((scene for scene in SCENES if f"the {scene.colour} disc" in str(body["messages"])), None)
    if scene is None:
        return capable(body)
    sides = (*scene.size, *scene.size)
    left, top, right, bottom = (round(scale * 1000 * at / side) for at, side in zip(scene.box, sides, strict=True))
    return json.dumps({"box": [top, left, bottom, right] if swapped else [left, top, right, bottom]})


def test_boxes_are_checked_on_pictures_whose_boxes_are_known(httpserver: HTTPServer) -> None:
    bodies = serve_chat(httpserver, locate)
    report = run_probe(httpserver, thorough=False, boxes="xyxy-1000")
    can, detail = index_findings(report)["boxes"]
    assert can is True and detail.startswith(("0.99", "1.00")) and report.requests == len(bodies) == 1 + len(SCENES)
    assert client(httpserver).box_fault == "" and report.summary.endswith("has all needed features")
    assert "boxes" not in index_findings(run_probe(httpserver, thorough=False)), "off, nothing is asked"
    assert "boxes" not in index_findings(run_probe(httpserver, thorough=False, sees=False, boxes="pixels"))


@pytest.mark.parametrize("form", ["xyxy-1000", "pixels"])
def test_boxes_of_another_form_are_off_for_the_run_and_the_right_form_is_named(
    httpserver: HTTPServer, tmp_path: Path, form: BoxForm
) -> None:
    serve_chat(httpserver, lambda body: locate(body, swapped=True))
    report = run_probe(httpserver, thorough=False, boxes=form)
    (finding,) = [each for each in report.findings if each.name == "boxes"]
    assert finding.can is False and finding.detail.endswith("below 0.7: boxes are off") and report.fault is None
    assert finding.cure.startswith("--boxes yxyx-1000, or boxes in [models.chat]")
    assert client(httpserver).box_fault == finding.detail, "the model of the run knows it"
    assert CachedReplies(client(httpserver), ReplyStore(tmp_path)).box_fault == finding.detail
    assert run_probe(httpserver, boxes="yxyx-1000").findings and client(httpserver).box_fault == ""


@pytest.mark.parametrize("reply", ["no idea", '{"box": []}', "[1, 2]", '{"box": [0, 0, 60, 60]}'])
def test_boxes_that_are_wrong_in_every_form_are_off(httpserver: HTTPServer, reply: str) -> None:
    """So are those of a server that resizes photos in between, and of one that answers no such request."""
    serve_chat(httpserver, lambda body: capable(body) if "disc" not in str(body["messages"]) else reply)
    report = run_probe(httpserver, thorough=False, boxes="xyxy-1000")
    (finding,) = [each for each in report.findings if each.name == "boxes"]
    assert finding.detail.startswith("0.0") and "a detector finds the things" in finding.cure and report.fault is None


def test_boxes_off_by_a_tenth_are_off(httpserver: HTTPServer) -> None:
    serve_chat(httpserver, lambda body: locate(body, scale=0.88))
    assert index_findings(run_probe(httpserver, thorough=False, boxes="xyxy-1000"))["boxes"][0] is False


def test_at_the_start_one_request_is_made(httpserver: HTTPServer) -> None:
    bodies = serve_chat(httpserver, capable)
    assert run_probe(httpserver, thorough=False).requests == len(bodies) == 1


@pytest.mark.parametrize("way", ["blind", "blind, by llama.cpp", "blind, by a router"])
def test_a_blind_model_under_a_profile_that_sees_is_refused_with_the_cure(httpserver: HTTPServer, way: str) -> None:
    serve_chat(httpserver, FAILURES[way])
    report = run_probe(httpserver, thorough=False)
    assert index_findings(report)["pictures"][0] is False
    assert "the model takes no picture" in str(report.fault) and "choose a model that sees" in str(report.fault)
    assert run_probe(httpserver, thorough=False, sees=False).fault is None


@pytest.mark.parametrize("guess", ["red", "blue", "white"])
def test_a_server_that_ignores_pictures_is_refused_after_a_second_one(httpserver: HTTPServer, guess: str) -> None:
    """Whichever colour a blind model names each time, the second picture has another one."""
    bodies = serve_chat(httpserver, lambda _: json.dumps({"colour": guess}))
    report = run_probe(httpserver, thorough=False)
    detail = f"named a yellow picture {guess} and a "
    assert index_findings(report)["pictures"][0] is False and index_findings(report)["pictures"][1].startswith(detail)
    assert f"{detail}" in str(report.fault) and "choose a model that sees" in str(report.fault)
    assert index_findings(report)["log-probabilities"] == (False, "accepted and not given")
    assert f"lacks pictures ({detail}" in report.summary and report.lacks
    assert len(bodies) == report.requests == 2 and bodies[0]["messages"] != bodies[1]["messages"]
    assert run_probe(httpserver, thorough=False, sees=False).fault is None


def test_a_model_that_errs_once_in_a_colour_sees(httpserver: HTTPServer) -> None:
    colours = iter(["green", "red", "blue"])
    serve_chat(httpserver, lambda _: json.dumps({"colour": next(colours)}))
    report = run_probe(httpserver, thorough=False)
    assert report.fault is None
    assert index_findings(report)["pictures"] == (True, "named a yellow picture green and a red picture red")


def test_a_model_that_names_no_colour_is_told_and_not_refused(httpserver: HTTPServer) -> None:
    bodies = serve_chat(httpserver, lambda _: "330 m")
    report = run_probe(httpserver, thorough=False)
    assert index_findings(report)["pictures"] == (False, "named no colour of a yellow picture") and report.fault is None
    assert len(bodies) == 1


@pytest.mark.parametrize("way", ["thinks on", "thinks in tags", "thinks unseen", "thinks, by a refusal"])
def test_a_reply_that_ends_in_thoughts_is_reported_with_a_sufficient_budget(httpserver: HTTPServer, way: str) -> None:
    def say(body: Body) -> Any:
        message = {"content": '{"colour": "yellow"}'}
        if body["max_tokens"] < 1000:
            return FAILURES[way](body)
        return pieces(message) if body.get("stream") else whole(message)

    serve_chat(httpserver, say)
    report = run_probe(httpserver)
    assert "give it tokens for them with --reasoning-tokens 2048" in str(report.fault)
    assert index_findings(report)["pictures"][0] is True, "the rest of the table is there all the same"
    assert index_findings(report)["limit of tokens"] == (True, "max_tokens")
    thinking_report = run_probe(httpserver, reasoning_tokens=2048)
    assert thinking_report.fault is None


def test_a_model_that_never_ends_its_thoughts_is_asked_no_more(httpserver: HTTPServer) -> None:
    bodies = serve_chat(httpserver, FAILURES["thinks on"])
    report = run_probe(httpserver, thorough=False)
    assert [each.name for each in report.findings] == ["thoughts"] and len(bodies) == report.requests == 2
    assert "2048 more are not enough: give it tokens for them with --reasoning-tokens 8192" in str(report.fault)


def test_a_blind_model_that_reasons_is_told_apart_from_a_silent_one(httpserver: HTTPServer) -> None:
    def say(body: Body) -> Any:
        if body["max_tokens"] < 1000:
            return FAILURES["thinks on"](body)
        return FAILURES["blind"](body)

    serve_chat(httpserver, say)
    report = run_probe(httpserver, thorough=False)
    assert "the model takes no picture" in str(report.fault) and "plain question" not in str(report.fault)


def test_what_is_refused_is_told_and_remembered(httpserver: HTTPServer) -> None:
    names = ("temperature", "logprobs", "response_format", "stream")
    bodies = serve_chat(httpserver, refuse(*names, max_tokens="max_completion_tokens"))
    report = run_probe(httpserver)
    assert {name for name, (can, _) in index_findings(report).items() if can is False} >= {
        "schema", "log-probabilities", "streaming", "temperature"
    }  # fmt: skip
    assert report.requests == len(bodies) == 7
    assert all(each.cure for each in report.findings if each.can is False)
    assert run_probe(httpserver, thorough=False).requests == 1, "the next client of the run knows it"


def test_a_limit_that_is_ignored_is_seen(httpserver: HTTPServer) -> None:
    serve_chat(httpserver, lambda body: "1, 2, 3, " * 9 if "response_format" not in body else '{"colour": "yellow"}')
    assert index_findings(run_probe(httpserver))["limit of tokens"] == (False, "max_tokens is ignored")


def test_the_context_that_a_server_tells_is_shown(httpserver: HTTPServer) -> None:
    listed = {
        "object": "list",
        "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "x", "max_model_len": 16384}],
    }
    httpserver.expect_request("/v1/models", method="GET").respond_with_json(listed)
    serve_chat(httpserver, capable)
    assert index_findings(run_probe(httpserver))["context"] == (True, "16384 tokens")


def test_what_a_model_was_trained_for_is_not_taken_for_the_context(httpserver: HTTPServer) -> None:
    model = {"id": "m", "object": "model", "created": 1, "owned_by": "x", "meta": {"n_ctx_train": 131072}}
    httpserver.expect_request("/v1/models", method="GET").respond_with_json({"object": "list", "data": [model]})
    serve_chat(httpserver, capable)
    can, detail = index_findings(run_probe(httpserver))["context"]
    assert can is None and "trained for 131072 tokens" in detail


def test_a_model_that_refuses_a_plain_question_is_told(httpserver: HTTPServer) -> None:
    serve_chat(httpserver, lambda _: refused(400, "no chat template"))
    fault = run_probe(httpserver, thorough=False).fault
    assert "none to a plain question (The server refuses the request: " in str(fault) and "no chat template" in str(
        fault
    )


def test_a_model_whose_replies_are_thoughts_is_refused_with_the_cure(httpserver: HTTPServer) -> None:
    serve_chat(httpserver, FAILURES["thinks alone"])
    assert str(run_probe(httpserver, thorough=False).fault).endswith(
        "none to a plain question (the reply is thoughts alone): turn thoughts off, or the reasoning parser of the server"
    )


def test_a_model_that_the_server_lacks_is_told_with_those_it_has(httpserver: HTTPServer) -> None:
    serve_chat(httpserver, lambda _: refused(404, "no such model"), ("qwen3-vl", "llava"))
    with pytest.raises(ModelError, match=r"has no model 'm'; it has: qwen3-vl, llava; choose one with --model-name"):
        run_probe(httpserver)


def test_a_model_that_the_list_has_under_geminis_spelling_is_not_said_to_lack(httpserver: HTTPServer) -> None:
    serve_chat(httpserver, lambda _: refused(404, "no such path"), ("models/m",))
    with pytest.raises(ModelError, match=r"is not the root of its API .* It says \(404\): no such path"):
        run_probe(httpserver)


def test_a_server_that_is_not_there_is_told_with_its_cure() -> None:
    with HTTPServer() as closed_server:
        url = closed_server.url_for("/v1")
    with pytest.raises(
        ModelError,
        match=f"no model answers at {url}: .*Connection refused; start the server. Mend that, or name another server with --base-url",
    ):
        run_probe(url)


def test_openais_own_server_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("TEST_KEY", raising=False)
    with pytest.raises(
        ModelError, match="gpt-4o needs a key: set TEST_KEY, or name a server of your own with --base-url"
    ):
        probe(OpenAIChat("gpt-4o", api_key_env="TEST_KEY"), sees=True)
