"""The page itself, where gradio is installed (`make test-web`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from apps.answering import Answerer
from tests.apps.conftest import PHOTO, ScriptedAgent, crag_agent, encoded, listening

gradio = pytest.importorskip("gradio", reason="gradio is not installed: make test-web")
from apps.page import build, page_app  # noqa: E402


@pytest.fixture(autouse=True)
def uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where gradio puts what is uploaded."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))


@pytest.fixture
def answer() -> Iterator[Any]:
    """What happens between a question and its answer."""
    page = build(Answerer(crag_agent()))
    functions = {function.name: function.fn for function in page.fns.values()}
    yield functions["answer"]


def test_an_answer_comes_with_its_details(answer: Any, tmp_path: Path) -> None:
    PHOTO.save(tmp_path / "photo.png")
    asked = [{"role": "user", "content": [{"type": "text", "text": "How tall is this?"}]}]  # as gradio passes it
    talk, told = answer({"path": str(tmp_path / "photo.png")}, asked)
    assert talk == [{"role": "user", "content": "How tall is this?"}, {"role": "assistant", "content": "300 m"}]
    assert "Red Tower" in told and "answered" in told


def test_a_broken_photo_is_told_in_the_dialog(answer: Any, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"nothing")
    talk, _ = answer({"path": str(tmp_path / "photo.png")}, [{"role": "user", "content": "What?"}])
    assert "cannot be read as a photo" in talk[-1]["content"]


def test_a_question_without_a_photo_is_told_at_once() -> None:
    """Before it waits for the agent; the question stays in its field."""
    agent = ScriptedAgent()
    functions = {function.name: function.fn for function in build(Answerer(agent)).fns.values()}
    talk, left = functions["say"](None, " What? ", [])
    assert talk[-1]["role"] == "assistant" and "no photo yet" in talk[-1]["content"]
    assert left == " What? "
    skipped = functions["answer"](None, talk)
    assert not agent.calls and all(isinstance(update, dict) for update in skipped)


@pytest.mark.parametrize("raised", [SystemExit(1), RuntimeError("secret")])
def test_an_agent_that_fails_is_told_in_the_dialog(raised: BaseException, tmp_path: Path) -> None:
    def fail(_: str) -> str:
        raise raised

    functions = {function.name: function.fn for function in build(Answerer(ScriptedAgent(fail))).fns.values()}
    PHOTO.save(tmp_path / "photo.png")
    talk, told = functions["answer"]({"path": str(tmp_path / "photo.png")}, [{"role": "user", "content": "What?"}])
    assert "The agent failed" in talk[-1]["content"] and "secret" not in talk[-1]["content"] and not told


@pytest.fixture
def url(uploads: None) -> Iterator[str]:
    """The page behind its web server."""
    with listening(page_app(Answerer(crag_agent()))) as address:
        yield address


def sent(url: str, *files: tuple[str, bytes], **headers: str) -> httpx.Response:
    return httpx.post(f"{url}/gradio_api/upload", files=[("files", file) for file in files], headers=headers)


FILE = {"meta": {"_type": "gradio.FileData"}}


def asked_of(
    url: str, path: str, question: str, *more: Any, meta: dict[str, Any] = FILE
) -> list[dict[str, Any]] | None:
    """The dialog that a browser sees after a question about an uploaded file; None where gradio refuses."""
    config = httpx.get(f"{url}/config").json()
    parts = {part["id"]: part["type"] for part in config["components"]}
    function = next(f for f in config["dependencies"] if [parts[i] for i in f["inputs"]] == ["image", "chatbot"])
    photo = {"path": path, "orig_name": "photo.jpg", **meta}
    talk = [{"role": "user", "content": [{"type": "text", "text": question}, *more]}]
    session = {"session_hash": "a-session"}
    body = {"data": [photo, talk], "fn_index": function["id"], **session}
    httpx.post(f"{url}/gradio_api/queue/join", json=body).raise_for_status()
    for line in httpx.get(f"{url}/gradio_api/queue/data", params=session, timeout=30).text.splitlines():
        event = json.loads(line.removeprefix("data: ") or "{}")
        if event.get("msg") == "process_completed":
            return event["output"]["data"][0] if event["success"] else None
    raise AssertionError


def said(talk: list[dict[str, Any]] | None) -> str:
    assert talk is not None
    return talk[-1]["content"][0]["text"]


def test_a_photo_is_uploaded_and_asked_about(url: str) -> None:
    assert "Ask about a photo" in httpx.get(url).text
    uploaded = sent(url, ("photo.jpg", encoded(PHOTO)))
    assert said(asked_of(url, uploaded.json()[0], "How tall is this?")) == "300 m"


@pytest.mark.parametrize("content", [b"just a text", b"", b"%PDF-1.7", b"<svg xmlns='http://www.w3.org/2000/svg'/>"])
def test_a_file_that_is_no_picture_is_refused_in_words(url: str, content: bytes) -> None:
    answer = sent(url, ("photo.jpg", content))
    assert answer.status_code == 400
    assert answer.text.startswith("the picture cannot be decoded") and "send JPEG, PNG or WebP" in answer.text


def test_a_file_that_breaks_after_its_upload_is_told_in_the_dialog(url: str) -> None:
    """gradio's own preprocessing shows "Error" and no more."""
    path = Path(sent(url, ("photo.jpg", encoded(PHOTO.resize((32, 24))))).json()[0])
    path.write_bytes(b"just a text")
    assert "cannot be read as a photo" in said(asked_of(url, str(path), "What?"))


def test_an_upload_is_one_picture_of_limited_size(url: str) -> None:
    photo = ("photo.jpg", encoded(PHOTO))
    several = sent(url, photo, photo)
    assert (several.status_code, several.text) == (400, "One picture can be sent at once, as multipart/form-data.")
    assert sent(url, ("photo.jpg", b"x" * 21 * 1024 * 1024)).status_code == 413
    assert sent(url, ("photo.png", encoded(Image.new("1", (10_000, 6_000))))).text.startswith(
        "the picture has 10000 x 6000"
    )
    for kind in (
        "text/plain",
        "multipart/form-data",
        "multipart/form-data; boundary=b",
        "application/x-www-form-urlencoded",
    ):
        answer = httpx.post(f"{url}/gradio_api/upload", content=b"x", headers={"Content-Type": kind})
        assert answer.status_code == 400, kind
    assert httpx.post(f"{url}/gradio_api/queue/join", content=b" " * 2_000_000).status_code == 413


@pytest.mark.parametrize("away", ["https://attacker.example/", "http://attacker.example", "HTTPS://attacker.example"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_page_redirects_to_no_other_host(url: str, away: str, method: str) -> None:
    answer = httpx.request(method, f"{url}/gradio_api/file={away}", follow_redirects=False)
    assert answer.status_code in (403, 404) and "location" not in answer.headers


@pytest.mark.parametrize("meta", [FILE, {}, {"meta": None}, {"meta": {}}, {"url": "data:image/png;base64,", **FILE}])
def test_files_of_this_machine_are_not_read(url: str, tmp_path_factory: pytest.TempPathFactory, meta: Any) -> None:
    secret = tmp_path_factory.mktemp("home") / "secret.png"
    secret.write_bytes(encoded(PHOTO))
    talk = asked_of(url, str(secret), "How tall is this?", meta=meta)
    assert talk is None or "cannot be read as a photo" in said(talk)


def test_files_of_this_machine_are_not_put_where_they_are_served(
    url: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any input of gradio's, here the dialog, may name files, which it copies."""
    secret = tmp_path_factory.mktemp("home") / "secret.txt"
    secret.write_text("secret")
    photo = sent(url, ("photo.jpg", encoded(PHOTO))).json()[0]
    assert asked_of(url, photo, "What?", {"type": "file", "file": {"path": str(secret), **FILE}}) is None
    assert not [file for file in tmp_path.rglob("*") if file.name == "secret.txt"]


def test_files_outside_uploads_are_not_served(url: str) -> None:
    assert httpx.get(f"{url}/gradio_api/file=/etc/passwd").status_code == 403


def test_other_sites_can_neither_upload_nor_read(url: str) -> None:
    """Host and Origin are checked as in front of the server (test_http_server.py)."""
    foreign = sent(url, ("photo.jpg", encoded(PHOTO)), Origin="https://attacker.example")
    assert foreign.status_code == 403 and "access-control-allow-origin" not in foreign.headers
    local = httpx.get(f"{url}/config", headers={"Origin": "http://localhost:1"})
    assert "access-control-allow-origin" not in local.headers
    assert httpx.get(url, headers={"Host": "attacker.example"}).status_code == 400
