"""Errors as real servers send them: the form of each server's bodies, and bodies that were seen, by what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from werkzeug import Response

Form = Callable[[int, str], Any]


def _object(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}}


FORMS: dict[str, Form] = {
    "OpenAI": lambda _, message: _object(message),
    "Azure": lambda status, message: {"error": {"code": str(status), "message": message}},
    "Azure's gateway": lambda status, message: {"statusCode": status, "message": message},
    "Gemini": lambda status, message: [{"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}}],
    "Anthropic": lambda _, message: {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": message},
        "request_id": "req_011",
    },
    "OpenRouter": lambda status, message: {
        "error": {
            "message": "Provider returned error",
            "code": status,
            "metadata": {"raw": json.dumps(_object(message)), "provider_name": "DeepInfra"},
        },
        "user_id": "user_2b",
    },
    "Groq": lambda _, message: {"error": {"message": message, "type": "invalid_request_error"}},
    "Together": lambda _, message: {"id": "9c1-4yUkv", **_object(message)},
    "vLLM": lambda status, message: {
        "error": {"message": message, "type": "BadRequestError", "param": None, "code": status}
    },
    "vLLM before 0.10": lambda status, message: {
        "object": "error",
        "message": message,
        "type": "BadRequestError",
        "param": None,
        "code": status,
    },
    "llama.cpp": lambda status, message: {
        "error": {"code": status, "message": message, "type": "invalid_request_error"}
    },
    "Ollama": lambda _, message: _object(message, type="api_error"),
    "LM Studio": lambda _, message: {"error": message},
    "LiteLLM": lambda status, message: _object(
        f"litellm.BadRequestError: OpenAIException - {message}. Received Model Group=m\nAvailable Model Group Fallbacks=None",
        type=None,
        code=str(status),
    ),
    "FastAPI": lambda _, message: {"detail": [{"type": "value_error", "loc": ["body"], "msg": message, "input": {}}]},
    "FastAPI, by hand": lambda _, message: {"detail": message},
    "text": lambda _, message: message,
    "JSON in a string": lambda _, message: {"error": {"message": json.dumps(_object(message)), "code": 400}},
}
"""How a server wraps what it says about a request with some status."""


def send(status: int, body: Any, **headers: str) -> Response:
    """Return an error with a body: JSON, or text that is sent as it is."""
    kind = "text/html" if str(body).startswith("<") else "text/plain" if isinstance(body, str) else "application/json"
    data = body if isinstance(body, str) else json.dumps(body)
    return Response(data, status=status, content_type=kind, headers=headers)


def _read_bodies() -> dict[str, dict[str, tuple[int, Any]]]:
    bodies: dict[str, dict[str, tuple[int, Any]]] = {}
    for line in (Path(__file__).parent / "server_errors.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        bodies.setdefault(row["server"], {})[row["what"]] = (row["status"], row["body"])
    return bodies


BODIES = _read_bodies()
"""Status and body by server and by what is wrong: "busy" is followed by the seconds that the server asks to wait."""


def list_bodies(what: str) -> list[Any]:
    """Return server, status and body of each error of a kind."""
    rows = [(server, name, *error) for server, errors in BODIES.items() for name, error in errors.items()]
    return [(server, status, body) for server, name, status, body in rows if name.partition(" ")[0] == what]
