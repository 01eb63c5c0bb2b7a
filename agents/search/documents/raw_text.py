"""Takes the text out of a Word, Excel or PDF file's raw format without its reader: all runs, all cells, all letters.

What it returns is for counting alone (``losses``): it has no order, no layout, and also what a reader leaves out for a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from lxml import etree

from agents.search.documents.office_package import open_package, parse_part

_WORD_PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
_PARAGRAPH = "{*}p"  # of a document, also of its strict form, and of drawings
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"  # the same text for older programs
_SHEET_PARTS = re.compile(r"xl/(?:drawings/drawing\d+|comments/?(?:comment)?\d+)\.xml")
_WRAPPED = re.compile(
    r"[\u00ad\u2010\ufffe\x02-]\r?\n"
)  # a word that goes on in the next line; pdfium marks it by U+FFFE or U+0002


def read_raw_pdf(path: Path) -> str:
    """Return the letters of all pages, by pdfium; a page that pdfium cannot read has none.

    Raises:
        Exception: Whatever pdfium raises for a file other than a PDF.
    """
    import pypdfium2

    pages = []
    with pypdfium2.PdfDocument(path) as document:
        for number in range(len(document)):
            with suppress(pypdfium2.PdfiumError):  # the PDF's reader names the page
                pages.append(_WRAPPED.sub("", document[number].get_textpage().get_text_bounded()))
    return "\n".join(pages)


def read_raw_word(path: Path) -> str:
    """Return the text of all runs, a line for each paragraph, of the body, headers, footers, notes and comments.

    Raises:
        TooLargeError: The file is too large.
        UnreadableError: It is no document.
    """
    with open_package(path) as archive:
        parts = [parse_part(archive.read(name)) for name in archive.namelist() if _WORD_PARTS.fullmatch(name)]
    lines = []
    for part in parts:
        for repeated in [*part.iter(_FALLBACK)]:
            repeated.clear()
        lines += ["".join(_iterate_runs(paragraph)) for paragraph in part.iter(_PARAGRAPH)]
    return "\n".join(lines)


def _iterate_runs(paragraph: etree._Element) -> Iterator[str]:
    """Yield the texts of a paragraph but for those of paragraphs in its boxes, which have lines of their own."""
    for element in paragraph.iter("{*}t", "{*}delText", "{*}tab", "{*}br"):
        if next(element.iterancestors(_PARAGRAPH)) is paragraph:
            yield element.text or " "


def read_raw_workbook(path: Path) -> str:
    """Return the cells of all visible sheets but for numbers, whose format decides what is seen of them, and all boxes and notes.

    Raises:
        The errors of ``read_raw_word``.
        Exception: Whatever calamine raises for a file other than a workbook.
    """
    import python_calamine

    with open_package(path) as archive:
        boxes = [parse_part(archive.read(name)) for name in archive.namelist() if _SHEET_PARTS.fullmatch(name)]
    texts = [text for box in boxes for text in box.itertext("{*}t")]
    with python_calamine.load_workbook(path) as workbook:
        for sheet in workbook.sheets_metadata:
            if sheet.visible == python_calamine.SheetVisibleEnum.Visible:
                rows = workbook.get_sheet_by_name(sheet.name).to_python()
                texts += [cell for row in rows for cell in row if isinstance(cell, str)]
    return "\n".join(texts)


RAW_READERS: Mapping[str, Callable[[Path], str]] = {
    "pdf": read_raw_pdf,
    "word": read_raw_word,
    "workbook": read_raw_workbook,
}
"""By the names of the readers of ``document_process``."""
