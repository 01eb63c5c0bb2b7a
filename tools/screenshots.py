"""Make the pictures of page and report in docs/figures from a run: ``make screenshots``.

It needs the machine's Chromium. The page answers as the agent answered in the run, from its traces, so that no model is loaded.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import uvicorn
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright
from pydantic import Field

from agents.base.command_options import Options
from agents.base_agent import BaseAgent
from agents.profiles.profile import ROOT
from agents.record import TurnRecord
from agents.settings.run_config import DEFAULT_CACHE
from apps.answering import About, AgentError, Answerer, Question
from apps.http_server import configure, protect
from apps.outcome import Outcome, build_outcome
from apps.page import Example, build_page_app
from apps.web import choose_examples
from evaluation.files.manifest import describe_picture, read_manifest
from evaluation.files.traces import read_traces
from evaluation.records import EvaluationError
from tools.picture_words import PICTURES, build_chunks, list_phrases, select_visible

MAX_BYTES = 200_000  # of a picture
_SIZE = {"width": 1280, "height": 920}
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
    """Make the pictures of page and report in docs/figures from a run over the mini set."""

    run: Path = Field(ROOT / "results" / "demo", description="folder of the run, with report.html and single-turn/")
    split: str = Field("public_test", description="split that it answered")
    cache: Path = Field(DEFAULT_CACHE, description="where the mini set was prepared")
    figures: Path = Field(ROOT / "docs" / "figures", description="folder of the pictures")


class _Run(BaseAgent):
    """Placeholder of an agent, because the run is over."""

    def get_batch_size(self) -> int:
        return 1

    def batch_generate_response(self, *_: Any, **__: Any) -> list[str]:
        raise AssertionError


class RecordedAnswerer(Answerer):
    """Answerer that repeats the answers of a run; AgentError for other questions."""

    def __init__(self, records: Sequence[TurnRecord], about: About) -> None:
        super().__init__(_Run(), about=about)
        self._known = {record.query: record for record in records}

    def answer(self, questions: Sequence[Question], watch: Callable[[str], None] | None = None) -> list[Outcome]:  # noqa: ARG002
        """Answer as ``Answerer.answer`` does."""
        records = [self._known.get(question.text) for question in questions]
        if None in records:
            raise AgentError("the run was not asked this")
        return [build_outcome(record.answer, record) for record in records if record is not None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write page.png and report.png.

    Returns:
        0, or 2 if the run is missing or answers none of the page's examples.
    """
    options = ScreenshotOptions.parse(arguments)
    try:
        records = [*read_traces(options.run / "single-turn" / "trace.jsonl", needed=True).values()]
        told = read_manifest(options.run / "single-turn")
        about = About(told["preset"], told["profile"], options.split)
        answered = {record.query for record in records if record.decision is not None and record.decision.given}
        shown = [Example(*each) for each in choose_examples(about, options.cache)]
        place = next((place for place, each in enumerate(shown) if each.question in answered), None)
        if place is None:
            raise EvaluationError(f"{options.run} answers none of the page's examples; run more conversations")
    except (EvaluationError, OSError, KeyError) as error:
        print(f"error: {error!r}; make demo makes a run", file=sys.stderr)
        return 2
    with chromium() as browser:
        with _served(build_page_app(RecordedAnswerer(records, about), shown)) as url:
            write(ask_example(browser, url, place), options.figures / "page.png", PICTURES["page.png"])
        write(
            shot_of_report(browser, options.run / "report.html"), options.figures / "report.png", PICTURES["report.png"]
        )
    return 0


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start a headless Chromium of this machine."""
    path = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_QUIET)
        yield browser
        browser.close()


@contextlib.contextmanager
def _served(app: Any) -> Iterator[str]:
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
    page = _opened(browser, url)
    expect.set_options(timeout=1000 * _SECONDS)
    expect(page.locator("#told")).to_contain_text("then ask about it")  # its events are bound
    page.locator("#examples img").nth(place).click()
    expect(page.locator("#question textarea")).not_to_have_value("")
    expect(page.locator("#photo img")).to_be_visible()
    page.click("#ask")
    expect(page.locator("#told")).to_contain_text("Verdict")
    page.wait_for_load_state("networkidle")
    return _shoot(page)


def shot_of_report(browser: Browser, report: Path) -> Shot:
    """Open the first right answer of the report, and return a picture of it."""
    page = _opened(browser, report.resolve().as_uri())
    page.locator("article.turn.correct").first.evaluate("turn => turn.scrollIntoView({block: 'center'})")
    return _shoot(page)


def _shoot(page: Page) -> Shot:
    return Shot(page.screenshot(), tuple(page.evaluate(_TEXTS)))


def _opened(browser: Browser, url: str) -> Page:
    page = browser.new_page(viewport=_SIZE, color_scheme="light")
    page.goto(url)
    return page


def write(shot: Shot, path: Path, sources: Sequence[Path]) -> None:
    """Write a PNG with a palette, of as many colours as ``MAX_BYTES`` allow, with the commit and the words of the sources in it."""
    words = select_visible(chain.from_iterable(map(list_phrases, sources)), shot.texts)
    chunks = build_chunks(describe_picture(words))
    with Image.open(io.BytesIO(shot.png)) as picture:
        for colours in _COLOURS:
            made = io.BytesIO()
            plain = picture.convert("RGB").quantize(colours, dither=Image.Dither.NONE)
            plain.save(made, "PNG", optimize=True, pnginfo=chunks)
            if made.tell() <= MAX_BYTES:
                break
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.getvalue())
    print(f"{path}: {made.tell() / 1000:.0f} kB, {colours} colours")


if __name__ == "__main__":
    sys.exit(main())
