"""The date that a document states for itself: in the front matter of Markdown, in the head of HTML, in the properties of Word."""

from __future__ import annotations

import zipfile
from datetime import date, datetime
from pathlib import Path

from htmldate import find_date as find_html_date
from lxml import etree

from agents.base.files import parse_front_matter
from agents.search.pages.charsets import decode_page

_FIELDS = ("valid", "updated", "modified", "date")  # of front matter, the first one that is a date
_CORE = "docProps/core.xml"
_TERMS = "{http://purl.org/dc/terms/}"
_MAX_BYTES = 2**20  # of a page's beginning, or of a Word document's properties


def find_date(path: Path) -> str:
    """Return the date that a document states for itself, such as ``2026-04-01``; "" if it states none.

    A Word document that was never saved after its creation has the date of its template, which is none of its own.

    Raises:
        OSError: The file cannot be read.
    """
    ending = path.suffix.lower()
    try:
        if ending == ".docx":
            return _find_word_date(path)
        if ending not in (".md", ".markdown", ".html", ".htm", ".xhtml"):
            return ""
        with path.open("rb") as file:
            text = decode_page(file.read(_MAX_BYTES))
        if ending.startswith(".m"):
            return _find_field(text)
        return find_html_date(text, extensive_search=False) or ""
    except (ValueError, zipfile.BadZipFile, etree.LxmlError, KeyError, TypeError):
        return ""  # what is wrong with a file is told by its reader


def _find_field(text: str) -> str:
    fields = parse_front_matter(text).metadata
    dates = (fields.get(name) for name in _FIELDS)
    found = next((each for each in dates if isinstance(each, date)), None)
    return "" if found is None else (found.date() if isinstance(found, datetime) else found).isoformat()


def _find_word_date(path: Path) -> str:
    with zipfile.ZipFile(path) as archive, archive.open(_CORE) as file:
        properties = etree.fromstring(file.read(_MAX_BYTES), etree.XMLParser(resolve_entities=False, no_network=True))
    created, modified = (properties.findtext(f"{_TERMS}{name}") or "" for name in ("created", "modified"))
    return "" if modified in ("", created) else datetime.fromisoformat(modified).date().isoformat()
