"""Runs against a real server of the protocol that is not there, lacks the model, or dies on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from rich.console import Console

from agents.profiles.profile import Profile
from agents.profiles.reach import unreachable
from evaluation.run import command
from tests.evaluation.worlds import picture, row, stay_offline, write_dataset
from tests.support.chat_server import refused, serve_chat
from tests.support.failing_server import FAILURES

SESSIONS = 6
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a preset without searches over six questions, a question a call; returns the status and what was printed."""
    stay_offline(monkeypatch)
    rows = [row(f"s{number}", 1, "v0.1.2", picture(), None) for number in range(SESSIONS)]
    write_dataset(tmp_path, rows, "v0.1.2")

    def run_preset(*more: str) -> tuple[int, str]:
        options = f"--preset vlm_only --profile server --dataset {tmp_path} --dataset-type multi-turn".split()
        options += ["--set", "limits.batch_size=1"]
        options += ["--suppress-web-search-api", "--suppress-image-search-api", "--no-progress", "--no-report"]
        places = ["--cache", str(tmp_path / "cache"), "--output-dir", str(tmp_path / "out")]
        console = Console(record=True, width=1000, quiet=False)
        return command.main([*options, *places, *more], console), console.export_text()

    return run_preset


def answers(folder: Path) -> list[dict[str, Any]]:
    path = folder / "out" / "response.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def test_a_missing_server_key_or_model_is_reported_before_the_first_question(
    run: Run, tmp_path: Path, httpserver: HTTPServer
) -> None:
    with HTTPServer() as dead_server:
        nowhere = dead_server.url_for("/v1")
    serve_chat(httpserver, lambda _: refused(404, "no such model"), ("qwen3-vl",))
    there = ("--base-url", httpserver.url_for("/v1"))
    for more, cure in (
        ((), "gpt-4o-mini needs a key: set OPENAI_API_KEY"),
        (
            ("--base-url", nowhere),
            f"no model answers at {nowhere}: The connection failed: Connection refused; start the server",
        ),
        (there, "it has: qwen3-vl; choose one with --model-name"),
    ):
        status, output = run(*more)
        (error,) = [line for line in output.splitlines() if line.startswith("error: ")]
        assert status == 2 and cure in error
        assert "[models." not in error, "the chat model is named by the command"
        assert answers(tmp_path) == [] and "truthfulness" not in output.lower()


def test_a_key_that_another_role_lacks_is_reported_with_the_role(monkeypatch: pytest.MonkeyPatch) -> None:
    stay_offline(monkeypatch)
    server = {"kind": "openai", "model": "small-1"}
    profile = Profile(name="mine", models={"chat": {"kind": "mine:Vlm"}, "small_chat": server})
    message = unreachable(profile, ("small_chat", "chat"), (), (), servers=True) or ""
    assert message.startswith("small-1 needs a key")
    assert message.endswith("this preset asks it as small_chat: [models.small_chat] of the profile names another")


def test_a_run_whose_server_dies_stops_and_resume_goes_on(run: Run, tmp_path: Path, httpserver: HTTPServer) -> None:
    def say(_: Any) -> Any:
        return refused(500, "out of memory") if len(requests) > 2 else "a lion"

    requests = serve_chat(httpserver, say)
    server = ("--base-url", httpserver.url_for("/v1"), "--model-name", "own", "--no-probe")
    status, output = run(*server, "--max-failures", "2")
    assert status == 2
    assert "the last 2 calls of the agent failed on every turn" in output and "out of memory" in output
    assert [answer["agent_response"] for answer in answers(tmp_path)] == ["a lion"] * 2
    httpserver.clear()
    again = serve_chat(httpserver, lambda _: "a lion")
    status, output = run(*server, "--resume")
    assert status == 0
    assert [answer["agent_response"] for answer in answers(tmp_path)] == ["a lion"] * SESSIONS
    assert len(again) == SESSIONS - 2, "nothing is asked twice, and nothing before the first question"
    assert {body["model"] for body in again} == {"own"}
    with HTTPServer() as dead_server:
        nowhere = dead_server.url_for("/v1")
    status, output = run("--base-url", nowhere, "--model-name", "own", "--resume")
    assert status == 0, "nothing is left to ask, only to judge"


@pytest.mark.parametrize(
    ("way", "words"),
    [("thinks alone", "thoughts alone"), ("calls a tool", "calls a tool"), ("says nothing", "is empty")],
)
def test_a_run_whose_model_never_answers_stops(run: Run, httpserver: HTTPServer, way: str, words: str) -> None:
    serve_chat(httpserver, FAILURES[way])
    server = ("--base-url", httpserver.url_for("/v1"), "--model-name", "own", "--no-probe")
    status, output = run(*server)
    assert status == 2 and "the last 3 calls of the agent failed on every turn" in output and words in output
    status, output = run(*server, "--max-failures", "0", "--resume")
    assert status == 1 and words in output, "all turns are errors"
