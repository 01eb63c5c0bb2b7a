"""Reads HTML, Markdown and plain text: their bytes become Markdown, with a record of whatever is left out or guessed."""

import re
from collections.abc import Iterator
from dataclasses import replace

from lxml import etree

from agents.base.files import parse_front_matter
from agents.search.markdown_files import read_markdown
from agents.search.pages.charsets import Decoded, decode_text
from agents.search.pages.page_text import read_page
from agents.search.reading import Reading, Remark, count_words
from agents.texts.text import parse_page, without_controls

_BETWEEN_LINES = re.compile(
    r"\s*^---[ \t]*$.*?^---[ \t]*$\n?", re.MULTILINE | re.DOTALL
)  # no front matter, and no heading

_SCRIPTS = ("script", "style")
_COMMENT, _TAG = re.compile(r"<!--.*?-->", re.DOTALL), re.compile(r"</?[a-zA-Z][^<>]*>")


def read_html_file(data: bytes) -> Reading:
    """Read a page of HTML (``page_text.read_page``).

    Raises:
        TooLargeError: It has too many tags.
    """
    decoded = decode_text(data)
    return _add_guess(read_page(decoded.text), decoded)


def read_markdown_file(data: bytes) -> Reading:
    """Read a Markdown file, whose front matter may give its title.

    Raises:
        TooLargeError: It has too many tags.
    """
    decoded = decode_text(data)
    has_fields, title = False, ""
    guessed: tuple[Remark, ...] = ()
    text = _clean(decoded.text)
    try:
        document = parse_front_matter(text)
        if document.metadata:  # the part between two lines of "---" may be a text
            text, has_fields, title = document.content, True, str(document.metadata.get("title") or "")
    except ValueError as error:
        guessed = (Remark("fields", f"indexed as text: it has a {error}"),)
    head = "" if has_fields else (_BETWEEN_LINES.match(text) or [""])[0]
    reading = read_markdown(text[len(head) :])
    whole = replace(
        reading,
        text=f"{head}{reading.text}",
        title=title or reading.title,
        guessed=(*guessed, *reading.guessed),
        words=reading.words + count_words(head),
    )
    return _add_guess(whole, decoded)


def read_text_file(data: bytes) -> Reading:
    """Read a file of plain text as it is, but for invisible characters."""
    decoded = decode_text(data)
    visible = _clean(decoded.text).replace("\u00a0", " ").strip("\n")
    if decoded.text and not visible.strip():
        return Reading("", left_out=(Remark("invisible characters", "the file has no others"),))
    return _add_guess(Reading(visible), decoded)


def read_raw_html(data: bytes) -> str:
    """Return all text nodes of a page of HTML but for its scripts and styles, for counting (``losses``)."""
    root = parse_page(decode_text(data).text)
    return "" if root is None else " ".join(_iterate_text_nodes(root))


def _iterate_text_nodes(root: etree._Element) -> Iterator[str]:
    for element in root.iter(etree.Element):
        yield (element.text if element.tag not in _SCRIPTS else "") or ""
        yield element.tail or ""


def read_raw_markdown(data: bytes) -> str:
    """Return the text of a Markdown file without its front matter, its comments and its tags of HTML, for counting (``losses``)."""
    text = _clean(decode_text(data).text)
    head = (_BETWEEN_LINES.match(text) or [""])[0]
    return _TAG.sub(" ", _COMMENT.sub(" ", text[len(head) :]))


def _add_guess(reading: Reading, decoded: Decoded) -> Reading:
    if not decoded.guessed:
        return reading
    remark = Remark("encoding", f"read as {decoded.guessed}; save the file as UTF-8 if letters are wrong")
    return replace(reading, guessed=(remark, *reading.guessed))


def _clean(text: str) -> str:
    """Remove invisible characters, and end all lines alike."""
    return without_controls(text.replace("\r\n", "\n").replace("\r", "\n"))
