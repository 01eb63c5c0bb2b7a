"""What people do with litellm, which speaks to any server: calls, streams, its errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from apps.serving.app import ServerLimits
from tests.apps.conftest import KEY, PHOTO, ScriptedAgent, data_url, make_message, serving

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when it is imported: it fetches no list of prices
litellm = pytest.importorskip("litellm", reason="litellm is not installed: pip install litellm")

MODEL = "openai/crag-mm-test"
QUESTION: dict[str, Any] = {"messages": [make_message("Who?", data_url(PHOTO))], "api_key": KEY, "num_retries": 0}
SAID = "answer to Who?"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(ScriptedAgent(), limits=ServerLimits(requests_per_minute=1000)) as address:
        yield f"{address}/v1"


def test_completion(url: str) -> None:
    completion = litellm.completion(model=MODEL, api_base=url, **QUESTION)
    assert completion.choices[0].message.content == SAID


def test_completion_in_a_stream(url: str) -> None:
    pieces = litellm.completion(model=MODEL, api_base=url, stream=True, **QUESTION)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == SAID


@pytest.mark.parametrize(
    ("more", "kind", "message"),
    [
        ({"response_format": {"type": "json_object"}}, "BadRequestError", "answers are plain text"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}, "BadRequestError", "tools"),
        ({"model": "openai/other"}, "NotFoundError", "there is no model 'other'"),
        ({"api_key": "wrong"}, "AuthenticationError", "a valid key is needed"),
    ],
)
def test_errors_are_the_clients_own(url: str, more: dict[str, Any], kind: str, message: str) -> None:
    with pytest.raises(getattr(litellm, kind), match=message):
        litellm.completion(**{"model": MODEL, "api_base": url, **QUESTION, **more})
