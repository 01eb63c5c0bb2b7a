"""Records of turns as OpenTelemetry spans with OpenInference's names, for collectors such as Phoenix and Langfuse.

A turn is a trace: below its span are those of the stages, and below a stage its calls. Models and searches answer a whole batch in
one call, so each turn of the batch gets a span of that call, with the call's times and sizes (``crag.batch.size``,
``crag.call.items``). Summing seconds over turns therefore counts a batched call once per turn. Tokens are those of the turn's own request.

Spans are made when a batch has ended, with the times of its records. ``Reduction`` decides what they say, as for a file of traces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openinference.semconv.trace import (
    DocumentAttributes,
    MessageAttributes,
    OpenInferenceSpanKindValues,
    RerankerAttributes,
    SpanAttributes,
)
from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context

from agents.record import BatchCall, Exchange, SentMessage, StageRecord, TurnRecord
from agents.unanswered import WORDS, name_outcome

Attributes = Mapping[str, Any]
Document = tuple[str, str, float | None]
"""Id, text and score of a document."""

_Kind = OpenInferenceSpanKindValues
_KINDS = {
    "retriever": _Kind.RETRIEVER,
    "reranker": _Kind.RERANKER,
    "embedding": _Kind.EMBEDDING,
    "tool": _Kind.TOOL,
}
_PAGES = "pages"  # note of a stage that searches the web: name, url and score of each page
_MAX_DOCUMENTS = 20  # of a span, which may have 128 attributes
_MAX_MESSAGES = 20


class SpanWriter:
    """Writes the spans of turns with a tracer."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def write(self, record: TurnRecord, size: int = 1) -> None:
        """Write the spans of a turn.

        Args:
            record: The turn, reduced to what may be told.
            size: Number of turns in its batch.
        """
        began = record.began
        with _Open(self._tracer, "turn", _Kind.AGENT, began, record.seconds, Context()) as turn:
            turn.tell(_describe_turn(record, size))
            if record.unanswered is not None and record.unanswered.is_error:
                turn.fail(WORDS[record.unanswered])
            for stage in record.stages:
                self._write_stage(stage, turn.context, size)

    def _write_stage(self, stage: StageRecord, above: Context, size: int) -> None:
        kind = _Kind.CHAIN if stage.decision is None else _Kind.GUARDRAIL
        with _Open(self._tracer, stage.stage, kind, stage.began, stage.seconds, above) as span:
            span.tell(_describe_stage(stage, size))
            if stage.status in ("failed", "hung") or stage.fault is not None:
                span.fail(stage.reason or stage.status)
            for call in stage.calls:
                is_last = call is [each for each in stage.calls if each.kind == call.kind][-1]
                documents = _find_documents(stage) if is_last else ()
                with _Open(self._tracer, call.name, _KINDS[call.kind], call.began, call.seconds, span.context) as inner:
                    inner.tell({"crag.batch.size": size, **_describe_call(call, documents)})
                    if call.error is not None:
                        inner.fail(call.error)
            for exchange in stage.exchanges:
                name, began = exchange.prompt, exchange.began or stage.began
                with _Open(self._tracer, name, _Kind.LLM, began, exchange.seconds, span.context) as inner:
                    inner.tell({"crag.batch.size": size, **_describe_exchange(exchange)})
                    if exchange.finish_reason == "error":
                        inner.fail(exchange.error or exchange.finish_reason)


class _Open:
    """A span that begins and ends at given Unix times."""

    def __init__(
        self, tracer: Tracer, name: str, kind: OpenInferenceSpanKindValues, began: float, seconds: float, above: Context
    ) -> None:
        self._end = _nanoseconds(began + seconds)
        self._span: Span = tracer.start_span(name, context=above, start_time=_nanoseconds(began))
        self._span.set_attribute(SpanAttributes.OPENINFERENCE_SPAN_KIND, kind.value)
        self._failed = False
        self.context = set_span_in_context(self._span, above)
        """Context of the spans below this one."""

    def tell(self, attributes: Attributes) -> None:
        """Set attributes; values that say nothing are left out."""
        self._span.set_attributes({name: value for name, value in attributes.items() if value not in (None, "", ())})

    def fail(self, reason: str) -> None:
        """Mark the span as an error."""
        self._failed = True
        self._span.set_status(Status(StatusCode.ERROR, reason))

    def __enter__(self) -> _Open:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._failed:
            self._span.set_status(Status(StatusCode.OK))
        self._span.end(end_time=self._end)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e6) * 1_000  # a float of a Unix time has no more digits


def _describe_turn(record: TurnRecord, size: int) -> Attributes:
    cause = record.unanswered
    return {
        SpanAttributes.SESSION_ID: record.session_id,
        SpanAttributes.INPUT_VALUE: record.query,
        SpanAttributes.OUTPUT_VALUE: record.answer,
        "crag.interaction.id": record.interaction_id,
        "crag.question": record.question,
        "crag.entity": record.entity,
        "crag.outcome": name_outcome(cause),
        "crag.unanswered": None if cause is None else cause.value,
        "crag.batch.number": record.batch,
        "crag.batch.turn": record.turn,
        "crag.batch.size": size,
    }


def _describe_stage(stage: StageRecord, size: int) -> Attributes:
    decision = stage.decision
    decided = (
        {}
        if decision is None
        else {
            SpanAttributes.INPUT_VALUE: decision.candidate,
            "crag.decision.given": decision.given,
            "crag.decision.reason": decision.reason,
            "crag.decision.probability": decision.probability,
            "crag.decision.needed": decision.needed,
        }
    )
    return {
        "crag.batch.size": size,
        "crag.stage.status": stage.status,
        "crag.stage.cause": stage.cause,
        "crag.stage.reason": stage.reason,
        "crag.stage.queries": stage.queries,
        "crag.stage.entity": stage.entity,
        **decided,
        **{f"crag.answer.{basis}": text for basis, text in stage.answers.items()},
        **{f"crag.signal.{name}": signal.value for name, signal in stage.signals.items()},
    }


def _find_documents(stage: StageRecord) -> Sequence[Document]:
    """Return the evidence that a stage found, else its pictures, else the pages that it noted."""
    evidence = [(each.url or each.title, each.text, each.score) for each in stage.evidence]
    pictures = [(each.url, each.name, each.score) for each in stage.pictures]
    noted = stage.notes.get(_PAGES)
    pages = [
        (str(each.get("url") or ""), str(each.get("name") or ""), each.get("score"))
        for each in (noted if isinstance(noted, list | tuple) else ())
        if isinstance(each, Mapping)
    ]
    return evidence or pictures or pages


def _describe_call(call: BatchCall, documents: Sequence[Document]) -> Attributes:
    about: dict[str, Any] = {"crag.call.items": call.size}
    if call.kind == "embedding":
        about[SpanAttributes.EMBEDDING_MODEL_NAME] = call.model
    elif call.kind == "reranker":
        about[RerankerAttributes.RERANKER_MODEL_NAME] = call.model
        about |= _list_documents(RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS, documents)
    elif call.kind == "retriever":
        about |= _list_documents(SpanAttributes.RETRIEVAL_DOCUMENTS, documents)
    else:
        about |= {SpanAttributes.TOOL_NAME: call.name, "crag.model": call.model}
    return about


def _list_documents(prefix: str, documents: Sequence[Document]) -> dict[str, Any]:
    names = DocumentAttributes.DOCUMENT_ID, DocumentAttributes.DOCUMENT_CONTENT, DocumentAttributes.DOCUMENT_SCORE
    return {
        f"{prefix}.{place}.{name}": value
        for place, document in enumerate(documents[:_MAX_DOCUMENTS])
        for name, value in zip(names, document, strict=True)
    }


def _describe_exchange(exchange: Exchange) -> Attributes:
    input_tokens, output_tokens = exchange.usage or (None, exchange.tokens)
    sampling = {"max_tokens": exchange.max_tokens, "temperature": exchange.temperature, "seed": exchange.seed}
    parameters = {name: value for name, value in sampling.items() if value is not None}
    reply = SentMessage("assistant", exchange.reply)
    return {
        SpanAttributes.LLM_MODEL_NAME: exchange.model,
        SpanAttributes.LLM_FINISH_REASON: exchange.finish_reason,
        SpanAttributes.LLM_INVOCATION_PARAMETERS: json.dumps(parameters),
        SpanAttributes.LLM_TOKEN_COUNT_PROMPT: input_tokens,
        SpanAttributes.LLM_TOKEN_COUNT_COMPLETION: output_tokens,
        SpanAttributes.LLM_TOKEN_COUNT_TOTAL: None
        if input_tokens is None or output_tokens is None
        else input_tokens + output_tokens,
        SpanAttributes.OUTPUT_VALUE: exchange.reply,
        "crag.llm.form": exchange.form,
        "crag.llm.readable": exchange.readable,
        "crag.llm.cached": exchange.cached,
        "crag.llm.mean_probability": exchange.mean_probability,
        "crag.call.items": exchange.batch,
        **dict(_list_messages(SpanAttributes.LLM_INPUT_MESSAGES, exchange.messages)),
        **(dict(_list_messages(SpanAttributes.LLM_OUTPUT_MESSAGES, [reply])) if exchange.reply else {}),
    }


def _list_messages(prefix: str, messages: Sequence[SentMessage]) -> Iterator[tuple[str, str]]:
    for place, message in enumerate(messages[:_MAX_MESSAGES]):
        yield f"{prefix}.{place}.{MessageAttributes.MESSAGE_ROLE}", message.role
        yield f"{prefix}.{place}.{MessageAttributes.MESSAGE_CONTENT}", message.content
