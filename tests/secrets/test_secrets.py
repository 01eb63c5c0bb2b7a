"""The key is in no log, trace, result or message, whoever repeats it; traces can leave out what users asked and showed."""

from __future__ import annotations

import io
import json
import logging
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pytest_httpserver import HTTPServer
from werkzeug import Response

from agents.base import secrets
from agents.base.secrets import keep_out_of_logs, remember, scrub
from agents.crag_agent import CragAgent
from agents.models.base import ChatMessage, ChatRequest, ModelError
from agents.models.chat.openai_chat import OpenAIChat
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import PRESETS, Profile, names
from agents.runner.pipeline import Pipeline
from agents.runner.trace import TraceWriter
from agents.settings.presets import TraceSettings, load_settings
from agents.stage import Context, Stage
from agents.turn import IDK, Turn
from evaluation.files.manifest import read_manifest, write_manifest
from evaluation.judge.openai_judge import OpenAIJudge
from evaluation.records import JudgeError, JudgeItem
from evaluation.run.generate import generate
from tests.agent.scripted import context, turn
from tests.evaluation.worlds import PLAIN, OneColour, ScriptedAgent, sessions
from tests.support.scripted_parts import ANSWER, Search, ready

KEY = "k3y-0123456789-abcdefghij"
PASSWORD = "pa55w0rd-zyxwvu"
PATH = "/v1/chat/completions"
REQUEST = ChatRequest((ChatMessage("user", "What is it?"),), max_tokens=8)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(secrets, "_told", set())


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(threaded=True) as server:
        yield server


def refuse(server: HTTPServer, status: int) -> None:
    """A server that repeats the key, and the header that it came in, in its complaint."""
    body = {
        "error": {
            "message": f"Incorrect API key provided: {KEY}. Authorization: Bearer {KEY}",
            "type": "t",
            "code": None,
        }
    }
    server.expect_request(PATH, method="POST").respond_with_handler(
        lambda _: Response(json.dumps(body), status, {"x-echo": KEY}, content_type="application/json")
    )


def with_password(server: HTTPServer) -> str:
    return server.url_for("/v1").replace("://", f"://user:{PASSWORD}@")


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """All that any library logs, down to the least."""
    before = logging.getLogRecordFactory()
    keep_out_of_logs()
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    level = root.level
    names = ("openai", "httpx", "httpcore", "asyncio")
    levels = {name: logging.getLogger(name).level for name in names}
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    for name in names:
        logging.getLogger(name).setLevel(logging.DEBUG)
    yield text
    root.removeHandler(handler)
    root.setLevel(level)
    for name, earlier in levels.items():
        logging.getLogger(name).setLevel(earlier)
    logging.setLogRecordFactory(before)


def holds_no_secret(text: str) -> None:
    for secret in (KEY, KEY[:10], PASSWORD):
        assert secret not in text


SCRUBBED = {
    "environment": (f"key {KEY}!", "key ***!"),
    "bearer": ("Authorization: Bearer abcdefghijkl0", "Authorization: Bearer ***"),
    "no digit": ("Authorization: Bearer sk-abcdefghijklmnop", "Authorization: Bearer ***"),
    "short": ("{'authorization': 'Bearer abc'}", "{'authorization': 'Bearer ***'}"),
    "bytes": ("(b'Authorization', b'Bearer abcdefgh')", "(b'Authorization', b'Bearer ***')"),
    "header in JSON": ('"{\\"Authorization\\": \\"Bearer abcdefgh\\"}"', '"{\\"Authorization\\": \\"Bearer ***\\"}"'),
    "other characters": ("Bearer abcdefgh:12345678, Bearer 12|abcdefgh", "Bearer ***, Bearer ***"),
    "capitals": ("bearer hf_AbCdEfGhIjKlMnOp", "bearer ***"),
    "url": ("http://me:pw@host.example/v1?x=a@b", "http://***@host.example/v1?x=a@b"),
    "no password": ("http://host.example/a@b and me@host.example", "http://host.example/a@b and me@host.example"),
    "bearer in JSON": ('{"message": "sent \\"Bearer abcdefghijkl0\\""}', '{"message": "sent \\"Bearer ***\\""}'),
    "no key": ("the bearer of good news", "the bearer of good news"),
    "words": (
        "Flag bearer Olympics, standard bearer Aleksandr-Iwanowitsch",
        "Flag bearer Olympics, standard bearer Aleksandr-Iwanowitsch",
    ),
    "years and names": (
        "the flag bearer 1988-1992 winner, bearer McLaughlin, bearer Christian[12]",
        "the flag bearer 1988-1992 winner, bearer McLaughlin, bearer Christian[12]",
    ),
    "plain": ("tall-tower-0123456789", "tall-tower-0123456789"),
}


@pytest.mark.parametrize("name", SCRUBBED)
def test_scrubbed(name: str) -> None:
    text, plain = SCRUBBED[name]
    assert scrub(text) == plain


def test_keys_of_any_name_are_known_once_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVER", "some-value-0123")
    assert scrub("some-value-0123") == "some-value-0123"
    OpenAIChat("m", "http://127.0.0.1:9/v1", api_key_env="MY_SERVER", attempts=1).chat([REQUEST])
    assert scrub("some-value-0123") == "***"
    remember("none")
    assert scrub("none of them") == "none of them"


def test_a_key_that_begins_like_another_is_taken_out_whole() -> None:
    remember(KEY + "-more")
    assert scrub(KEY + "-more") == "***"


def test_logs_hold_no_key(server: HTTPServer, logged: io.StringIO) -> None:
    refuse(server, 401)
    with pytest.raises(ModelError) as caught:
        OpenAIChat("m", with_password(server)).chat([REQUEST])
    server.clear()
    refuse(server, 500)
    failed = OpenAIChat("m", with_password(server), attempts=2, max_pause=0.01).chat([REQUEST])
    try:
        try:
            raise ValueError(f"inner {KEY}")
        except ValueError as inner:
            raise RuntimeError("outer") from inner
    except RuntimeError:
        logging.getLogger("agents").exception("failed with %s", KEY)
    log_text = logged.getvalue()
    assert "httpx" in log_text and "openai" in log_text  # they were asked to tell all
    assert "inner ***" in log_text and "failed with ***" in log_text
    holds_no_secret(log_text)
    holds_no_secret("".join(traceback.format_exception(caught.value)) + repr(failed))


def test_log_records_without_a_key_stay_as_they_are(logged: io.StringIO) -> None:
    log = logging.getLogger("agents")
    log.warning("%d of %s", 3, "many")
    log.warning("100%")
    assert logged.getvalue().endswith("agents WARNING 3 of many\nagents WARNING 100%\n")
    keep_out_of_logs()  # again: no second layer
    assert logging.getLogRecordFactory()._before is not None  # type: ignore[attr-defined]
    assert not isinstance(logging.getLogRecordFactory()._before, secrets._Factory)  # type: ignore[attr-defined]


def test_judges_hold_no_key(server: HTTPServer, logged: io.StringIO, tmp_path: Path) -> None:
    judge = OpenAIJudge("m", base_url=with_password(server), cache=tmp_path, first_pause=0.0)
    item = JudgeItem("How tall is it?", "It is 330 m tall.", "330 metres")
    for status in (401, 403, 404):
        server.clear()
        refuse(server, status)
        with pytest.raises(JudgeError) as caught:
            judge.judge(item)
        holds_no_secret("".join(traceback.format_exception(caught.value)))
    for status in (500, 400):
        server.clear()
        refuse(server, status)
        assert judge.judge(item).failed
        holds_no_secret(judge.judge(item).reason)
    judge = OpenAIJudge(
        "m", base_url=with_password(server), cache=tmp_path, first_pause=0.0
    )  # the other gave the server up
    server.clear()
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": '{"accuracy": true}'}}
    server.expect_request(PATH).respond_with_json(
        {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    )
    assert judge.judge(item).correct
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        holds_no_secret(path.read_bytes().decode(errors="replace") + path.name)
    holds_no_secret(logged.getvalue() + judge.name)


def test_an_agent_whose_server_repeats_the_key(server: HTTPServer, logged: io.StringIO, tmp_path: Path) -> None:
    refuse(server, 401)
    models = ready(chat=OpenAIChat("m", with_password(server)))
    agent = CragAgent(
        Search(),
        settings=load_settings("vlm_only", "server"),
        models=ModelSet(Profile(name="x", models={}), tmp_path, ready=models),
        trace_path=tmp_path / "trace.jsonl",
    )
    assert agent.batch_generate_response(["What is it?"], [Image.new("RGB", (64, 64))], [[]]) == [IDK]
    trace = (tmp_path / "trace.jsonl").read_text()
    assert "refuses the key" in trace
    holds_no_secret(trace + logged.getvalue())


def test_an_error_is_scrubbed_before_it_is_cut() -> None:
    class Loud(Stage):
        name = "loud"

        def run(self, turns: Any, context: Context) -> None:
            raise RuntimeError("x" * 475 + KEY)

    dialog_turn = turn("What?")
    parts = context(load_settings("vlm_only", "gpu"))
    Pipeline(parts.settings, parts.models, parts.search, parts.prompts, stages=[Loud()]).run([dialog_turn])
    holds_no_secret(repr(dialog_turn.records) + str(dialog_turn.error))


def test_traces_are_scrubbed_before_they_are_cut(tmp_path: Path) -> None:
    dialog_turn = Turn(query="What?", image=None)
    dialog_turn.note(reply="x" * 1_990 + KEY, other={"deep": [KEY]}, path=Path(KEY))
    dialog_turn.close_stage("draft", 0.1)
    TraceWriter(tmp_path / "trace.jsonl").write([dialog_turn], 0.1)
    holds_no_secret((tmp_path / "trace.jsonl").read_text())


def test_run_logs_and_manifests_hold_no_key(tmp_path: Path, logged: io.StringIO) -> None:
    def fail(query: str, history: object) -> str:
        raise RuntimeError(f"refused: {KEY}")

    about = {"preset": "best", "set": f"x={KEY}", "base_url": f"http://u:{PASSWORD}@h.example"}
    write_manifest(tmp_path, about, resume=False)
    write_manifest(tmp_path, about, resume=True)  # what was scrubbed is the same run still
    generate(ScriptedAgent(fail), sessions([1]), OneColour(), PLAIN, tmp_path, progress=False)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"run.json", "run_log.jsonl", "response.jsonl"}
    for path in files:
        holds_no_secret(path.read_text())
    assert "refused: ***" in (tmp_path / "run_log.jsonl").read_text()
    holds_no_secret(logged.getvalue())


QUOTING_TEXTS = [
    '"The Standard Bearer Company" of 1920',
    '"The bearer 1920-21"',
    "bearer Michael\nof the games",
    f'"Bearer {KEY}"',
]
"""Texts that are no JSON any more if keys are taken out of the JSON around them."""


@pytest.mark.parametrize("text", QUOTING_TEXTS)
def test_a_text_with_bearer_is_a_readable_record(tmp_path: Path, text: str) -> None:
    batches: list[list[dict[str, Any]]] = []
    writer = TraceWriter(tmp_path / "trace.jsonl", listen=batches.append, listen_whole=batches.append)
    dialog_turn = Turn(query=text, image=None)
    dialog_turn.note(**{f"checks of {KEY}": {KEY: text}})
    dialog_turn.close_stage("draft", 0.1)
    writer.write([dialog_turn], 0.1)
    [line] = (tmp_path / "trace.jsonl").read_text().splitlines()
    holds_no_secret(line)
    assert batches == [[json.loads(line)]] * 2
    assert batches[0][0]["query"] == scrub(text)


@pytest.mark.parametrize("text", QUOTING_TEXTS)
def test_a_setting_with_bearer_is_a_readable_manifest(tmp_path: Path, text: str) -> None:
    write_manifest(tmp_path, {"agent": text, "set": [{KEY: KEY}]}, resume=False)
    assert read_manifest(tmp_path) == {"agent": scrub(text), "set": [{"***": "***"}]}


def write_trace(tmp_path: Path, trace: TraceSettings, preset: str = "best") -> tuple[str, list[dict[str, Any]]]:
    """The trace of a turn whose question, picture and search results hold words that stand nowhere else."""
    settings = load_settings(preset, "embedded")
    settings = settings.model_copy(update={"trace": trace})
    models = ModelSet(Profile(name="x", models={}), tmp_path, ready=ready())
    agent = CragAgent(Search(), settings=settings, models=models, trace_path=tmp_path / "trace.jsonl")
    query = "How high is the Zarquon?"
    agent.batch_generate_response([query], [Image.new("RGB", (160, 128), "gray")], [[]])
    text = (tmp_path / "trace.jsonl").read_text()
    return text, [json.loads(line) for line in text.splitlines()]


def test_traces_hold_questions_and_pictures_by_default(tmp_path: Path) -> None:
    text, _ = write_trace(tmp_path, TraceSettings())
    assert "Zarquon" in text
    assert "Eiffel Tower" in text


@pytest.mark.parametrize("preset", names(PRESETS))
def test_traces_can_leave_out_the_questions(tmp_path: Path, preset: str) -> None:
    text, records = write_trace(tmp_path, TraceSettings(queries=False), preset)
    untimed = re.sub(r'"(seconds|began)": [\d.e-]+', "", text)  # a stage may take 0.00330 s
    for word in ("Zarquon", ANSWER, "Eiffel", "EIFFEL", "330", "https://"):
        assert word not in untimed
    assert records[0]["stages"][0]["stage"] == load_settings(preset, "embedded").stages[0]
    assert all("seconds" in entry for entry in records[0]["stages"])


@pytest.mark.parametrize("preset", names(PRESETS))
def test_traces_can_leave_out_the_pictures(tmp_path: Path, preset: str) -> None:
    _, records = write_trace(tmp_path, TraceSettings(images=False), preset)
    assert records[0]["query"] == "How high is the Zarquon?"
    stages = json.dumps(records[0]["stages"])
    for word in ("Eiffel", "EIFFEL", "i.example", "tower"):
        assert word not in stages
    keys = {key for entry in records[0]["stages"] for key in entry}
    assert keys.isdisjoint({"hits", "boxes", "entity", "entities"})
