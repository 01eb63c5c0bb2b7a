"""Plain-text helpers shared by stages: cleaning of retrieved text, and truncation."""

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator
from math import ceil

from lxml import etree
from lxml import html as markup

from agents.texts.injection import without_special_tokens
from agents.texts.markup_rewrites import may_raise, write_powers
from agents.texts.phrasing import BLOCKS

_MAX_MARKUP = 8_000_000  # characters of a page to look at: style sheets alone may take hundreds of thousands
_MAX_TEXT = 400_000  # characters of its text to keep; answers are in far less
_PARAGRAPHS = frozenset("p li h1 h2 h3 tr div".split())
_UNSEEN = frozenset("head script style template noscript noembed noframes object iframe".split())
_HIDING = {"display": "none", "visibility": "hidden"}
_OUTSIDE = -100  # pixels
_WHOLE = frozenset(("html", "body"))  # hidden until a script has run
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")
_WORD = re.compile(r"\w+")
FIGURE = re.compile(r"\d+(?:[.,]\d+)*")  # a number in digits: "1,200.5"
_BLANKS = re.compile(r"[ \t\u00a0]+")
CHARACTERS_A_TOKEN = 3
"""A token of Llama 3 has 4.5 characters of English prose on average, and seldom fewer than three."""

_PIECE = re.compile(r"[A-Za-z]{1,30}|[0-9]{1,30}| (?=[0-9])|\S")  # a blank is a token of its own before a figure alone
_LETTERS_A_TOKEN = 5  # common words of any length take one token
_LETTERS_OF_NAMES_A_TOKEN = 3  # names are spelt in pieces, and so are words in capitals
_DIGITS_A_TOKEN = 3  # Llama 3 splits figures so
# One line of ASCII without entities, tags, brackets and blanks to fold
_CLEAN = re.compile(r"[A-Za-z0-9!-%'-;=?@_~]++(?: [A-Za-z0-9!-%'-;=?@_~]++)*+")


def clean(text: str) -> str:
    """Convert retrieved text to plain text.

    HTML entities are decoded, control characters and chat special tokens are removed, and blanks are folded.
    """
    if _CLEAN.fullmatch(text):  # so is most of an infobox
        return text
    text = _BLANKS.sub(" ", without_special_tokens(without_controls(html.unescape(text))))
    # Line by line: an expression for blanks around a line's end takes quadratic time on long runs of them.
    lines = (line.strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


class _CharacterTable(dict[int, int | None]):
    """Table for ``str.translate`` that looks each character up once."""

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        is_kept = character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")
        self[code] = code if is_kept else None
        return self[code]


_CHARACTERS = _CharacterTable()


def without_controls(text: str) -> str:
    """Remove control and format characters and lone surrogates.

    Format characters are, for example, zero-width ones, turns of direction and tags.
    """
    return text if text.isascii() and text.isprintable() else text.translate(_CHARACTERS)


def looks_like_markup(page: str) -> bool:
    """Return whether a text has HTML tags."""
    return _TAG.search(page) is not None


def visible_text(page: str) -> str:
    """Extract the text that a reader of a page sees.

    HTML loses its tags, its scripts, its styles and what its styles hide; other text stays as it is. The time is linear in
    the page. At most ``_MAX_MARKUP`` characters of the page are read, and at most ``_MAX_TEXT`` of its text are returned;
    libxml2 leaves out elements nested more than 2,048 deep.
    """
    if not looks_like_markup(page):
        return page[:_MAX_TEXT]
    if (root := parse_page(page)) is None:
        return ""
    if may_raise(page):
        write_powers(root)
    return "".join(_iterate_texts(root))[:_MAX_TEXT]


def parse_page(page: str) -> markup.HtmlElement | None:
    """Parse a page without its comments.

    Returns:
        None if nothing is left but comments.
    """
    parser = markup.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    # NUL ends the document for older libxml2; it cannot encode lone surrogates.
    data = page[:_MAX_MARKUP].replace("\0", " ").encode("utf-8", errors="ignore")
    try:
        return markup.document_fromstring(data, parser=parser)
    except etree.ParserError:
        return None


def _iterate_texts(root: etree._Element) -> Iterator[str]:
    """Yield the texts of a page in their order, with a separator between blocks."""
    between = "\n" if next(root.iter(*_PARAGRAPHS), None) is not None else " "
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if event == "start":
            if element.tag in _UNSEEN or is_hidden(element):
                walk.skip_subtree()
                continue
            text = element.text
        else:
            text = element.tail
        if element.tag in BLOCKS:
            yield between
        if text:
            yield text


def is_hidden(element: etree._Element, *, from_all: bool = False) -> bool:
    """Return whether an element's attributes hide it.

    Args:
        element: The element.
        from_all: Count one that is only hidden from screen readers as shown.
    """
    if element.tag in _WHOLE:
        return False
    return (
        element.get("hidden", "until-found").lower() != "until-found"
        or (not from_all and element.get("aria-hidden", "").lower() == "true")
        or any(map(_hides, element.get("style", "")[:500].lower().split(";")))
    )


def _hides(declaration: str) -> bool:
    """Return whether a declaration of a style hides its element."""
    name, _, value = (part.strip() for part in declaration.partition(":"))
    if name in _HIDING:
        return value.startswith(_HIDING[name])
    length = value.partition(" ")[0].partition("!")[0]
    try:
        number = float(length.rstrip("abcdefghijklmnopqrstuvwxyz%"))
    except ValueError:
        return False
    if name in ("text-indent", "left", "top"):
        return number <= _OUTSIDE
    is_size = name.removeprefix("max-") in ("height", "width") and length in ("0", "0px")
    return number == 0 and (is_size or name in ("font-size", "opacity"))


def one_line(text: str) -> str:
    """Put a text on one line and fold its blanks."""
    return " ".join(text.split())


def cut_words(text: str, characters: int) -> str:
    """Cut a text between words to at most ``characters``."""
    if len(text) <= characters:
        return text
    head = text[:characters]
    return head[: head.rfind(" ")] if " " in head else head


def cut_to_tokens(text: str, tokens: int) -> str:
    """Cut a text between words to at most ``tokens`` tokens, by an estimate on the high side.

    English prose gets 1.25 times its tokens by Llama 3's tokenizer. Of 3,690 passages of the mini set cut to 74, one still
    had more than 74 by that tokenizer, namely 76. Scripts that it spells in bytes, such as Hebrew and Armenian, may exceed ``tokens``.
    """
    left = tokens
    for piece in _PIECE.finditer(text):
        left -= _estimate_tokens(piece.group())
        if left < 0:
            return cut_words(text, piece.start())
    return text


def _estimate_tokens(piece: str) -> int:
    """Estimate the tokens of a word, a figure or a sign."""
    if not piece.isascii():
        return max(1, len(piece.encode(errors="replace")) - 1)
    if piece.isalpha():
        return ceil(len(piece) / (_LETTERS_A_TOKEN if piece.islower() else _LETTERS_OF_NAMES_A_TOKEN))
    return ceil(len(piece) / _DIGITS_A_TOKEN)


def count_phrases(text: str, phrases: Iterable[str]) -> int:
    """Count how often a text has one of some phrases as whole words, in any case. Phrases are in lower case."""
    words = f" {'  '.join(_WORD.findall(text.lower()))} "
    return sum(words.count(f" {phrase.replace(' ', '  ')} ") for phrase in phrases)


def has_words(text: str, words: str) -> bool:
    """Return whether a text contains words as whole words, in any case."""
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE) is not None


def format_attribute(key: str, value: str) -> str:
    """Format an attribute as people write it: ``Built: 1874``."""
    return f"{key[:1].upper()}{key[1:]}: {value}"


def describe_attribute(text: str, entity: str) -> str:
    """Return a sentence like ``The built of Old Mill is 1874.`` as people write it, ``Built: 1874``; any other text as it is."""
    beginning, between, value = text.partition(f" of {entity} is ")
    key = beginning.removeprefix("The ")
    if not between or key == beginning or between in value or not value.endswith("."):
        return text
    return format_attribute(key, value[:-1])
