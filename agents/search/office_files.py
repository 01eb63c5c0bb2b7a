"""Reads files of Word: a document as the text of a page."""

from __future__ import annotations

from pathlib import Path

from agents.search.documents.office_package import open_package
from agents.search.index_sources import SourceError

_HEADINGS = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => h2:fresh"  # beside Word's own


def read_word(path: Path) -> tuple[str, str]:
    """Read a document of Word as a page, without its pictures, and with the first row of each table as its header.

    Returns:
        Its first heading of the first level, or "", and its text.

    Raises:
        SourceError: mammoth is not installed.
        TooLargeError: The file is too large.
        ValueError: It is no document.
    """
    try:
        import mammoth
        from lxml import html

        from agents.search.pages.page_text import read_page
    except ImportError as error:
        raise SourceError("reading Word files takes: pip install mammoth") from error
    with open_package(path):
        pass
    with path.open("rb") as file:
        converted = mammoth.convert_to_html(
            file, style_map=_HEADINGS, convert_image=mammoth.images.img_element(lambda _: {"src": ""})
        )
    root = html.fragment_fromstring(converted.value, create_parent="article")
    for table in root.iter("table"):
        first = next(table.iter("tr"), None)
        for cell in [] if first is None else first.iterchildren("td"):
            cell.tag = "th"
    page = f"<html><body>{html.tostring(root, encoding='unicode')}</body></html>"
    heading = root.find(".//h1")
    title = "" if heading is None else " ".join(heading.text_content().split())
    return title, read_page(page).text
