"""Models and search of a stage whose calls are recorded with their times. Chat models are left out: turns record each exchange."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from agents.profiles.model_set import ModelsBehind, ModelSet
from agents.record import BatchCall, CallKind
from agents.search.gateway import SearchGateway

_MODEL_KINDS: Mapping[str, CallKind] = {
    "encode": "embedding",
    "encode_tokens": "embedding",
    "score": "reranker",
    "score_multimodal": "reranker",
    "classify": "tool",
    "detect": "tool",
    "find": "tool",
    "match": "tool",
    "read": "tool",
    "segment": "tool",
}
"""Methods of the protocols in ``agents.models.base`` that take a batch."""

_SEARCH_KINDS: Mapping[str, CallKind] = {"search_images": "retriever", "search_web": "retriever"}


class ObservedModels(ModelsBehind):
    """Models of another set, whose calls are added to a list."""

    def __init__(self, behind: ModelSet, calls: list[BatchCall]) -> None:
        super().__init__(behind)
        self._calls = calls

    def get(self, role: str) -> Any:
        """Return the model of a role; its calls are recorded."""
        model = self._behind.get(role)
        return _Observed(model, role, str(getattr(model, "name", type(model).__name__)), _MODEL_KINDS, self._calls)


def observe_search(search: SearchGateway, calls: list[BatchCall]) -> SearchGateway:
    """Return the search with its calls added to a list."""
    return cast(SearchGateway, _Observed(search, "", "", _SEARCH_KINDS, calls))


class _Observed:
    """Passes everything on, and records the calls of some methods.

    These methods are attributes of the instance: protocols are told apart by the methods that an object really has.
    """

    def __init__(
        self, behind: Any, role: str, model: str, kinds: Mapping[str, CallKind], calls: list[BatchCall]
    ) -> None:
        self._behind = behind
        self.name = model
        for method, kind in kinds.items():
            if callable(call := getattr(behind, method, None)):
                setattr(self, method, _record(call, kind, role or method, model, calls))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)


def _record(
    call: Callable[..., Any], kind: CallKind, name: str, model: str, calls: list[BatchCall]
) -> Callable[..., Any]:
    def observed(items: Sequence[Any], *more: Any, **named: Any) -> Any:
        began, started = time.time(), time.perf_counter()
        error = None
        try:
            return call(items, *more, **named)
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            if len(items):
                seconds = round(time.perf_counter() - started, 4)
                calls.append(BatchCall(kind, name, model, len(items), round(began, 4), seconds, error))

    return observed
