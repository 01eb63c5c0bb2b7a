"""The text of a page of HTML as Markdown: all of a page of one's own, the main content of a page that a search found."""

import logging
from collections import Counter
from collections.abc import Collection
from functools import partial

import trafilatura
from lxml import etree

from agents.base.files import TooLargeError
from agents.search.reading import Reading, Remark
from agents.texts.markdown_writer import write_markdown
from agents.texts.markup_rewrites import write_powers
from agents.texts.phrasing import remove_unread, unwrap_phrasing
from agents.texts.table_rewrites import write_tables
from agents.texts.text import is_hidden, looks_like_markup, parse_page, without_controls

MAX_CHARACTERS = 200_000  # characters of a page's text to keep; answers are in far less

_MAX_TAGS = 400_000  # of a document

_MIN_CHARACTERS = 200
"""Where less than this of a page is taken for content, all of it but navigation and footer is kept: a list, a form, a single line."""

_BESIDE = ("nav", "footer")
_TITLE = etree.XPath("string(//title[not(ancestor::svg)])")
_BESIDE_NAVIGATION = etree.XPath(
    "boolean(//text()[normalize-space() and not(ancestor::nav or ancestor::head or ancestor::script or ancestor::style)])"
)
_REASONS = {
    "embedded frame": "its content is another file",
    "text for browsers without scripts": "browsers do not show it",
    "deleted text": "marked as deleted or no longer valid",
    "hidden text": "its attributes or style hide it",
    "navigation": "marked as navigation",
}

logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it complains of every page without content


def check_tags(document: str) -> None:
    """Check that a document has few enough tags to be read.

    Raises:
        TooLargeError: It has more.
    """
    if (count := document.count("<")) > _MAX_TAGS:
        raise TooLargeError(f"it has {count} tags, of which at most {_MAX_TAGS} are read; divide it")


def read_page(page: str) -> Reading:
    """Read all of a page of HTML as Markdown, except for its navigation and whatever it hides.

    Raises:
        TooLargeError: It has too many tags.
    """
    check_tags(page)
    if (root := parse_page(page)) is None:
        return Reading("")
    title = " ".join(_TITLE(root).split())
    pictures = sum(1 for _ in root.iter("img"))
    words = _simplify(root, is_own=True, beside=("nav",) if _BESIDE_NAVIGATION(root) else ())
    markdown = write_markdown(root)
    guessed = (
        [Remark("headers of tables", f"the first row of {markdown.guessed_headers} without header cells")]
        if markdown.guessed_headers
        else []
    )
    left_out = [Remark(what, _REASONS[what], words=count) for what, count in words.items()]
    return Reading(without_controls(markdown.text), title, tuple(left_out), tuple(guessed), pictures=pictures)


def main_content(page: str, characters: int = MAX_CHARACTERS) -> str:
    """Extract the main content of an HTML page by trafilatura, with recall favoured and tables kept.

    Headings are marked as in Markdown, so that a chunk can be given under the heading of its section.

    Returns:
        The whole page without navigation and footer if that finds too little; "" for a page that shows nothing without its scripts; other
        text as it is. At most ``characters`` of it.
    """
    if not looks_like_markup(page):
        return page[:characters]
    if (root := parse_page(page)) is None:
        return ""
    # Trafilatura drops unknown small elements with their words, and melts powers and merged cells into their neighbours.
    _simplify(root, is_own=False, beside=())
    _mark_headings(root)
    simple = etree.tostring(root, encoding="unicode", method="html")
    content = (
        trafilatura.extract(simple, favor_recall=True, include_tables=True, include_comments=False, fast=True) or ""
    )
    if len(content) < _MIN_CHARACTERS and (root := parse_page(page)) is not None:
        _simplify(root, is_own=False, beside=_BESIDE)
        content = write_markdown(root).text
    return "\n".join(map(str.rstrip, content[:characters].split("\n")))


def _simplify(root: etree._Element, *, is_own: bool, beside: Collection[str]) -> Counter[str]:
    """Remove what a page hides, and rewrite markup that plain text cannot show.

    Args:
        root: The page.
        is_own: Read descriptions of pictures, and whatever is only hidden from screen readers.
        beside: Tags of parts beside the content to remove.

    Returns:
        The words that were removed, by the name of their part.
    """
    words = remove_unread(root, partial(is_hidden, from_all=is_own), beside=beside)
    write_powers(root)
    unwrap_phrasing(root, descriptions=is_own)
    write_tables(root)
    return words


def _mark_headings(root: etree._Element) -> None:
    for heading in root.iter("h1", "h2", "h3", "h4", "h5", "h6"):
        if "".join(heading.itertext()).strip():
            heading.text = f"{'#' * int(heading.tag[1])} {(heading.text or '').lstrip()}"
