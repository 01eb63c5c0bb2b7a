"""Sends the spans of turns to a collector over OTLP (HTTP, protobuf). A collector that is slow or gone costs spans, no turn its time."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agents.base.secrets import scrub
from agents.record import RecordError, read_record
from agents.runner.trace import WITHOUT_TEXTS
from agents.settings.shared_options import OtlpOptions

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_log = logging.getLogger(__name__)

_PATH = "/v1/traces"
_SECONDS = 5.0  # for a request with its repetitions
_NAME = "crag-mm-agent"
_INSTALL = "pip install --no-deps --require-hashes -r requirements/otlp.txt"


class OtlpError(RuntimeError):
    """Spans cannot be sent; the message says what to do."""


def make_endpoint(url: str) -> str:
    """Return the address that spans are posted to, for the base or the whole of it.

    Raises:
        OtlpError: It is no URL of HTTP.
    """
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OtlpError(f"--otlp {scrub(url)} is no URL of a collector; write one such as http://localhost:6006")
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith(_PATH) else path + _PATH).geturl()


class OtlpSender:
    """Sends spans of turns from a thread of its own.

    The queue is bounded: what does not fit is dropped. Queue, delay, headers and sampling follow OpenTelemetry's variables
    (``OTEL_BSP_MAX_QUEUE_SIZE``, ``OTEL_EXPORTER_OTLP_HEADERS`` ...).

    Args:
        url: Address of the collector, with or without ``/v1/traces``.
        content: Whether spans may hold what the records hold: questions, answers, evidence, replies. Pictures are never sent.
        about: Facts about the agent, such as its preset.
        seconds: Time for a request to the collector, with its repetitions.

    Raises:
        OtlpError: A package is missing, or the address is no URL of HTTP.
    """

    def __init__(
        self, url: str, *, content: bool = False, about: Mapping[str, str] | None = None, seconds: float = _SECONDS
    ) -> None:
        endpoint = make_endpoint(url)
        try:
            from openinference.semconv.resource import ResourceAttributes
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import SERVICE_NAME, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            from agents.runner.spans import SpanWriter
        except ImportError as error:
            raise OtlpError(f"spans cannot be sent: {error}; run: {_INSTALL}") from error
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it repeats what is said here once
        facts = {f"crag.{name}": value for name, value in (about or {}).items()}
        names = {SERVICE_NAME: _NAME, ResourceAttributes.PROJECT_NAME: _NAME}
        self._provider = TracerProvider(resource=Resource.create({**names, **facts}), shutdown_on_exit=False)
        self._exporter = _make_patient(OTLPSpanExporter(endpoint=endpoint, timeout=seconds), scrub(endpoint))
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._spans = SpanWriter(self._provider.get_tracer("agents"))
        self._content = content
        self._warned = False
        atexit.register(self.close)

    def send(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Send the spans of a batch, by the records of its turns. It waits for nothing and raises nothing."""
        try:
            for line in records:
                record = read_record(line)
                self._spans.write(record if self._content else WITHOUT_TEXTS.reduce(record), len(records))
        except RecordError as error:
            self._warn(f"a record cannot be read: {error}")
        except Exception as error:  # noqa: BLE001 - what watches a turn must not cost the turn
            self._warn(f"{type(error).__name__}: {error}")

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("no spans were made of a batch: %s; later ones are not reported", reason)

    def close(self) -> None:
        """Send what is left, within seconds. The end of the program does so too."""
        atexit.unregister(self.close)
        self._exporter.closing = True
        self._provider.shutdown()


def open_sender(options: OtlpOptions, **about: str) -> OtlpSender | None:
    """Open the sender that a command line names, with facts about the agent; None without ``--otlp``.

    Raises:
        OtlpError: A package is missing, or the address is no URL of HTTP.
    """
    return None if options.otlp is None else OtlpSender(options.otlp, content=options.otlp_content, about=about)


def _make_patient(exporter: SpanExporter, address: str) -> Any:
    """Wrap an exporter so that it warns once of a collector that is gone, and says when it is back."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Patient(SpanExporter):
        closing = False  # then a collector that is gone is tried once
        _is_down = False

        def export(self, spans: Any) -> Any:
            if self.closing and self._is_down:
                return SpanExportResult.FAILURE
            result = exporter.export(spans)
            is_down = result is not SpanExportResult.SUCCESS
            if is_down and not self._is_down:
                _log.warning(
                    "the collector at %s takes no spans: they are dropped until it does; answers are not affected",
                    address,
                )
            elif self._is_down and not is_down:
                _log.warning("the collector at %s takes spans again", address)
            self._is_down = is_down
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

    return Patient()
