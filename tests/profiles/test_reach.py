"""What a run needs from elsewhere is asked before anything is loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from huggingface_hub import constants
from pytest_httpserver import HTTPServer

from agents.profiles.profile import Profile
from agents.profiles.reach import unreachable
from tests.support.chat_server import serve_chat

ENCODER, INDEX = "org/encoder", "org/index"
SERVED = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}


@pytest.fixture(autouse=True)
def online(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer) -> None:
    """An empty cache and a hub of this machine."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", httpserver.url_for("").rstrip("/"))
    httpserver.expect_request("/", method="HEAD").respond_with_data("")


def check_reach(profile: Profile, *roles: str, servers: bool = True) -> str | None:
    return unreachable(profile, roles, [INDEX], [ENCODER], servers=servers)


def test_a_hub_is_asked_only_for_what_the_cache_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer
) -> None:
    reranker, encoder = {"path": "BAAI/bge-reranker-v2-m3"}, {"path": "BAAI/bge-large-en-v1.5"}
    models = {"reranker": {"kind": "flag-reranker", **reranker}, "text_encoder": {"kind": "text-encoder", **encoder}}
    gpu = Profile(name="gpu", models=models)
    assert check_reach(gpu, "reranker") is None and len(httpserver.log) == 1
    with HTTPServer() as dead_server:
        monkeypatch.setattr(constants, "ENDPOINT", dead_server.url_for("").rstrip("/"))
    message = check_reach(gpu, "reranker")
    lacking = "the cache of the hub lacks org/encoder, BAAI/bge-reranker-v2-m3, org/index, and http://"
    assert message is not None and message.startswith(lacking) and "cannot be reached" in message
    for folder in ("models--org--encoder", "models--BAAI--bge-reranker-v2-m3", "datasets--org--index"):
        (tmp_path / folder / "snapshots" / ("a" * 40)).mkdir(parents=True)
    assert check_reach(gpu, "reranker") is None
    models["reranker"]["revision"] = "b" * 40  # the cache has another commit
    assert f"lacks BAAI/bge-reranker-v2-m3@{'b' * 40}, and" in str(
        check_reach(Profile(name="p", models=models), "reranker")
    )
    assert "lacks BAAI/bge-large-en-v1.5, and" in str(check_reach(gpu, "text_encoder"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in str(check_reach(gpu, "text_encoder"))


def test_where_nothing_is_served_no_client_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "agents.models.chat.openai_probe", None)  # importing it fails
    profile = Profile(name="p", models={"chat": {"kind": "composed", "text": {"kind": "llama-cpp"}}, "unused": SERVED})
    assert check_reach(profile, "chat") is None


def test_each_server_is_asked_once_wherever_its_model_stands(httpserver: HTTPServer) -> None:
    bodies = serve_chat(httpserver, lambda _: "x")
    spec = {"kind": "openai", "model": "m", "base_url": httpserver.url_for("/v1")}
    models = {"chat": {"kind": "composed", "text": spec}, "small_chat": spec, "unused": {**spec, "model": "other"}}
    profile = Profile(name="p", models=models)
    assert check_reach(profile, "chat", "small_chat", servers=False) is None and bodies == []
    assert check_reach(profile, "chat", "small_chat") is None
    assert [body["model"] for body in bodies] == ["m"]
