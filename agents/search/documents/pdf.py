"""Reads PDF files as people read them: column by column, tables row by row, turned text as if the page were turned."""

from __future__ import annotations

import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import atan2, degrees
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.base.files import TooLargeError, read_bounded
from agents.search.documents.errors import UnreadableError
from agents.search.documents.pdf_columns import find_flows
from agents.search.documents.pdf_forms import read_forms
from agents.search.documents.pdf_paragraphs import Block, join_flows, write_pages
from agents.search.index_sources import SourceError
from agents.search.reading import NOT_READ, Reading, Remark, count_words
from agents.search.searchers import reason

if TYPE_CHECKING:
    from pdfplumber.page import Page

_MAX_BYTES, _MAX_PAGES = 200 * 2**20, 10_000  # a PDF may have pictures
_STEEP = 10.0  # degrees: text at another angle to its page is a watermark or a label in a drawing
_DOUBLE = 0.15  # of the size of a letter: the same letter so near is printed twice; an "l" is 0.2 wide
_PICTURE = 0.02  # of a page: a smaller picture is an ornament
_MAX_NAMED = 10  # pages in a message
_TOO_MUCH = "it takes too much memory"
_UNKNOWN = re.compile(r"\(cid:\d+\)")
_OFFICE = re.compile(r"Microsoft (?:Word|PowerPoint|Excel|Publisher) - ")
_FILE_NAME = re.compile(
    r"\S*\.(?:docx?|odt|rtf|pptx?|xlsx?|indd|pub|pages|tex|dvi|qxd|pdf|html?)|untitled\d*", re.IGNORECASE
)
_LEFT_OUT = {  # by what was left out
    "text outside of the page": "the page is cut there",
    "slanted text": "a watermark or a label in a drawing",
    "letters without meaning": "the file holds their shapes alone; print it to a new PDF, or OCR it",
}


def read_pdf(path: Path) -> dict[str, Reading]:
    """Read a PDF page by page, by "page=N"; under "" stands what concerns the whole file.

    Raises:
        SourceError: pdfplumber is not installed.
        TooLargeError: The file has more bytes or pages than are read.
        UnreadableError: The file takes a password.
        Exception: Whatever the parser raises for a file other than a PDF.
    """
    try:
        import pdfplumber
        from pdfminer.pdfdocument import PDFPasswordIncorrect
        from pdfminer.pdftypes import dict_value, int_value
        from pdfplumber.utils.exceptions import PdfminerException
    except ImportError as error:
        raise SourceError("reading PDF files takes: pip install pdfplumber") from error
    data = read_bounded(path, _MAX_BYTES)
    try:
        file = pdfplumber.open(io.BytesIO(data))
    except PdfminerException as error:
        cause = _unwrap(error)
        if isinstance(cause, PDFPasswordIncorrect):
            raise UnreadableError("it takes a password; save it without one") from error
        raise cause from error
    _check_count(int_value(dict_value(file.doc.catalog.get("Pages")).get("Count")))  # listing them takes long, too
    _check_count(len(file.pages))  # a file may have more than it says
    title = _clean_title(file.metadata.get("Title")) or path.stem
    pages: dict[int, list[Block]] = {}
    left_out: dict[int, Counter[str]] = {}
    pictures: dict[int, int] = {}
    broken: dict[str, list[int]] = defaultdict(list)
    with file:
        for number, page in enumerate(file.pages, 1):
            try:
                pictures[number] = _count_pictures(page)
                pages[number], left_out[number] = _read_page(page)
                if not (pages[number] or left_out[number] or page.images or page.curves or page.rects or page.lines):
                    del pages[number]  # an empty page
            except Exception as error:  # noqa: BLE001 - parsers of strangers' files raise anything; the other pages are read
                cause = _unwrap(error)
                broken[_TOO_MUCH if isinstance(cause, MemoryError) else reason(cause)].append(number)
            finally:
                page.close()
    readings = {
        f"page={number}": Reading(
            text,
            f"{title}, page {number}",
            tuple(Remark(what, _LEFT_OUT[what], f"page {number}", count) for what, count in left_out[number].items()),
            pictures=pictures[number],
        )
        for number, text in write_pages(pages).items()
    }
    remarks = [Remark(NOT_READ, why, _name_pages(numbers)) for why, numbers in broken.items()]
    if scans := [number for number in pages if not (pages[number] or left_out[number])]:
        remarks.append(Remark("no text", "a scan? OCR it first", _name_pages(scans)))
    if pictured := [number for number in pages if pages[number] and pictures[number]]:
        remarks.append(Remark("text in pictures", "pictures are not read", _name_pages(pictured)))
    return {"": Reading("", title, tuple(remarks)), **readings}


def _unwrap(error: Exception) -> Exception:
    """Return the error of the parser that pdfplumber put into one of its own."""
    return next((cause for cause in error.args if isinstance(cause, Exception)), error)


def _check_count(pages: int) -> None:
    if pages > _MAX_PAGES:
        raise TooLargeError(f"it has {pages} pages, of which at most {_MAX_PAGES} are read; divide it")


def _clean_title(title: object) -> str:
    """Return a document's title; "" for a name of a file, which programs write there."""
    text = _OFFICE.sub("", " ".join(title.split())) if isinstance(title, str) else ""
    return "" if _FILE_NAME.fullmatch(text.rpartition(" ")[2]) else text


def _name_pages(numbers: Sequence[int]) -> str:
    named = ", ".join(map(str, numbers[:_MAX_NAMED])) + (" ..." if len(numbers) > _MAX_NAMED else "")
    return f"pages {named}" if len(numbers) > 1 else f"page {named}"


def _count_pictures(page: Page) -> int:
    area = page.width * page.height
    return sum(image["width"] * image["height"] >= _PICTURE * area for image in page.images)


def _read_page(page: Page) -> tuple[list[Block], Counter[str]]:
    """Read a page, its text in each direction apart, and count the words that are left out."""
    kept, left_out = _choose_letters(page)
    angles = Counter(_find_angle(letter) for letter in kept)
    blocks: list[Block] = []
    for angle, _ in angles.most_common():
        if angle is None:
            continue
        view, letters = (page, kept) if not angle else _turn(page, angle)
        chosen = {id(letter) for letter in letters if _find_angle(letter) == 0}
        view = view.filter(lambda each, chosen=chosen: each["object_type"] != "char" or id(each) in chosen)
        blocks += join_flows(find_flows(view))
    return [*blocks, *(Block(text, 0) for text in read_forms(page))], left_out


def _turn(page: Page, angle: int) -> tuple[Page, list[dict[str, Any]]]:
    """Return a page turned by an angle against the clock, and its letters."""
    attributes = page.page_obj.attrs
    before = attributes.get("Rotate"), page.page_obj.rotate
    attributes["Rotate"] = page.page_obj.rotate = (page.rotation + angle) % 360
    try:
        turned = type(page)(page.pdf, page.page_obj, page.page_number)
        return turned, _choose_letters(turned)[0]
    finally:
        attributes["Rotate"], page.page_obj.rotate = before
        if before[0] is None:
            del attributes["Rotate"]


def _find_angle(letter: Mapping[str, Any]) -> int | None:
    """Return the direction of a letter: 0 for upright, 90 for turned to the left ...; None for slanted."""
    a, b = letter["matrix"][:2]
    angle = degrees(atan2(b, a))
    nearest = round(angle / 90) * 90
    return nearest % 360 if abs(angle - nearest) <= _STEEP else None


def _choose_letters(page: Page) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return the letters that a reader sees once, and the words of the others by why they are left out."""
    x0, top, x1, bottom = page.cropbox
    kept: list[dict[str, Any]] = []
    others: dict[str, list[str]] = defaultdict(list)
    for letter in page.chars:
        x, y = (letter["x0"] + letter["x1"]) / 2, (letter["top"] + letter["bottom"]) / 2
        if not (x0 <= x <= x1 and top <= y <= bottom):
            others["text outside of the page"].append(letter["text"])
        elif _UNKNOWN.fullmatch(letter["text"]):
            others["letters without meaning"].append(" x ")
        elif _find_angle(letter) is None:
            others["slanted text"].append(letter["text"])
        else:
            kept.append(letter)
    return [*_drop_doubles(kept)], Counter(
        {what: words for what, texts in others.items() if (words := count_words("".join(texts)))}
    )


def _drop_doubles(letters: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield letters without those that are printed twice, for bold or a shadow."""
    places: dict[tuple[str, int, int], list[tuple[float, float]]] = defaultdict(list)
    for letter in letters:
        text, x, y, near = letter["text"], letter["x0"], letter["top"], max(_DOUBLE * letter["size"], 0.1)
        column, row = int(x / near), int(y / near)
        around = (places[text, column + dx, row + dy] for dx in (-1, 0, 1) for dy in (-1, 0, 1))
        if text.isspace() or not any(abs(x - px) < near and abs(y - py) < near for each in around for px, py in each):
            places[text, column, row].append((x, y))
            yield letter
