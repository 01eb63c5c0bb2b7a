"""The OpenAPI document against the server that it describes: schemathesis makes requests from it, right and wrong ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import positive_data_acceptance

from apps.serving.app import ServerLimits
from tests.apps.conftest import KEY, PHOTO, ScriptedAgent, crag_agent, data_url, make_message, serving

load_all_checks()
UNLIMITED = ServerLimits(requests_per_minute=10**6, wrong_keys_per_minute=10**6)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(ScriptedAgent(batch_size=16), limits=UNLIMITED) as address:
        yield address


ROUTES = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/search"),
    ("POST", "/v1/index"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{model}"),
    ("GET", "/health"),
    ("GET", "/metrics"),
]


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_the_server_does_what_its_document_says(url: str, method: str, path: str, mode: GenerationMode) -> None:
    """Every check but one: that the last message is the user's, with a text and at most one picture, is no matter of a schema."""
    operation = schemathesis.openapi.from_url(f"{url}/openapi.json")[path][method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=30, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def test(case: Any) -> None:
        case.call_and_validate(headers={"Authorization": f"Bearer {KEY}"}, excluded_checks=[positive_data_acceptance])

    has_body = path in ("/v1/chat/completions", "/v1/search")
    with contextlib.suppress(*[Unsatisfiable] if mode is GenerationMode.NEGATIVE and not has_body else []):
        test()  # a route without parameters has no wrong ones


@pytest.mark.parametrize("stream", [False, True])
def test_answers_are_as_described(stream: bool) -> None:
    """Right requests of the generator end in no question; so here is one, to the agent whose replies have all there is."""
    with serving(crag_agent()) as url:
        operation = schemathesis.openapi.from_url(f"{url}/openapi.json")["/v1/chat/completions"]["POST"]
        body = {
            "model": "crag-mm-test",
            "messages": [make_message("How tall is this?", data_url(PHOTO))],
            "stream": stream,
        }
        case = operation.Case(body=body, headers={"Authorization": f"Bearer {KEY}"}, media_type="application/json")
        response = case.call()
        assert response.status_code == 200 and "Red Tower" in response.text
        case.validate_response(response)


def test_the_document_names_every_route(url: str) -> None:
    paths = httpx.get(f"{url}/openapi.json").json()["paths"]
    assert {(method.upper(), path) for path, methods in paths.items() for method in methods} == set(ROUTES)
