"""Makes the pictures of page and report in docs/figures: ``make screenshots``, with the machine's Chromium.

The page is started as ``python -m apps.web`` starts it and asked its first examples until one is answered; the report is that of a run.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright
from pydantic import Field

from agents.settings.profiles import ROOT
from apps.answering import AnswererOptions, CannotStartError, start
from apps.http_server import configured, guarded
from apps.page import Example, page_app
from apps.web import examples

MAX_BYTES = 200_000  # of a picture
_SIZE = {"width": 1280, "height": 920}
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync")
_COLOURS = (256, 128, 64, 32)
_SECONDS = 300  # for an answer


class ScreenshotOptions(AnswererOptions):
    """Make the pictures of page and report in docs/figures."""

    report: Path | None = Field(None, description="report.html of a run; not given: no picture of a report")
    figures: Path = Field(ROOT / "docs" / "figures", description="folder of the pictures")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write page.png and report.png; 2 where something that they take is missing."""
    options = ScreenshotOptions.parse(arguments)
    try:
        answerer = start(options)
    except CannotStartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    shown = [Example(*each) for each in examples(answerer.about, options.cache)]
    with chromium() as browser:
        with _served(page_app(answerer, shown)) as url:
            write(ask_examples(browser, url, len(shown)), options.figures / "page.png")
        if options.report is not None:
            write(shot_of_report(browser, options.report), options.figures / "report.png")
    return 0


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium of this machine."""
    path = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_QUIET)
        yield browser
        browser.close()


@contextlib.contextmanager
def _served(app: Any) -> Iterator[str]:
    server = uvicorn.Server(configured(guarded(app)))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def ask_examples(browser: Browser, url: str, count: int) -> bytes:
    """The page after the first example that is answered, else after the last one, as a PNG."""
    page = _opened(browser, url)
    expect.set_options(timeout=1000 * _SECONDS)
    told = page.locator("#told")
    for place in range(count):
        expect(page.locator("#examples img").nth(place)).to_be_visible()
        page.locator("#examples img").nth(place).click()
        expect(page.locator("#question textarea")).not_to_have_value("")
        expect(page.locator("#photo img")).to_be_visible()
        page.click("#ask")
        expect(told).to_contain_text("Verdict")
        if told.locator(".answered").count():
            break
    page.wait_for_load_state("networkidle")
    return page.screenshot()


def shot_of_report(browser: Browser, report: Path) -> bytes:
    """The report with its first right answer open, as a PNG."""
    page = _opened(browser, report.resolve().as_uri())
    # Below the filters.
    page.locator("article.turn.correct").first.evaluate("turn => scrollTo(0, turn.offsetTop - 110)")
    return page.screenshot()


def _opened(browser: Browser, url: str) -> Page:
    page = browser.new_page(viewport=_SIZE, color_scheme="light")
    page.goto(url)
    return page


def write(shot: bytes, path: Path) -> None:
    """Write a PNG with a palette, of as many colours as ``MAX_BYTES`` allow."""
    with Image.open(io.BytesIO(shot)) as picture:
        for colours in _COLOURS:
            made = io.BytesIO()
            picture.convert("RGB").quantize(colours, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
            if made.tell() <= MAX_BYTES:
                break
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.getvalue())
    print(f"{path}: {made.tell() / 1000:.0f} kB, {colours} colours")


if __name__ == "__main__":
    sys.exit(main())
