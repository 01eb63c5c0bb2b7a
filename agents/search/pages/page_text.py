"""The text of a whole web page: its main content, without the menus, footers and scripts around it."""

import logging
import re

import trafilatura

from agents.base.files import TooLargeError
from agents.texts.text import looks_like_markup, simplify_markup, visible_text

MAX_DOCUMENT = 8_000_000  # characters of a document's text to index
MAX_CHARACTERS = 200_000  # characters of a page's text to keep; answers are in far less

_MAX_TAGS = 400_000  # of a document

_MIN_CHARACTERS = 200
"""Where less than this of a page is taken for content, all that a reader sees of it is kept: a list, a form, a single line."""

_HEADING = re.compile(r"(<h([1-6])\b[^<>]{0,300}>)\s*(?!</h)", re.IGNORECASE)

logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it complains of every page without content


def check_tags(document: str) -> None:
    """Check that a document has few enough tags to be read.

    Raises:
        TooLargeError: It has more.
    """
    if (count := document.count("<")) > _MAX_TAGS:
        raise TooLargeError(f"it has {count} tags, of which at most {_MAX_TAGS} are read; divide it")


def main_content(page: str, characters: int = MAX_CHARACTERS) -> str:
    """Extract the main content of an HTML page by trafilatura, with recall favoured and tables kept.

    Headings are marked as in Markdown, so that a chunk can be given under the heading of its section.

    Returns:
        All that a reader sees if that finds too little; "" for a page that shows nothing without its scripts; other text as it is.
        At most ``characters`` of it.
    """
    if not looks_like_markup(page):
        return page[:characters]
    # Trafilatura looks at some of the attributes that hide an element, and melts powers and merged cells into their neighbours.
    simple_page = simplify_markup(page)
    content = (
        trafilatura.extract(
            _mark_headings(simple_page), favor_recall=True, include_tables=True, include_comments=False, fast=True
        )
        or ""
    )
    if len(content) < _MIN_CHARACTERS:
        content = visible_text(simple_page, cells=" | ").strip()
    return content[:characters]


def _mark_headings(page: str) -> str:
    return _HEADING.sub(lambda tag: f"{tag[1]}{'#' * int(tag[2])} ", page)
