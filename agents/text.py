"""Plain-text helpers shared by stages: cleaning what was retrieved, and cutting what is said."""

from __future__ import annotations

import html
import re
import unicodedata

from bs4 import BeautifulSoup

_SPECIAL_TOKEN = re.compile(r"<\|[^|<>]{0,40}\|>|</?s>|\[/?INST\]|<</?SYS>>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_BLANKS = re.compile(r"[ \t\u00a0]+")
_LINES = re.compile(r"\s*\n\s*")


def clean(text: str) -> str:
    """Retrieved text as plain text: HTML entities decoded, control characters and chat special tokens removed, blanks folded."""
    text = html.unescape(text)
    text = "".join(ch for ch in text if ch in "\n\t" or unicodedata.category(ch) not in ("Cc", "Cf"))
    text = _SPECIAL_TOKEN.sub(" ", text)
    return _LINES.sub("\n", _BLANKS.sub(" ", text)).strip()


def visible_text(page: str) -> str:
    """What a reader sees of a page: of HTML the text without tags, scripts and styles; other text as it is."""
    if not _TAG.search(page):
        return page
    soup = BeautifulSoup(page, "html.parser")
    for hidden in soup(["script", "style", "template", "noscript"]):
        hidden.decompose()
    return soup.get_text("\n" if soup.find(["p", "li", "h1", "h2", "h3", "tr", "div"]) else " ")


def one_line(text: str) -> str:
    """The text on one line, blanks folded."""
    return " ".join(text.split())


def cut_words(text: str, tokens: int) -> str:
    """At most about ``tokens`` tokens of a text, cut at a word.

    A Llama-3.2 token is seldom shorter than three characters of English prose on average, and never shorter than a
    word piece: counting 3 characters a token errs on the short side of the evaluator's cut.
    """
    most = 3 * tokens
    if len(text) <= most:
        return text
    head = text[:most]
    return head[: head.rfind(" ")] if " " in head else head
