"""Turns as spans at a real collector over HTTP: the tree of a turn, what leaves the machine, and collectors that are gone."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from agents.crag_agent import CragAgent
from agents.record import (
    BatchCall,
    Decision,
    EvidenceFound,
    Exchange,
    SentMessage,
    Signal,
    StageRecord,
    TurnRecord,
    Unanswered,
)
from agents.runner.otlp import OtlpError, OtlpSender, make_endpoint, open_sender
from agents.settings.run_config import RunConfig
from apps.answering import Answerer, AnswererOptions, Question, start
from apps.serve import ServeOptions
from apps.serving.app import Server, ServerLimits
from evaluation.records import EvaluationError
from evaluation.run import launching
from evaluation.run.options import parse
from tests.apps.conftest import PHOTO, crag_agent, data_url, listening, make_message

try:
    import openinference.semconv.trace
    import opentelemetry.exporter.otlp.proto.http.trace_exporter  # noqa: F401
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
except ImportError:
    openinference = None  # type: ignore[assignment]

needs_exporter = pytest.mark.skipif(openinference is None, reason="pip install -r requirements/dev.txt")

TEXTS = ("How tall", "300 m", "Red Tower", "red-tower", "i.example", "opened in 1901", "1901", "height")
"""Pieces of the question, the answer, the entity and the evidence of ``conftest.red_tower``."""


class Collector:
    """A collector on a free port: keeps what is posted; ``open`` lets replies through, ``status`` is theirs."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.open, self.came, self.accepted = threading.Event(), threading.Event(), threading.Event()
        self.open.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body, status = self.rfile.read(int(self.headers["Content-Length"])), outer.status
                outer.came.set()
                assert outer.open.wait(60)
                if status == 200:
                    outer.bodies.append(body)
                    outer.paths.append(self.path)
                    outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                if status == 200:
                    outer.accepted.set()

            def log_message(self, *_: Any) -> None:
                """Keep quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.open.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def spans(self) -> list[Any]:
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def resource(self) -> dict[str, Any]:
        request = ExportTraceServiceRequest.FromString(self.bodies[0])
        return values(request.resource_spans[0].resource.attributes)


def values(attributes: Any) -> dict[str, Any]:
    """Attributes of a span as plain values."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


def tree(spans: list[Any]) -> dict[str, Any]:
    """The kinds of spans by their path of names, for the spans of one trace."""
    by_id = {span.span_id: span for span in spans}

    def path(span: Any) -> str:
        above = by_id.get(span.parent_span_id)
        return span.name if above is None else f"{path(above)}/{span.name}"

    return {path(span): values(span.attributes)["openinference.span.kind"] for span in spans}


@pytest.fixture
def collector() -> Iterator[Collector]:
    otlp_collector = Collector()
    yield otlp_collector
    otlp_collector.close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Send spans as soon as there are any; leave the logger of the library as it was."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    level = logging.getLogger("opentelemetry").level
    yield
    logging.getLogger("opentelemetry").setLevel(level)


@pytest.fixture
def send(collector: Collector) -> Iterator[Callable[..., OtlpSender]]:
    """Open senders to the collector, which are closed in the end."""
    senders: list[OtlpSender] = []

    def opening(url: str = collector.url, **options: Any) -> OtlpSender:
        senders.append(OtlpSender(url, **options))
        return senders[-1]

    yield opening
    collector.open.set()
    for each in senders:
        each.close()


def ask(spans: OtlpSender, *questions: str) -> list[str]:
    answerer = Answerer(crag_agent(), spans=spans)
    return [outcome.answer for outcome in answerer.answer([Question(question, PHOTO) for question in questions])]


@needs_exporter
def test_a_served_turn_is_a_tree(collector: Collector, send: Callable[..., OtlpSender]) -> None:
    sender = send(about={"preset": "best", "profile": "scripted"})
    before = time.time()
    with listening(Server(Answerer(crag_agent(), spans=sender), model="m", key=None, limits=ServerLimits()).app) as url:
        body = {"model": "m", "messages": [make_message("How tall is this?", data_url(PHOTO))]}
        assert httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).status_code == 200
    sender.close()
    spans = collector.spans
    assert tree(spans) == {
        "turn": "AGENT",
        "turn/image_search": "CHAIN",
        "turn/image_search/search_images": "RETRIEVER",
        "turn/queries": "CHAIN",
        "turn/web_search": "CHAIN",
        "turn/web_search/search_web": "RETRIEVER",
        "turn/evidence": "CHAIN",
        "turn/rerank": "CHAIN",
        "turn/rerank/reranker": "RERANKER",
        "turn/answer": "CHAIN",
        "turn/answer/answer_with_evidence": "LLM",
        "turn/finalise": "GUARDRAIL",
    }
    assert set(collector.paths) == {"/v1/traces"} and len({span.trace_id for span in spans}) == 1
    by_id = {span.span_id: span for span in spans}
    for span in spans:
        assert before - 1 <= span.start_time_unix_nano / 1e9 <= span.end_time_unix_nano / 1e9 <= time.time() + 1
        if (above := by_id.get(span.parent_span_id)) is not None:
            assert span.start_time_unix_nano >= above.start_time_unix_nano - 10**7
            assert span.end_time_unix_nano <= above.end_time_unix_nano + 10**7
        assert span.status.code == 1
    model = values(
        next(span for span in spans if values(span.attributes)["openinference.span.kind"] == "LLM").attributes
    )
    assert model["llm.finish_reason"] == "stop" and model["llm.token_count.completion"] == 2
    assert model["llm.model_name"] and '"max_tokens"' in model["llm.invocation_parameters"]
    root = values(next(span for span in spans if span.name == "turn").attributes)
    assert (root["crag.outcome"], root["crag.batch.size"]) == ("answered", 1)
    guard = values(next(span for span in spans if span.name == "finalise").attributes)
    assert guard["crag.decision.given"] is True
    assert collector.resource["service.name"] == collector.resource["openinference.project.name"] == "crag-mm-agent"
    assert (collector.resource["crag.preset"], collector.resource["crag.profile"]) == ("best", "scripted")


@needs_exporter
def test_no_text_leaves_unless_asked_for(collector: Collector, send: Callable[..., OtlpSender]) -> None:
    sender = send()
    assert ask(sender, "How tall is this?") == ["300 m"]
    sender.close()
    assert collector.spans
    identity = collector.resource["service.instance.id"].encode()  # random digits, in which a year may stand
    for text in TEXTS:
        assert not any(text.encode() in body.replace(identity, b"") for body in collector.bodies), text


@needs_exporter
def test_texts_are_sent_if_asked_for_and_pictures_never(collector: Collector, send: Callable[..., OtlpSender]) -> None:
    sender = send(content=True)
    ask(sender, "How tall is this?")
    sender.close()
    by_name = {span.name: values(span.attributes) for span in collector.spans}
    assert by_name["turn"]["input.value"] == "How tall is this?" and by_name["turn"]["output.value"] == "300 m"
    assert by_name["turn"]["crag.entity"] == "Red Tower"
    assert by_name["search_images"]["retrieval.documents.0.document.content"] == "Red Tower"
    assert by_name["search_web"]["retrieval.documents.0.document.id"] == "https://p.example/tower"
    assert "reranker.output_documents.0.document.content" in by_name["reranker"]
    assert by_name["answer_with_evidence"]["llm.output_messages.0.message.content"] == "300 m"
    assert not any(
        b"image" in key.encode()
        for span in by_name.values()
        for key in span
        if "document" not in key and "stage" not in key
    )
    assert not any(b"PNG" in body or b"base64" in body for body in collector.bodies)


@needs_exporter
def test_each_turn_of_a_batch_has_the_calls_of_the_batch(collector: Collector, send: Callable[..., OtlpSender]) -> None:
    sender = send()
    ask(sender, "How tall is this?", "Who built this?")
    sender.close()
    traces: dict[bytes, dict[str, Any]] = {}
    for span in collector.spans:
        traces.setdefault(span.trace_id, {})[span.name] = span
    one, other = traces.values()
    assert one.keys() == other.keys() and "reranker" in one
    first, second = one["reranker"], other["reranker"]
    assert (first.start_time_unix_nano, first.end_time_unix_nano) == (
        second.start_time_unix_nano,
        second.end_time_unix_nano,
    )
    assert values(first.attributes)["crag.call.items"] == values(second.attributes)["crag.call.items"]
    assert {values(each["turn"].attributes)["crag.batch.turn"] for each in (one, other)} == {0, 1}
    assert values(first.attributes)["crag.batch.size"] == values(one["turn"].attributes)["crag.batch.size"] == 2


RECORD = TurnRecord(
    "secret question",
    answer="I don't know",
    error="answer: ModelError: secret detail",
    unanswered=Unanswered.MODEL,
    began=1_764_000_000.0,
    seconds=3.0,
    session_id="s1",
    stages=(
        StageRecord(
            "look", 1.0, "failed", "error", "ModelError: secret detail", began=1_764_000_000.0, fault=Unanswered.MODEL,
            calls=(
                BatchCall("embedding", "text_encoder", "minilm", 7, 1_764_000_000.1, 0.2),
                BatchCall("tool", "detector", "owl", 1, 1_764_000_000.4, 0.2, "RuntimeError"),
            ),
        ),
        StageRecord(
            "verify", 1.0, began=1_764_000_001.0, evidence=(EvidenceFound("secret evidence", score=0.5),),
            signals={"p_yes": Signal(0.25)}, notes={"words": "secret note"}, checks={"verifier": "secret check"},
            exchanges=(
                Exchange("verify", "yes_no", "llama", "secret reply", began=1_764_000_001.5, seconds=0.25, usage=(120, 8),
                         messages=(SentMessage("user", "secret prompt"),), max_tokens=30, batch=4),
                Exchange("verify", "yes_no", "llama", finish_reason="error", error="ModelError: secret detail", began=1_764_000_001.8),
            ),
        ),
        StageRecord("finalise", 0.0, began=1_764_000_002.0,
                    decision=Decision("secret candidate", given=False, reason="gate", probability=0.2, needed=0.5)),
    ),
)  # fmt: skip


@needs_exporter
@pytest.mark.parametrize("content", [False, True])
def test_errors_tokens_and_decisions_are_told(
    collector: Collector, send: Callable[..., OtlpSender], content: bool
) -> None:
    sender = send(content=content)
    sender.send([RECORD.as_json()])
    sender.close()
    assert any(b"secret" in body for body in collector.bodies) is content
    spans = {f"{span.name} {number}": span for number, span in enumerate(collector.spans)}
    spans_by_name = {name.partition(" ")[0]: (span.status, values(span.attributes)) for name, span in spans.items()}
    status, root = spans_by_name["turn"]
    assert (status.code, status.message) == (2, "the model failed")
    assert (root["crag.outcome"], root["crag.unanswered"], root["session.id"]) == ("error", "model", "s1")
    status, look = spans_by_name["look"]
    assert (status.code, look["crag.stage.status"]) == (2, "failed")
    assert status.message == ("ModelError: secret detail" if content else "ModelError")
    assert (
        spans_by_name["text_encoder"][1] | {"openinference.span.kind": "EMBEDDING", "embedding.model_name": "minilm"}
        == spans_by_name["text_encoder"][1]
    )
    assert (
        spans_by_name["detector"][1]["tool.name"] == "detector"
        and spans_by_name["detector"][0].message == "RuntimeError"
    )
    calls = [span for span in collector.spans if values(span.attributes)["openinference.span.kind"] == "LLM"]
    asked_model = values(calls[0].attributes)
    assert [asked_model[f"llm.token_count.{name}"] for name in ("prompt", "completion", "total")] == [120, 8, 128]
    assert (asked_model["crag.call.items"], asked_model["llm.model_name"]) == (4, "llama")
    assert ("llm.input_messages.0.message.content" in asked_model) is content
    assert (calls[0].start_time_unix_nano, calls[0].end_time_unix_nano) == (1764000001500000000, 1764000001750000000)
    assert calls[1].status.code == 2 and values(calls[1].attributes)["llm.finish_reason"] == "error"
    guard = spans_by_name["finalise"][1]
    assert (guard["openinference.span.kind"], guard["crag.decision.given"]) == ("GUARDRAIL", False)
    assert (guard["crag.decision.probability"], guard["crag.decision.needed"]) == (0.2, 0.5)
    assert spans_by_name["verify"][1]["crag.signal.p_yes"] == 0.25


@needs_exporter
def test_a_collector_that_is_gone_costs_no_answer_and_is_named_once(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 400  # others are tried again, which takes a second
    sender = OtlpSender(collector.url)
    try:
        for _ in range(3):
            collector.came.clear()
            assert ask(sender, "How tall is this?") == ["300 m"]
            assert collector.came.wait(30)
        collector.status = 200
        sender.send([RECORD.as_json()])
        assert collector.accepted.wait(30)
    finally:
        sender.close()
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    address = f"{collector.url}/v1/traces"
    assert messages == [
        f"the collector at {address} takes no spans: they are dropped until it does; answers are not affected",
        f"the collector at {address} takes spans again",
    ]


@needs_exporter
def test_nobody_at_the_address_costs_no_answer_and_little_time_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    closed_collector = Collector()
    closed_collector.close()
    sender = OtlpSender(closed_collector.url, seconds=0.05)
    assert ask(sender, "How tall is this?") == ["300 m"]
    sender.close()
    assert "takes no spans" in caplog.text and "Traceback" not in caplog.text


@needs_exporter
def test_a_collector_that_does_not_answer_holds_no_turn_up(
    collector: Collector, send: Callable[..., OtlpSender], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns are answered while a request to the collector hangs, and more spans come than the queue holds."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "16")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8")
    collector.open.clear()
    sender = send(seconds=60)
    with ThreadPoolExecutor(1) as other:
        asking = other.submit(lambda: [ask(sender, "How tall is this?") for _ in range(5)])
        assert asking.result(30) == [["300 m"]] * 5  # the collector is still held
    assert collector.came.wait(30) and not collector.bodies
    collector.open.set()
    sender.close()
    assert 0 < len(collector.spans) < 5 * 12


@needs_exporter
def test_a_record_that_cannot_be_read_costs_no_turn(
    collector: Collector, send: Callable[..., OtlpSender], caplog: pytest.LogCaptureFixture
) -> None:
    sender = send()
    for _ in range(2):
        sender.send([{"version": 99}])
    sender.send([RECORD.as_json()])
    sender.close()
    assert len(collector.spans) == 8
    assert [record.getMessage() for record in caplog.records] == [
        "no spans were made of a batch: a record cannot be read: it has version 99 of the record, this program reads 2; make the run "
        "again; later ones are not reported"
    ]


@needs_exporter
def test_headers_are_those_of_the_environment(
    collector: Collector, send: Callable[..., OtlpSender], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20abc")
    sender = send()
    sender.send([RECORD.as_json()])
    sender.close()
    assert collector.headers[0]["authorization"] == "Basic abc"


@needs_exporter
def test_the_option_of_a_server_reaches_its_agent(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunConfig, "unreachable", lambda *_, **__: None)
    monkeypatch.setattr(RunConfig, "pipeline", lambda *_, **__: None)
    monkeypatch.setattr(CragAgent, "from_config", lambda *_: crag_agent())
    answerer = start(ServeOptions(otlp=collector.url, otlp_content=True, no_web=True, no_images=True))
    assert [outcome.answer for outcome in answerer.answer([Question("How tall is this?", PHOTO)])] == ["300 m"]
    assert collector.accepted.wait(30)
    answerer._spans.close()  # type: ignore[union-attr]
    assert (collector.resource["crag.preset"], collector.resource["crag.profile"]) == ("best", "embedded")
    assert any(values(span.attributes).get("output.value") == "300 m" for span in collector.spans)


@needs_exporter
def test_an_evaluation_sends_its_turns_with_their_sessions(collector: Collector, tmp_path: Path) -> None:
    options = parse(["--dataset-type", "single-turn", "--otlp", collector.url, "--output-dir", str(tmp_path)])
    config, _ = launching.prepare(options)
    send = launching.open_spans(options, config)
    send([RECORD.as_json()])
    assert collector.accepted.wait(30)
    assert values(next(span for span in collector.spans if span.name == "turn").attributes)["session.id"] == "s1"
    assert collector.resource["crag.profile"] == "embedded"


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://localhost:6006", "http://localhost:6006/v1/traces"),
        ("http://localhost:6006/v1/traces", "http://localhost:6006/v1/traces"),
        ("https://cloud.langfuse.com/api/public/otel/", "https://cloud.langfuse.com/api/public/otel/v1/traces"),
    ],
)
def test_the_base_of_a_collector_is_enough(url: str, endpoint: str) -> None:
    assert make_endpoint(url) == endpoint


@pytest.mark.parametrize("url", ["localhost:4317", "grpc://host:4317", "http://", "file:///tmp/x"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(OtlpError, match="is no URL of a collector; write one such as"):
        open_sender(AnswererOptions(otlp=url))
    options = parse(["--dataset-type", "single-turn", "--otlp", url])
    with pytest.raises(EvaluationError, match="is no URL of a collector"):
        launching.open_spans(options, launching.prepare(options)[0])


def test_missing_packages_are_named_with_their_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openinference.semconv.resource", None)
    with pytest.raises(OtlpError, match=r"run: pip install --no-deps --require-hashes -r requirements/otlp\.txt"):
        OtlpSender("http://localhost:6006")


def test_texts_need_somebody_to_send_them_to() -> None:
    with pytest.raises(ValueError, match="--otlp-content needs --otlp"):
        AnswererOptions(otlp_content=True)
    assert open_sender(AnswererOptions()) is None
