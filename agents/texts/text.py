"""Plain-text helpers shared by stages: cleaning what was retrieved, and cutting what is said."""

from __future__ import annotations

import html
import re
import unicodedata

from bs4 import BeautifulSoup, Tag

from agents.texts.injection import without_special_tokens

_MOST_PAGE = 400_000  # characters of a page that are looked at; what answers a question stands in far less
_INLINE = ["a", "abbr", "b", "bdi", "bdo", "cite", "code", "em", "font", "i", "mark", "s", "small", "span", "strong", "sub", "sup",
           "u", "wbr"]  # fmt: skip
_HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d]*[1-9])|opacity\s*:\s*0(?![.\d]*[1-9])|"
    r"text-indent\s*:\s*-\d{3,}|(?:left|top)\s*:\s*-\d{3,}|(?:max-)?(?:height|width)\s*:\s*0(?:px)?\s*(?:;|$)",
    re.IGNORECASE,
)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_BLANKS = re.compile(r"[ \t\u00a0]+")
_LINES = re.compile(r"\s*\n\s*")


def clean(text: str) -> str:
    """Retrieved text as plain text: HTML entities decoded, control characters and chat special tokens removed, blanks folded."""
    text = without_special_tokens(without_controls(html.unescape(text)))
    return _LINES.sub("\n", _BLANKS.sub(" ", text)).strip()


def without_controls(text: str) -> str:
    """The text without control and format characters (zero-width ones, turns of direction, tags) and lone surrogates."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(ch for ch in text if ch in "\n\t" or unicodedata.category(ch) not in ("Cc", "Cf", "Cs"))


def visible_text(page: str) -> str:
    """What a reader sees of a page: of HTML the text without tags, scripts, styles and what its styles hide; other text as it is."""
    page = page[:_MOST_PAGE]
    if not _TAG.search(page):
        return page
    soup = BeautifulSoup(page, "html.parser")
    for hidden in soup(["script", "style", "template", "noscript", "object", "iframe"]):
        hidden.decompose()
    for tag in soup(_is_hidden):
        if not tag.decomposed:
            tag.decompose()
    for inline in soup(_INLINE):  # they tear no word: <p>an <b>exa</b>mple</p> is one line
        inline.unwrap()
    soup.smooth()
    return soup.get_text("\n" if soup.find(["p", "li", "h1", "h2", "h3", "tr", "div"]) else " ")


def _is_hidden(tag: Tag) -> bool:
    return (
        tag.has_attr("hidden")
        or str(tag.get("aria-hidden", "")).lower() == "true"
        or _HIDDEN_STYLE.search(str(tag.get("style", ""))[:500]) is not None
    )


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
