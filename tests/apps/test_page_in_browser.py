"""The page in a real browser (`make test-web`): what a visitor sees, clicks and waits for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from apps.answering import About, Answerer
from tests.apps.conftest import PHOTO, crag_agent, encoded, listening
from tests.apps.held_stage import held
from tests.support.chromium import CHROMIUM, NO_CHROMIUM

pytest.importorskip("gradio", reason="gradio is not installed: make test-web")
pytest.importorskip("playwright", reason="playwright is not installed: make test-web")
from playwright.sync_api import Page, expect, sync_playwright

from apps.page import Example, build_page_app
from tools.picture_words import PICTURES, read_words
from tools.screenshots import MAX_BYTES, ask_example, write

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

ABOUT = About("best", "embedded", "validation", "Looks first.", 60.0)
EXAMPLES = (Example(PHOTO, "How tall is the tower?"), Example(Image.new("RGB", (50, 40), "blue"), "Who made it?"))
SECONDS = 60.0  # for anything to appear, on a machine that is busy with other work
_QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=_QUIET)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Opens the page of an agent in a browser that has never seen it; no script of it may fail."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(1000 * SECONDS)
    expect.set_options(timeout=1000 * SECONDS)
    faults: list[str] = []
    servers = []

    def opened(agent: Any) -> Page:
        server = listening(build_page_app(Answerer(agent, about=ABOUT), EXAMPLES))
        servers.append(server)
        url = server.__enter__()
        page: Page = context.new_page()
        page.on("pageerror", lambda error: faults.append(f"{error.message}: {error.stack}"))
        page.goto(url)
        expect(page.locator("#told")).to_contain_text("then ask about it")
        return page

    yield opened
    context.close()
    for server in servers:
        server.__exit__(None, None, None)
    assert faults == []


def file_of(content: bytes, name: str = "photo.png") -> Any:
    return {"name": name, "mimeType": "image/png", "buffer": content}


def ask(page: Page, question: str) -> None:
    page.fill("#question textarea", question)
    page.click("#ask")


def test_an_example_is_asked_and_survives_a_reload_until_it_is_cleared(open_page: Any) -> None:
    page = open_page(crag_agent())
    told, talk = page.locator("#told"), page.locator("#talk")
    for known in ("best (Looks first)", "embedded", "validation", "at most 60 s a question"):
        expect(told).to_contain_text(known)
    page.locator("#examples img").first.click()
    expect(page.locator("#question textarea")).to_have_value("How tall is the tower?")
    expect(page.locator("#photo img")).to_be_visible()
    page.click("#ask")
    expect(told).to_contain_text("Verdict")
    expect(talk).to_contain_text("300 m")
    expect(told.locator("mark")).to_have_text("300")
    expect(page.locator("#ask")).to_be_visible()

    page.reload()
    expect(talk).to_contain_text("300 m")
    expect(told).to_contain_text("Red Tower")
    expect(page.locator("#photo img")).to_be_visible()
    ask(page, "And now?")
    expect(talk.get_by_text("300 m")).to_have_count(2)

    page.click("#clear")
    expect(talk).not_to_contain_text("300 m")
    page.reload()
    expect(told).to_contain_text("then ask about it")
    expect(page.locator("#photo img")).to_have_count(0)
    assert "300 m" not in talk.inner_text()


def test_an_earlier_answer_is_clicked_for_its_evidence(open_page: Any) -> None:
    page = open_page(crag_agent())
    told, talk = page.locator("#told"), page.locator("#talk")
    page.set_input_files("#photo input[type=file]", file_of(encoded(PHOTO)))
    for count, question in enumerate(("How tall?", "And now?"), 1):
        ask(page, question)
        expect(talk.get_by_text("300 m")).to_have_count(count)
    expect(told).to_contain_text("Verdict")
    talk.get_by_text("300 m").first.click()
    expect(told).to_contain_text("How tall? 300 m")
    expect(told).to_contain_text("Verdict")
    talk.get_by_text("And now?").click()
    expect(told).to_contain_text("And now? 300 m")


def test_a_new_photo_begins_a_new_dialog(open_page: Any) -> None:
    page = open_page(crag_agent())
    talk = page.locator("#talk")
    page.set_input_files("#photo input[type=file]", file_of(encoded(PHOTO)))
    expect(page.locator("#photo img")).to_be_visible()
    ask(page, "How tall?")
    expect(talk).to_contain_text("300 m")
    page.locator("#examples img").last.click()
    expect(talk).not_to_contain_text("300 m")


@pytest.mark.parametrize("content", [b"just a text", b""])
def test_no_picture_and_no_photo_are_said_in_words(open_page: Any, content: bytes) -> None:
    page = open_page(crag_agent())
    page.set_input_files("#photo input[type=file]", file_of(content, "text.jpg"))
    expect(page.get_by_text("This file cannot be read as a photo")).to_be_visible()
    ask(page, "How tall is this?")
    expect(page.locator("#talk")).to_contain_text("There is no photo yet")
    expect(page.locator("#question textarea")).to_have_value("How tall is this?")


def test_stages_are_shown_and_a_question_can_be_stopped(open_page: Any) -> None:
    agent, stage = held()
    page = open_page(agent)
    told, talk = page.locator("#told"), page.locator("#talk")
    page.set_input_files("#photo input[type=file]", file_of(encoded(PHOTO)))
    expect(page.locator("#photo img")).to_be_visible()
    ask(page, "How tall?")
    expect(told).to_contain_text("waiting for the test")
    page.click("#stop")
    expect(talk).to_contain_text("Stopped.")
    expect(page.locator("#stop")).to_be_hidden()
    stage.go.set()
    ask(page, "How tall?")
    expect(talk).to_contain_text("300 m")


def test_a_visitor_who_leaves_keeps_nobody_waiting(open_page: Any) -> None:
    agent, stage = held()
    page = open_page(agent)
    page.set_input_files("#photo input[type=file]", file_of(encoded(PHOTO)))
    expect(page.locator("#photo img")).to_be_visible()
    ask(page, "How tall?")
    expect(page.locator("#told")).to_contain_text("waiting for the test")
    url, context = page.url, page.context
    page.close()  # the agent works on, until it is told that nobody waits
    stage.entered.clear()
    other = context.new_page()
    other.goto(url)
    expect(other.locator("#photo img")).to_be_visible()  # as the browser kept it
    ask(other, "How tall?")
    assert stage.entered.wait(SECONDS)  # else it would wait for ever
    stage.go.set()
    expect(other.locator("#talk")).to_contain_text("300 m")


def test_it_fits_a_phone(open_page: Any) -> None:
    page = open_page(crag_agent())
    page.set_viewport_size({"width": 390, "height": 800})
    page.locator("#examples img").first.click()
    page.click("#ask")
    expect(page.locator("#told")).to_contain_text("Verdict")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_picture_of_the_page_is_made_by_a_command(browser: Any, open_page: Any, tmp_path: Path) -> None:
    page = open_page(crag_agent())
    write(ask_example(browser, page.url, 0), tmp_path / "page.png", PICTURES["page.png"])
    assert (tmp_path / "page.png").stat().st_size <= MAX_BYTES
    with Image.open(tmp_path / "page.png") as picture:
        assert picture.size == (1280, 920)
    words = read_words(tmp_path / "page.png")
    assert {"Ask about a photo", "Clear the dialog", "Verdict", "Evidence"} <= {*words}
    assert "Take an example below, or add a photo of your own" not in words, "which the answer replaces"
