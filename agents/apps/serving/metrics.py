"""What a server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60)
_SIZES = tuple(range(1, 17))


class Metrics:
    """The figures of one server, in a registry of its own.

    Args:
        inside: How many questions are waiting or being answered.
    """

    def __init__(self, inside: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "crag_requests",
            "Requests for a completion by HTTP status and error code",
            ["status", "code"],
            registry=self._registry,
        )
        self.abstained = Counter("crag_abstentions", "Answers that say I don't know", registry=self._registry)
        self.seconds = Histogram(
            "crag_request_seconds", "From the request to its answer", buckets=_SECONDS, registry=self._registry
        )
        self._calls = Histogram("crag_call_seconds", "One call of the agent", buckets=_SECONDS, registry=self._registry)
        self._sizes = Histogram("crag_batch_size", "Questions in one call", buckets=_SIZES, registry=self._registry)
        Gauge("crag_questions_inside", "Questions waiting or being answered", registry=self._registry).set_function(
            inside
        )

    def called(self, size: int, seconds: float) -> None:
        """Note a call of the agent."""
        self._sizes.observe(size)
        self._calls.observe(seconds)

    def page(self) -> bytes:
        """The text format of Prometheus."""
        return generate_latest(self._registry)
