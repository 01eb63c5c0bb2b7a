"""Make the pictures of page and report in docs/figures from runs: ``make screenshots``.

It needs the machine's Chromium. The page answers as the agent answered in a run over its examples, from the trace; no model is loaded.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright
from pydantic import Field

from agents.base.command_options import Flag, Options
from agents.base.named import parse_name
from agents.base_agent import BaseAgent
from agents.profiles.profile import ROOT
from agents.record import TurnRecord
from apps.answering import About, AgentError, Answerer, PhotoError, Question
from apps.examples import find_dialogs, make_example
from apps.http_server import configure, protect
from apps.outcome import Outcome, build_outcome
from apps.page import build_page_app
from apps.web import own_upload_folder
from evaluation.data.question_files import OwnDialog
from evaluation.files.manifest import describe_picture, read_manifest
from evaluation.files.traces import TRACE, read_traces
from evaluation.records import EvaluationError, Key
from tools.picture_words import PICTURES, build_chunks, list_phrases, select_visible

MAX_BYTES = 200_000  # of a picture
WIDE, PHONE, TALL = (1280, 920), (390, 844), (1280, 1780)
"""Width and height of a picture."""
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync")
_COLOURS = (256, 128, 64, 32)
_SECONDS = 60  # for an answer to show, on a busy machine
_TEXTS = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const node = walker.currentNode, range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect(), holder = node.parentElement;
    const inside = box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
    if (inside && holder.checkVisibility({visibilityProperty: true}) && node.data.trim()) found.push(node.data);
  }
  return found;
}"""
"""Script that lists the texts in the window."""


class ScreenshotOptions(Options):
    """Make the pictures of page and report in docs/figures from runs."""

    run: Path = Field(ROOT / "results" / "demo", description="folder of the run whose report.html is shown")
    page_run: Path = Field(
        ROOT / "results" / "page", description="folder of the run that answered the page's examples, with trace.jsonl"
    )
    split: str = Field("public_test", description="split that it searched")
    knowledge: Annotated[Path | None, Flag(metavar="COLLECTION")] = Field(
        None, description="collection that it searched, in place of a split"
    )
    figures: Path = Field(ROOT / "docs" / "figures", description="folder of the pictures")


class _Run(BaseAgent):
    """Placeholder of an agent, because the run is over."""

    def get_batch_size(self) -> int:
        return 1

    def batch_generate_response(self, *_: Any, **__: Any) -> list[str]:
        raise AssertionError


class RecordedAnswerer(Answerer):
    """Answerer that repeats an answer of a run; AgentError for other questions."""

    def __init__(self, record: TurnRecord, about: About) -> None:
        super().__init__(_Run(), about=about)
        self._record = record

    def answer(self, questions: Sequence[Question], watch: Callable[[str], None] | None = None) -> list[Outcome]:  # noqa: ARG002
        """Answer as ``Answerer.answer`` does."""
        if any(question.text != self._record.query for question in questions):
            raise AgentError("the run was not asked this")
        return [build_outcome(self._record.answer, self._record) for _ in questions]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write page.png, page_phone.png and report.png.

    Returns:
        0, or 2 if a run is missing or answers none of the page's examples.
    """
    options = ScreenshotOptions.parse(arguments)
    try:
        about = read_about(options)
        dialogs = find_dialogs(about, options.knowledge)
        place, record = find_answered(dialogs, read_traces(options.page_run / TRACE, is_required=True))
        examples = [make_example(dialog) for dialog in dialogs]
    except (EvaluationError, PhotoError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with (
        chromium() as browser,
        own_upload_folder(),
        _serve(build_page_app(RecordedAnswerer(record, about), examples)) as url,
    ):
        shots = {
            "page.png": ask_example(browser, url, place),
            "page_phone.png": shoot_start(browser, url, PHONE),
            "report.png": shot_of_report(browser, options.run / "report.html"),
        }
    # All before the first is written: a changed picture of docs/ makes the commit one with changes.
    pictures = {name: compress(shot, PICTURES[name]) for name, shot in shots.items()}
    options.figures.mkdir(parents=True, exist_ok=True)
    for name, content in pictures.items():
        (options.figures / name).write_bytes(content)
        print(f"{options.figures / name}: {len(content) / 1000:.0f} kB")
    return 0


def read_about(options: ScreenshotOptions) -> About:
    """Return what the page says of the agent of the run over its examples.

    Raises:
        EvaluationError: The run is missing.
    """
    manifest = read_manifest(options.page_run)
    if "preset" not in manifest or "profile" not in manifest:
        raise EvaluationError(f"{options.page_run} holds no run; make screenshots makes one")
    searched = options.split if options.knowledge is None else options.knowledge.resolve().name
    return About(parse_name(manifest["preset"]), parse_name(manifest["profile"]), searched)


def find_answered(dialogs: Sequence[OwnDialog], records: Mapping[Key, TurnRecord]) -> tuple[int, TurnRecord]:
    """Return the place of the first example that a run answered, and its record.

    Raises:
        EvaluationError: It answered none.
    """
    for place, dialog in enumerate(dialogs):
        record = records.get((dialog.session_id, dialog.turns[0].interaction_id))
        if record is not None and record.decision is not None and record.decision.given:
            return place, record
    raise EvaluationError("the run answered none of the page's examples; see its report for the reasons")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start a headless Chromium of this machine."""
    path = next((program for name in _BROWSERS if (program := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_QUIET)
        yield browser
        browser.close()


@contextlib.contextmanager
def _serve(app: Any) -> Iterator[str]:
    server = uvicorn.Server(configure(protect(app)))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@dataclass(frozen=True)
class Shot:
    """A picture of a page, as a PNG, and the texts in it."""

    png: bytes
    texts: tuple[str, ...]


def ask_example(browser: Browser, url: str, place: int) -> Shot:
    """Ask the page's example at that place, and return a picture of the page."""
    page = _open_start(browser, url, WIDE)
    page.locator("#examples button").nth(place).click()
    expect(page.locator("#question textarea")).not_to_have_value("")
    expect(page.locator("#photo img")).to_be_visible()
    page.click("#ask")
    expect(page.locator("#told")).to_contain_text("Verdict")
    page.wait_for_load_state("networkidle")
    return _shoot(page)


def shoot_start(browser: Browser, url: str, size: tuple[int, int]) -> Shot:
    """Return a picture of the page as a visitor finds it."""
    return _shoot(_open_start(browser, url, size))


def _open_start(browser: Browser, url: str, size: tuple[int, int]) -> Page:
    page = _open_page(browser, url, size)
    expect.set_options(timeout=1000 * _SECONDS)
    expect(page.locator("#told")).to_contain_text("then ask about it")  # its events are bound
    page.wait_for_load_state("networkidle")
    return page


def shot_of_report(browser: Browser, report: Path) -> Shot:
    """Return a picture of the report from its title to its first turns."""
    return _shoot(_open_page(browser, report.resolve().as_uri(), TALL))


def _shoot(page: Page) -> Shot:
    return Shot(page.screenshot(), tuple(page.evaluate(_TEXTS)))


def _open_page(browser: Browser, url: str, size: tuple[int, int]) -> Page:
    width, height = size
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
    page.set_default_timeout(1000 * _SECONDS)
    page.goto(url)
    return page


def compress(shot: Shot, sources: Sequence[Path]) -> bytes:
    """Make a PNG with a palette, of as many colours as ``MAX_BYTES`` allow, with the commit and the words of the sources in it."""
    words = select_visible(chain.from_iterable(map(list_phrases, sources)), shot.texts)
    chunks = build_chunks(describe_picture(words))
    with Image.open(io.BytesIO(shot.png)) as picture:
        for colours in _COLOURS:
            buffer = io.BytesIO()
            plain = picture.convert("RGB").quantize(colours, dither=Image.Dither.NONE)
            plain.save(buffer, "PNG", optimize=True, pnginfo=chunks)
            if buffer.tell() <= MAX_BYTES:
                break
    return buffer.getvalue()


if __name__ == "__main__":
    sys.exit(main())
