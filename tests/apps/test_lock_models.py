"""``make lock-models`` against a server that answers as the hub does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import constants
from pytest_httpserver import HTTPServer

from agents.base.revisions import pinned_revision
from agents.profiles.profile import ROOT, load_profile
from apps.preflight import lock_models

Lock = Callable[..., tuple[int, str, str]]

PROFILE = """\
description = "d" # kept

[models.chat]
kind = "vllm"
path = "org/chat"   # its name
dtype = "bfloat16"

# the words before a table are kept
[models.reranker]
kind = "cosine"
encoder = { kind = "text-encoder", path = "org/encoder", pooling = "cls" } # small

[models.small_chat]
kind = "llama-cpp"
path = "${CRAG_GGUF:-org/gguf/model.gguf}"

[search]
kind = "organiser"
image_model = "org/clip"
text_model = "minilm"
"""
COMMITS = {"org/chat": "1" * 40, "org/encoder": "2" * 40, "org/gguf": "3" * 40, "org/clip": "4" * 40}
NEWER = "9" * 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "one.toml").write_text(PROFILE)
    models = [{"repo_id": name, "revision": "main", "ignore_patterns": ["*.h5"]} for name in ("org/chat", "org/clip")]
    (tmp_path / "aicrowd.json").write_text(json.dumps({"authors": ["us"], "hf_models": models}))
    return tmp_path


@pytest.fixture
def hub(httpserver: HTTPServer) -> HTTPServer:
    """The endpoints that are asked: the root by HEAD, and what the hub knows of each model."""
    httpserver.expect_request("/", method="HEAD").respond_with_data("")
    for name, commit in COMMITS.items():
        answer = {"id": name, "sha": commit}
        httpserver.expect_request(f"/api/models/{name}/revision/main").respond_with_json(answer)
    return httpserver


@pytest.fixture
def lock(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lock:
    """Run the command with a hub at an address; return its status and what it printed."""
    places = ("--profiles", str(folder / "profiles"), "--submission", str(folder / "aicrowd.json"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)

    def run(endpoint: str, *options: str, offline: bool = False) -> tuple[int, str, str]:
        monkeypatch.setattr(constants, "ENDPOINT", endpoint.rstrip("/"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
        status = lock_models.main([*places, *options])
        return status, *capsys.readouterr()

    return run


def list_requests(hub: HTTPServer) -> list[str]:
    return [request.path for request, _ in hub.log if request.path != "/"]


def test_every_model_is_asked_for_once_and_nothing_else_changes(folder: Path, hub: HTTPServer, lock: Lock) -> None:
    status, stdout, _ = lock(hub.url_for(""), "--check")
    assert (status, list_requests(hub)) == (1, [])
    assert "one.toml: org/clip has no revision" in stdout and "aicrowd.json: org/chat has main" in stdout
    assert lock(hub.url_for(""))[0] == 0
    assert sorted(list_requests(hub)) == sorted(f"/api/models/{name}/revision/main" for name in COMMITS)
    text = (folder / "profiles" / "one.toml").read_text()
    additions = {
        "# its name\n": f'revision = "{COMMITS["org/chat"]}"\n',
        'pooling = "cls"': f', revision = "{COMMITS["org/encoder"]}"',
        'model.gguf}"\n': f'revision = "{COMMITS["org/gguf"]}"\n',
        'image_model = "org/clip"\n': f'image_revision = "{COMMITS["org/clip"]}"\n',
    }
    expected = PROFILE
    for before, added in additions.items():
        expected = expected.replace(before, before + added)
    assert text == expected
    submission = json.loads((folder / "aicrowd.json").read_text())
    assert [model["revision"] for model in submission["hf_models"]] == [COMMITS["org/chat"], COMMITS["org/clip"]]
    assert submission["authors"] == ["us"] and submission["hf_models"][0]["ignore_patterns"] == ["*.h5"]
    assert lock(hub.url_for(""), "--check")[:2] == (0, "4 models, each pinned to a commit\n")
    profile = load_profile(str(folder / "profiles" / "one.toml"))
    assert profile.models["reranker"]["encoder"]["revision"] == COMMITS["org/encoder"]
    assert profile.search.image_revision == COMMITS["org/clip"] == pinned_revision("org/clip", folder / "profiles")


def test_what_is_pinned_stays_until_it_is_updated(folder: Path, hub: HTTPServer, lock: Lock) -> None:
    path = folder / "profiles" / "one.toml"
    path.write_text(PROFILE.replace('dtype = "bfloat16"', f'dtype = "bfloat16"\nrevision = "{NEWER}"'))
    assert lock(hub.url_for(""))[0] == 0
    assert not any("org/chat" in path for path in list_requests(hub))
    models = json.loads((folder / "aicrowd.json").read_text())["hf_models"]
    assert [model["revision"] for model in models] == [NEWER, COMMITS["org/clip"]]  # the same in both files
    assert lock(hub.url_for(""), "--update")[0] == 0
    assert NEWER not in path.read_text() and COMMITS["org/chat"] in path.read_text()


def test_a_model_that_the_hub_does_not_have_costs_no_other(folder: Path, httpserver: HTTPServer, lock: Lock) -> None:
    httpserver.expect_request("/", method="HEAD").respond_with_data("")
    headers = {"X-Error-Code": "RepoNotFound"}
    httpserver.expect_request("/api/models/org/chat/revision/main").respond_with_data("no", 404, headers=headers)
    httpserver.expect_request("/api/models/org/clip/revision/main").respond_with_json({"id": "org/clip", "sha": "main"})
    for name in ("org/encoder", "org/gguf"):
        answer = {"id": name, "sha": COMMITS[name]}
        httpserver.expect_request(f"/api/models/{name}/revision/main").respond_with_json(answer)
    status, _, errors = lock(httpserver.url_for(""))
    assert status == 1
    assert [line.partition(":")[2].partition(":")[0].strip() for line in errors.splitlines()] == [
        "org/chat",
        "org/clip",
    ]
    text = (folder / "profiles" / "one.toml").read_text()
    assert COMMITS["org/encoder"] in text and COMMITS["org/gguf"] in text and COMMITS["org/chat"] not in text


@pytest.mark.parametrize("trouble", ["no server", "offline", "in trouble", "breaks off"])
def test_a_hub_out_of_reach_is_one_line_and_changes_nothing(
    trouble: str, folder: Path, httpserver: HTTPServer, lock: Lock
) -> None:
    if trouble == "breaks off":
        httpserver.expect_request("/", method="HEAD").respond_with_data("")
    httpserver.expect_request("/", method="HEAD").respond_with_data("", 503)
    httpserver.expect_request("/api/models/org/chat/revision/main").respond_with_data("no", 500)
    endpoint = "http://127.0.0.1:9" if trouble == "no server" else httpserver.url_for("")
    status, stdout, errors = lock(endpoint, offline=trouble == "offline")
    assert (status, stdout, errors.count("\n")) == (1, "", 1)
    assert errors.startswith("error: ") and "nothing was written: run make lock-models" in errors
    assert (folder / "profiles" / "one.toml").read_text() == PROFILE


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("profiles/one.toml", "[models", "is not valid TOML"),
        ("aicrowd.json", "[]", "no list hf_models"),
        ("aicrowd.json", "{", "aicrowd.json"),
        ("profiles/one.toml", None, "has no profile"),
    ],
)
def test_a_broken_file_is_one_line(file: str, content: str | None, message: str, folder: Path, lock: Lock) -> None:
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(content)
    status, _, errors = lock("http://127.0.0.1:9", "--check")
    assert status == 1 and errors.startswith("error: ") and errors.count("\n") == 1
    assert message in errors


def test_the_revisions_of_profiles_and_submission_agree() -> None:
    """Whatever is pinned in this repository is pinned to one commit everywhere."""
    profiles = {path.stem: load_profile(path.stem) for path in (ROOT / "profiles").glob("*.toml")}
    assert profiles
    for model in json.loads((ROOT / "aicrowd.json").read_text())["hf_models"]:
        assert model["revision"] == pinned_revision(model["repo_id"])
