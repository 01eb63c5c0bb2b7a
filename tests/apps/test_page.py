"""The page itself, where gradio is installed (`make test-web`)."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from PIL import Image
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from agents.base_agent import BaseAgent
from agents.profiles.profile import ROOT
from agents.record import Unanswered
from agents.unanswered import WORDS
from apps import web
from apps.answering import About, Answerer
from apps.examples import Example
from apps.outcome import Outcome, ShownEvidence
from apps.own_files import link_files
from apps.page_guard import PageGuard
from apps.serving.pictures import PhotoReader
from tests.apps.conftest import PHOTO, ScriptedAgent, crag_agent, encoded, listening, unanswered, within_a_minute
from tests.apps.held_stage import held
from tests.support.failure_table import answering

gradio = pytest.importorskip("gradio", reason="gradio is not installed: make test-web")
from gradio.route_utils import delete_files_created_by_app  # noqa: E402

from apps import page  # noqa: E402
from apps.page import Dialog, build, build_page_app  # noqa: E402


@pytest.fixture(autouse=True)
def uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where gradio puts what is uploaded."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))


Functions = dict[str, Callable[..., Any]]


def list_functions(agent: BaseAgent, about: About | None = None) -> Functions:
    """What the page's events call, by name."""
    return {function.name: function.fn for function in build(Answerer(agent, about=about)).fns.values()}


def ask_page(functions: Functions, file: Any, question: Any = "How tall is this?", state: Any = None) -> list[Any]:
    """Talk, details and what the browser keeps, after a question."""
    talk = [{"role": "user", "content": question}]
    last: list[Any] = []
    for update in functions["answer"](file, talk, state):
        last = list(update)
    return last[:3]


@pytest.fixture
def museum(tmp_path: Path) -> Path:
    """A collection with files that may be served and some that may not."""
    folder = tmp_path / "museum"
    (folder / "photos" / "old").mkdir(parents=True)
    PHOTO.save(folder / "photos" / "old" / "my mill.png")
    (folder / "pages").mkdir()
    (folder / "pages" / "visit.html").write_text("<script>alert(1)</script>")
    for name in ("questions.csv", "pages/.env", "pages/salaries.csv", "pages/guide.pdf"):
        (folder / name).write_text("secret")
    (tmp_path / "away.md").write_text("secret")
    (folder / "pages" / "away.md").symlink_to(tmp_path / "away.md")
    return folder


@pytest.fixture
def photo(tmp_path: Path) -> dict[str, str]:
    """An uploaded photo."""
    PHOTO.save(tmp_path / "photo.png")
    return {"path": str(tmp_path / "photo.png")}


def test_an_answer_comes_with_its_details(photo: Any) -> None:
    content = [{"type": "text", "text": "How tall is this?"}]  # as gradio passes it
    talk, details, _ = ask_page(list_functions(crag_agent()), photo, content)
    assert talk == [{"role": "user", "content": "How tall is this?"}, {"role": "assistant", "content": "300 m"}]
    assert "Red Tower" in details and "Answered" in details


def test_what_the_browser_keeps_is_the_history_of_the_next_question(photo: Any) -> None:
    agent = ScriptedAgent()
    functions = list_functions(agent)
    state = ask_page(functions, photo, "Who?")[2]
    state = ask_page(functions, photo, "When?", json.loads(json.dumps(state)))[2]
    assert [message["content"] for message in agent.histories[1]] == ["Who?", "answer to Who?"]
    photo_path, talk, details = functions["restore"](state)
    assert photo_path == photo["path"] and details.startswith("<div")
    assert [message["content"] for message in talk] == ["Who?", "answer to Who?", "When?", "answer to When?"]
    ask_page(functions, photo, "Where?", {**state, "photo": "another.png"})
    assert agent.histories[2] == []  # a dialog about another photo is none of this one


def test_pages_are_asked_without_a_photo_in_a_dialog_of_its_own(photo: Any) -> None:
    agent = ScriptedAgent()
    functions = list_functions(agent)
    state = ask_page(functions, None, "How much is a ticket?")[2]
    state = ask_page(functions, None, "And for children?", json.loads(json.dumps(state)))[2]
    assert agent.images == [None, None]
    assert [message["content"] for message in agent.histories[1]] == [
        "How much is a ticket?",
        "answer to How much is a ticket?",
    ]
    photo_path, talk, _ = functions["restore"](state)
    assert photo_path is None and len(talk) == 4
    ask_page(functions, photo, "Who?", state)
    assert agent.histories[2] == [], "a dialog about a photo is none without one"


@pytest.mark.parametrize(("way", "cause"), [("search", Unanswered.SEARCH), ("stage", Unanswered.STAGE)])
def test_a_failure_is_told_and_is_no_part_of_the_dialog(photo: Any, way: str, cause: Unanswered) -> None:
    before = ask_page(list_functions(ScriptedAgent()), photo, "Who?")[2]
    with answering(way) as agent:
        functions = list_functions(agent)
        talk, details, state = ask_page(functions, photo, "When?", before)
    assert talk[-1]["content"] == f"There is no answer: {WORDS[cause]}."
    assert "abstained" not in details and f"Went wrong: {WORDS[cause]}" in details
    assert "turns" not in state, "the browser keeps what it has"


def test_a_refusal_of_the_model_stays_an_answer(photo: Any) -> None:
    talk, _, state = ask_page(list_functions(crag_agent("I don't know")), photo, "When?")
    assert talk[-1]["content"] == "I don't know" and len(state["turns"]) == 1


@dataclass
class Clicked:
    """What gradio tells of a click on a message."""

    index: int


def test_an_earlier_answer_that_is_clicked_shows_its_details_again(photo: Any) -> None:
    functions = list_functions(ScriptedAgent())
    state = ask_page(functions, photo, "Who?")[2]
    state = ask_page(functions, photo, "When?", state)[2]
    messages = functions["restore"](state)[1]
    broken_off = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Stopped."}]
    talk = [*broken_off, *messages, *broken_off]
    for place, answer in [(2, "answer to Who?"), (3, "answer to Who?"), (4, "answer to When?"), (5, "answer to When?")]:
        assert answer in functions["show_turn"](talk, state, Clicked(place))
    for place in (0, 1, 6, 7):
        assert "answer" not in functions["show_turn"](talk, state, Clicked(place))
    forgotten = {**state, "turns": state["turns"][1:]}
    assert "answer" not in functions["show_turn"](talk, forgotten, Clicked(3))
    assert "answer to When?" in functions["show_turn"](talk, forgotten, Clicked(5))
    Path(photo["path"]).unlink()
    assert "cannot be read" in functions["show_turn"](talk, state, Clicked(3))


@pytest.mark.parametrize("state", [None, [], {}, {"photo": 3}, {"photo": "/etc/passwd", "turns": []}, {"photo": "x"}])
def test_what_no_page_wrote_is_not_restored(state: Any) -> None:
    photo, talk, details = list_functions(ScriptedAgent())["restore"](state)
    assert photo is None and talk == [] and "Add a photo" in details


@pytest.mark.parametrize("turns", [3, ["x"], [{"question": "Who?"}], [{"question": "Who?", "outcome": {"answer": 3}}]])
def test_turns_that_no_page_wrote_are_left_out(photo: Any, turns: Any) -> None:
    assert list_functions(ScriptedAgent())["restore"]({"photo": photo["path"], "turns": turns})[1] == []


def test_a_long_dialog_is_kept_within_what_a_request_may_hold(photo: Any) -> None:
    outcome = Outcome("a" * 30_000)
    state = Dialog("p", tuple((str(number), outcome) for number in range(40))).as_json()
    assert len(json.dumps(state)) < 450_000 and state["turns"][-1]["question"] == "39"


@pytest.mark.parametrize(
    ("content", "words"), [(None, "no photo yet"), (b"text", "cannot be read"), (b"", "cannot be")]
)
def test_what_cannot_be_asked_is_told_at_once(tmp_path: Path, content: bytes | None, words: str) -> None:
    """Before it waits for the agent; the question stays in its field."""
    agent, file = ScriptedAgent(), None
    if content is not None:
        (tmp_path / "text.jpg").write_bytes(content)
        file = {"path": str(tmp_path / "text.jpg")}
    functions = list_functions(agent)
    talk, textbox_value, *_ = functions["say"](file, " What is this? ", [], None)
    assert talk[-1]["role"] == "assistant" and words in talk[-1]["content"]
    assert textbox_value == " What is this? "
    [skipped] = functions["answer"](file, talk, None)
    assert not agent.calls and all(isinstance(update, dict) for update in skipped)


@pytest.mark.parametrize("raised", [SystemExit(1), RuntimeError("secret")])
def test_an_agent_that_fails_is_told_in_the_dialog(raised: BaseException, photo: Any) -> None:
    def fail(_: str) -> str:
        raise raised

    talk, details, _ = ask_page(list_functions(ScriptedAgent(fail)), photo)
    assert "The agent failed" in talk[-1]["content"] and "secret" not in talk[-1]["content"] and not details


def test_what_is_being_done_is_told_while_it_is(photo: Any) -> None:
    agent, stage = held()
    updates = list_functions(agent)["answer"](photo, [{"role": "user", "content": "How tall?"}], None)
    details, _, *buttons = next(
        each for _, *each in updates if isinstance(each[0], str) and "waiting for the test" in each[0]
    )
    assert "Working" in details
    assert buttons == [gradio.skip()] * 2, "an update on its way after Stop was clicked must not bring the button back"
    stage.go.set()
    assert [*updates][-1][0][-1]["content"] == "300 m"


def test_a_question_that_nobody_waits_for_ends_and_the_next_is_answered(photo: Any) -> None:
    agent, stage = held()
    functions = list_functions(agent)
    updates = functions["answer"](photo, [{"role": "user", "content": "How tall?"}], None)
    next(updates)
    assert stage.entered.wait(30)
    updates.close()  # what gradio does when the visitor stops it, or leaves
    agent.pipeline.stages.remove(stage)
    talk, details, _ = ask_page(functions, photo)
    assert talk[-1]["content"] == "300 m" and "hangs" not in details


def test_the_start_says_what_answers_and_in_what_time(photo: Any) -> None:
    about = About("best", "embedded", "validation", 60.0)
    functions = list_functions(ScriptedAgent(), about)
    details = functions["restore"](None)[2]
    assert "At most 60 s a question (preset best, profile embedded)." in details
    ask_page(functions, photo)
    assert "Less than a second a question" in functions["restore"](None)[2]  # as measured


def test_the_command_begins_with_the_questions_of_a_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Example] = []
    monkeypatch.setattr(web, "start", lambda _: Answerer(ScriptedAgent()))
    monkeypatch.setattr(web, "run", lambda *_: None)
    monkeypatch.setattr(page, "build_page_app", lambda _, examples, knowledge: begun.extend(examples))
    assert web.main([str(ROOT / "examples" / "museum"), "--port", "0"]) == 0
    assert begun[0].question == "Who made this?" and [each.answerable for each in begun] == [True] * 5 + [False]


def test_each_page_keeps_its_photos_in_a_folder_of_its_own_until_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gradio calls files by their content: in a shared folder, a page that ends deletes those of the others."""
    folders: list[Path] = []

    def serve(*_: Any) -> None:
        folders.append(Path(os.environ["GRADIO_TEMP_DIR"]))
        assert [*folders[-1].rglob("photo.webp")], "the examples"
        if len(folders) == 1:
            assert web.main(command) == 0
            assert folders[0].is_dir() and not folders[1].exists()

    shared = tmp_path / "not yet there"
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(shared))
    monkeypatch.setattr(web, "start", lambda _: Answerer(ScriptedAgent()))
    monkeypatch.setattr(web, "run", serve)
    command = [str(ROOT / "examples" / "museum"), "--port", "0"]
    assert web.main(command) == 0
    assert len({*folders}) == 2 and shared.is_dir() and not [*shared.iterdir()]
    assert os.environ["GRADIO_TEMP_DIR"] == str(shared)


def test_an_example_can_be_asked_after_old_uploads_were_deleted(photo: Any) -> None:
    agent = ScriptedAgent()
    blocks = build(Answerer(agent), [Example("How tall is this?", PHOTO)])
    functions = {function.name: function for function in blocks.fns.values()}
    [take_example] = (function for function in blocks.fns.values() if isinstance(function.fn, partial))

    def click() -> Any:
        return asyncio.run(blocks.process_api(take_example, []))["data"][0]

    ask_page({"answer": functions["answer"].fn}, click())
    asyncio.run(blocks.process_api(functions["restore"], [Dialog(photo["path"]).as_json()]))
    delete_files_created_by_app(blocks, age=0)
    assert not Path(photo["path"]).exists()
    ask_page({"answer": functions["answer"].fn}, click())
    assert len(agent.calls) == 2


def test_uploads_are_deleted_within_an_hour_after_a_day() -> None:
    assert build(Answerer(ScriptedAgent())).delete_cache == (3600, 24 * 3600)


@pytest.fixture
def url(uploads: None) -> Iterator[str]:
    """The page behind its web server."""
    with listening(build_page_app(Answerer(crag_agent()))) as address:
        yield address


def upload(url: str, *files: tuple[str, bytes], **headers: str) -> httpx.Response:
    return httpx.post(
        f"{url}/gradio_api/upload", files=[("files", file) for file in files], headers=headers, timeout=60
    )


FILE = {"meta": {"_type": "gradio.FileData"}}


def join_queue(
    url: str, path: str | None, question: str, *more: Any, meta: dict[str, Any] = FILE, visitor: str = "a-session"
) -> None:
    """Ask about an uploaded file, or without one, as the browser of a visitor does."""
    config = httpx.get(f"{url}/config").json()
    parts = {part["id"]: part["type"] for part in config["components"]}
    function = next(
        f for f in config["dependencies"] if [parts[i] for i in f["inputs"]] == ["image", "chatbot", "browserstate"]
    )
    photo = None if path is None else {"path": path, "orig_name": "photo.jpg", **meta}
    talk = [{"role": "user", "content": [{"type": "text", "text": question}, *more]}]
    body = {"data": [photo, talk, None], "fn_index": function["id"], "session_hash": visitor}
    httpx.post(f"{url}/gradio_api/queue/join", json=body).raise_for_status()


def follow(url: str, seconds: float, visitor: str = "a-session") -> Iterator[dict[str, Any]]:
    """Yield what gradio tells a visitor who has asked; httpx.ReadTimeout if it tells nothing for so long."""
    address = f"{url}/gradio_api/queue/data?session_hash={visitor}"
    with httpx.stream("GET", address, timeout=seconds) as stream:
        for line in stream.iter_lines():
            yield json.loads(line.removeprefix("data: ") or "{}")


def ask_over_http(
    url: str, path: str, question: str, *more: Any, meta: dict[str, Any] = FILE
) -> list[dict[str, Any]] | None:
    """The dialog that a browser sees after a question about an uploaded file; None where gradio refuses."""
    join_queue(url, path, question, *more, meta=meta)
    event = next(event for event in follow(url, 30) if event.get("msg") == "process_completed")
    return event["output"]["data"][0] if event["success"] else None


def read_answer(talk: list[dict[str, Any]] | None) -> str:
    assert talk is not None
    return talk[-1]["content"][0]["text"]


def test_a_photo_is_uploaded_and_asked_about(url: str) -> None:
    assert "Ask about a photo" in httpx.get(url).text
    uploaded = upload(url, ("photo.jpg", encoded(PHOTO)))
    assert read_answer(ask_over_http(url, uploaded.json()[0], "How tall is this?")) == "300 m"


@pytest.mark.parametrize("content", [b"just a text", b"", b"%PDF-1.7", b"<svg xmlns='http://www.w3.org/2000/svg'/>"])
def test_a_file_that_is_no_picture_is_refused_in_words(url: str, content: bytes) -> None:
    answer = upload(url, ("photo.jpg", content))
    assert answer.status_code == 400
    assert answer.text == "This file cannot be read as a photo; try JPEG, PNG or WebP."


def test_a_file_that_breaks_after_its_upload_is_told_in_the_dialog(url: str) -> None:
    """gradio's own preprocessing shows "Error" and no more."""
    path = Path(upload(url, ("photo.jpg", encoded(PHOTO.resize((32, 24))))).json()[0])
    path.write_bytes(b"just a text")
    assert "cannot be read as a photo" in read_answer(ask_over_http(url, str(path), "What?"))


def test_a_visitor_who_waits_for_the_question_before_is_told_so(uploads: None) -> None:
    agent, stage = held()
    with listening(build_page_app(Answerer(agent))) as url:
        join_queue(url, None, "How tall is the tower?", visitor="first")
        assert stage.entered.wait(30)
        join_queue(url, None, "How tall is the tower?", visitor="second")
        # gradio's heartbeats come each 15 s: a visitor who is told nothing gets the timeout before them
        events = follow(url, 10, "second")
        assert any("waiting for the question before" in str(event) for event in events)
        stage.go.set()
        assert any("300 m" in str(event) for event in events)


def test_an_upload_is_one_picture_of_limited_size(url: str) -> None:
    photo = ("photo.jpg", encoded(PHOTO))
    several = upload(url, photo, photo)
    assert (several.status_code, several.text) == (400, "One picture can be sent at once, as multipart/form-data.")
    assert upload(url, ("photo.jpg", b"x" * 21 * 1024 * 1024)).status_code == 413
    assert upload(url, ("photo.png", encoded(Image.new("1", (10_000, 6_000))))).text.startswith(
        "the picture is too large: 10000 x 6000"
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
    talk = ask_over_http(url, str(secret), "How tall is this?", meta=meta)
    assert talk is None or "cannot be read as a photo" in read_answer(talk)


def test_files_of_this_machine_are_not_put_where_they_are_served(
    url: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any input of gradio's, here the dialog, may name files, which it copies."""
    secret = tmp_path_factory.mktemp("home") / "secret.txt"
    secret.write_text("secret")
    photo = upload(url, ("photo.jpg", encoded(PHOTO))).json()[0]
    assert ask_over_http(url, photo, "What?", {"type": "file", "file": {"path": str(secret), **FILE}}) is None
    assert not [file for file in tmp_path.rglob("*") if file.name == "secret.txt"]


def test_files_outside_uploads_are_not_served(url: str) -> None:
    assert httpx.get(f"{url}/gradio_api/file=/etc/passwd").status_code == 403


def test_files_of_a_collection_are_served_and_no_others(museum: Path, uploads: None) -> None:
    answerer = Answerer(crag_agent())
    with listening(build_page_app(answerer, knowledge=museum)) as url:
        page_of_a_stranger = httpx.get(f"{url}/own/pages/visit.html")
        assert page_of_a_stranger.text == "<script>alert(1)</script>"
        assert page_of_a_stranger.headers["Content-Security-Policy"].endswith("sandbox")
        assert httpx.get(f"{url}/own/photos/old/my%20mill.png").headers["Content-Type"] == "image/png"
        assert "sandbox" not in httpx.get(f"{url}/own/pages/guide.pdf").headers["Content-Security-Policy"]
        for path in (
            "questions.csv",
            "pages",
            "pages/away.md",
            "pages/.env",
            "pages/salaries.csv",
            "pages/%2e%2e/questions.csv",
            "pages/%2e%2e/pages/visit.html",
            "/etc/passwd",
            "pages/%00.md",
            "pages/" + "a" * 5000,
        ):
            assert httpx.get(f"{url}/own/{path}").status_code == 404, path
        assert httpx.get(f"{url}/own/pages/visit.html", headers={"Host": "attacker.example"}).status_code == 400
    with listening(build_page_app(answerer)) as url:
        assert httpx.get(f"{url}/own/pages/visit.html").status_code == 404


def test_evidence_links_to_its_file(museum: Path, photo: Any) -> None:
    handlers = link_files(FastAPI(), museum)
    assert handlers("photos/old/my mill.png") == "/own/photos/old/my%20mill.png"
    assert handlers("pages/guide.pdf#page=3") == "/own/pages/guide.pdf#page=3"
    assert [handlers(name) for name in ("pages/away.md", "questions.csv", "", "javascript:alert(1)")] == [None] * 4
    source = ShownEvidence("text", "web", "Visit", "pages/visit.html", 0.5)
    shown = build(Answerer(crag_agent()), link=handlers).fns.values()
    restore = next(function.fn for function in shown if function.name == "restore")
    details = restore({"photo": "", "turns": [{"question": "q", "outcome": Outcome("a", sources=(source,)).as_json()}]})
    assert '<a href="/own/pages/visit.html"' in details[2] and "Visit, pages/visit.html" in details[2]


def test_other_sites_can_neither_upload_nor_read(url: str) -> None:
    """Host and Origin are checked as in front of the server (test_http_server.py)."""
    foreign = upload(url, ("photo.jpg", encoded(PHOTO)), Origin="https://attacker.example")
    assert foreign.status_code == 403 and "access-control-allow-origin" not in foreign.headers
    local = httpx.get(f"{url}/config", headers={"Origin": "http://localhost:1"})
    assert "access-control-allow-origin" not in local.headers
    assert httpx.get(url, headers={"Host": "attacker.example"}).status_code == 400


async def received(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that tells how many bytes it was sent."""
    if scope["type"] == "http":
        body = (await receive())["body"]
        await PlainTextResponse(str(len(body)))(scope, receive, send)


def test_an_upload_that_takes_too_long_is_refused_in_words(slow: bytes) -> None:
    with listening(PageGuard(received, PhotoReader(50_000_000, seconds=1.0))) as url:
        refused = upload(url, ("photo.jpg", slow))
        assert refused.status_code == 400
        assert refused.text == "the picture takes more than 1 s to decode; send it as an ordinary JPEG or PNG"
        assert upload(url, ("photo.jpg", encoded(PHOTO, "JPEG"))).status_code == 200
        assert within_a_minute(lambda: upload(url, ("photo.tif", encoded(PHOTO, "TIFF"))).status_code == 200)


def test_visitors_who_leave_end_the_decoding_of_their_uploads(slow: bytes) -> None:
    photos = PhotoReader(50_000_000, seconds=600.0)
    form = (
        b'--b\r\nContent-Disposition: form-data; name="files"; filename="photo.jpg"\r\n\r\n' + slow + b"\r\n--b--\r\n"
    )
    kind = "Content-Type: multipart/form-data; boundary=b\r\n"
    with listening(PageGuard(received, photos)) as url:
        connections = [unanswered(url, "/gradio_api/upload", form, kind) for _ in range(8)]
        end = time.monotonic() + 60
        while photos.inside < 8:
            assert time.monotonic() < end
            httpx.get(url)
        assert upload(url, ("photo.jpg", encoded(PHOTO, "JPEG"))).status_code == 200
        for connection in connections:
            connection.close()
        assert upload(url, ("photo.tif", encoded(PHOTO, "TIFF"))).status_code == 200
    assert photos.inside == 0


@pytest.mark.parametrize(
    "path",
    ["/openapi.json", "/gradio_api/openapi.json", "/dev/reload", "/gradio_api/dev/reload", "/gradio_api/dev/reload/"],
)
def test_routes_of_developers_are_closed(url: str, path: str) -> None:
    assert httpx.get(f"{url}{path}").status_code == 404


def test_no_other_site_may_show_the_page_or_be_asked_by_it(url: str) -> None:
    answer = httpx.get(url)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy and "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["x-frame-options"] == "DENY"
