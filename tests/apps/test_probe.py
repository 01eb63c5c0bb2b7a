"""``crag probe`` against servers that are there: its table, its JSON and its exit status."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from rich.console import Console

from agents.models.chat.openai_probe import Finding, Probe
from apps import crag
from apps.probe import show
from tests.support.chat_server import serve_chat
from tests.support.failing_server import FAILURES


def run(server: HTTPServer, *more: str) -> int:
    return crag.main(["probe", "--base-url", server.url_for("/v1"), "--model-name", "own", *more])


def test_the_table_says_what_the_model_can_and_the_cure(
    httpserver: HTTPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies = serve_chat(httpserver, lambda _: '{"colour": "yellow"}')
    assert run(httpserver) == 0
    stdout = " ".join(capsys.readouterr().out.split())
    assert "own at http" in stdout and "pictures │ yes │ named a yellow picture yellow" in stdout
    assert "log-probabilities │ no │ accepted and not given" in stdout and "2 requests" in stdout
    assert {body["model"] for body in bodies} == {"own"}


@pytest.mark.parametrize("text", ["[/INST] no colour", "[bold]red[/bold] [[x]", "[link=a]"])
def test_words_of_a_server_are_shown_as_they_are(text: str) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    findings = [Finding("pictures", False, text, text), Finding(text, None, "x")]
    show(Probe(f"own{text}", "http://a/v1", tuple(findings), 2, 0.1), console)
    assert console.export_text().count(text) == 4


def test_a_model_that_the_profile_cannot_use_is_status_1(
    httpserver: HTTPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    serve_chat(httpserver, FAILURES["blind"])
    assert run(httpserver, "--json") == 1
    fields = json.loads(capsys.readouterr().out)
    assert "choose a model that sees" in fields["fault"] and fields["findings"][0]["can"] is False


def test_no_server_or_a_profile_without_one_is_one_line_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with HTTPServer() as closed_server:
        assert run(closed_server, "--max-retries", "0") == 2
        assert capsys.readouterr().err.startswith("error: no model answers at")
    assert crag.main(["probe", "--profile", "embedded"]) == 2
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1 and "is behind no server: take --profile server or server_embedded" in stderr


def test_options_of_the_server_need_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert crag.main(["probe", "--profile", "embedded", "--max-wait", "5"]) == 2
    assert "no model behind a server, which --max-wait would change" in capsys.readouterr().err


def test_a_blind_model_is_refused_before_the_first_question_and_the_probe_may_be_left_out(
    httpserver: HTTPServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from agents.profiles.reach import unreachable
    from agents.settings.run_config import RunConfig

    bodies = serve_chat(httpserver, FAILURES["blind"])
    config = RunConfig.of_profile("server_embedded", chat_model="own", base_url=httpserver.url_for("/v1"))
    message = str(unreachable(config.profile, ["small_chat", "chat"], [], [], servers=True))
    assert "the model takes no picture" in message and "--no-probe" in message and "\n" not in message
    assert len(bodies) == 2, "with the picture, and without"
    assert unreachable(config.profile, ["chat"], [], [], servers=False) is None and len(bodies) == 2
