"""The page in a real browser (`make test-web`): what a visitor sees, clicks and waits for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
pytest.importorskip("axe_playwright_python", reason="axe is not installed: make test-web")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect, sync_playwright

from apps.examples import Example, find_dialogs
from apps.page import build_page_app
from evaluation.files.traces import TRACE, append_records
from tools.picture_words import PICTURES, read_words
from tools.screenshots import MAX_BYTES, PHONE, WIDE, ask_example, compress, main, shoot_start

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

ABOUT = About("best", "embedded", "validation", 60.0)
EXAMPLES = (
    Example("How tall is the tower?", PHOTO),
    Example("What does a ticket cost?"),
    Example("Who made it?", Image.new("RGB", (50, 40), "blue"), answerable=False),
)
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

    def start_page(agent: Any) -> Page:
        server = listening(build_page_app(Answerer(agent, about=ABOUT), EXAMPLES))
        servers.append(server)
        url = server.__enter__()
        page: Page = context.new_page()
        page.on("pageerror", lambda error: faults.append(f"{error.message}: {error.stack}"))
        page.goto(url)
        expect(page.locator("#told")).to_contain_text("then ask about it")
        return page

    yield start_page
    context.close()
    for server in servers:
        server.__exit__(None, None, None)
    assert faults == []


def make_file(content: bytes, name: str = "photo.png") -> Any:
    return {"name": name, "mimeType": "image/png", "buffer": content}


def ask(page: Page, question: str) -> None:
    page.fill("#question textarea", question)
    page.click("#ask")


def test_an_example_is_asked_and_survives_a_reload_until_it_is_cleared(open_page: Any) -> None:
    page = open_page(crag_agent())
    details, talk = page.locator("#told"), page.locator("#talk")
    for phrase in ("preset best", "profile embedded", "validation", "At most 60 s a question"):
        expect(details).to_contain_text(phrase)
    page.locator("#examples button").first.click()
    expect(page.locator("#question textarea")).to_have_value("How tall is the tower?")
    expect(page.locator("#photo img")).to_be_visible()
    page.click("#ask")
    expect(details).to_contain_text("Verdict")
    expect(talk).to_contain_text("300 m")
    expect(details.locator("mark")).to_have_text("300")
    expect(page.locator("#ask")).to_be_visible()

    page.reload()
    expect(talk).to_contain_text("300 m")
    expect(details).to_contain_text("Red Tower")
    expect(page.locator("#photo img")).to_be_visible()
    ask(page, "And now?")
    expect(talk.get_by_text("300 m")).to_have_count(2)

    page.click("#clear")
    expect(talk).not_to_contain_text("300 m")
    page.reload()
    expect(details).to_contain_text("then ask about it")
    expect(page.locator("#photo img")).to_have_count(0)
    assert "300 m" not in talk.inner_text()


def test_stages_are_shown_and_a_question_can_be_stopped(open_page: Any) -> None:
    agent, stage = held()
    page = open_page(agent)
    details, talk = page.locator("#told"), page.locator("#talk")
    page.set_input_files("#photo input[type=file]", make_file(encoded(PHOTO)))
    expect(page.locator("#photo img")).to_be_visible()
    ask(page, "How tall?")
    expect(details).to_contain_text("waiting for the test")
    page.click("#stop")
    expect(talk).to_contain_text("Stopped.")
    expect(page.locator("#stop")).to_be_hidden()
    stage.go.set()
    ask(page, "How tall?")
    expect(talk).to_contain_text("300 m")


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_no_barrier_is_found_and_nothing_is_cut_off(open_page: Any, size: tuple[int, int]) -> None:
    """At the start, with an answer whose details are open, and in the dark."""
    page = open_page(crag_agent())
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.wait_for_load_state("networkidle")
    assert find_barriers(page) == []
    page.locator("#examples button").first.click()
    page.click("#ask")
    expect(page.locator("#told")).to_contain_text("Verdict")
    for summary in page.locator("#told summary").all():
        summary.click()
    assert find_barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    page.emulate_media(color_scheme="dark")
    page.reload()
    expect(page.locator("#told")).to_contain_text("Verdict")
    expect(page.locator("#photo img")).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert find_barriers(page) == []


def find_barriers(page: Page) -> list[str]:
    """The barriers that axe-core finds, each with the parts of the page that have it."""
    violations = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in violations for node in each["nodes"]]


def test_a_phone_shows_the_examples_first_until_one_is_taken_and_each_below_its_photo(open_page: Any) -> None:
    page = open_page(crag_agent())
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    parts = ("#told", "#examples", "#photo", "#question")
    tops = [page.locator(part).bounding_box()["y"] for part in parts]
    assert tops == sorted(tops) and tops[1] < PHONE[1] / 2
    example = page.locator("#examples button").first
    photo_height = example.evaluate("each => parseFloat(getComputedStyle(each, '::before').height)")
    assert example.bounding_box()["height"] > photo_height > 50
    example.click()
    expect(page.locator("#photo img")).to_be_visible()
    tops = {part: page.locator(part).bounding_box()["y"] for part in parts}
    assert tops["#photo"] < tops["#question"] < min(tops["#told"], tops["#examples"])


def test_every_part_is_called_by_what_it_is_and_reached_by_keys(open_page: Any) -> None:
    page = open_page(crag_agent())
    for role, name in (
        ("button", "How tall is the tower?"),
        ("button", "What does a ticket cost? (without a photo)"),
        ("button", "Who made it? (nothing here says so)"),
        ("button", "Ask"),
        ("textbox", "Your question"),
    ):
        expect(page.get_by_role(role, name=name, exact=True)).to_be_visible()
    press_until(page, page.get_by_role("button", name="How tall is the tower?", exact=True))
    page.keyboard.press("Enter")
    expect(page.locator("#question textarea")).to_have_value("How tall is the tower?")
    expect(page.locator("#photo img")).to_be_visible()
    press_until(page, page.get_by_role("textbox", name="Your question", exact=True))
    page.keyboard.press("Enter")
    expect(page.locator("#talk")).to_contain_text("300 m")


def press_until(page: Page, element: Any) -> None:
    """Press Tab until the focus is on a part of the page."""
    for _ in range(60):
        if element.evaluate("each => each === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError("no key reaches it")


def test_the_picture_of_the_page_is_made_by_a_command(browser: Any, open_page: Any, tmp_path: Path) -> None:
    page = open_page(crag_agent())
    image_bytes = compress(ask_example(browser, page.url, 0), PICTURES["page.png"])
    assert len(image_bytes) <= MAX_BYTES
    (tmp_path / "page.png").write_bytes(image_bytes)
    with Image.open(tmp_path / "page.png") as picture:
        assert picture.size == WIDE
    words = read_words(tmp_path / "page.png")
    assert {"Ask about a photo", "Clear the dialog", "Verdict", "Evidence"} <= {*words}
    start = "Take an example, or add a photo of your own"
    assert start not in words, "which the answer replaces"
    (tmp_path / "phone.png").write_bytes(compress(shoot_start(browser, page.url, PHONE), PICTURES["page_phone.png"]))
    with Image.open(tmp_path / "phone.png") as picture:
        assert picture.size == PHONE
    assert "Ask about a photo" in read_words(tmp_path / "phone.png")


def test_the_command_makes_all_pictures_from_runs(tmp_path: Path) -> None:
    """The page answers the first of its examples that the run answered."""
    agent, records = crag_agent(), list[Any]()
    second = find_dialogs(ABOUT)[1]
    agent.trace_to(None, records.extend)
    agent.batch_generate_response([second.turns[0].question], [PHOTO], [[]])
    append_records(tmp_path / TRACE, [(second.session_id, second.turns[0].interaction_id)], records, 0)
    (tmp_path / "run.json").write_text('{"preset": "best", "profile": "embedded"}')
    (tmp_path / "report.html").write_text('<article class="turn correct">Right</article>')
    places = ["--run", str(tmp_path), "--page-run", str(tmp_path), "--figures", str(tmp_path / "figures")]
    with ThreadPoolExecutor(1) as other:  # a thread has one Playwright, and this one has that of the other tests
        assert other.submit(main, [*places, "--split", "validation"]).result() == 0
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {*PICTURES}
    assert main([*places, "--split", "public_test"]) == 2, "none of that split's examples is answered"
