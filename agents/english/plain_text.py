"""Normalisation that makes answers comparable: one spelling for quotes, dashes, accents, contractions, numbers and plurals."""

from __future__ import annotations

import re
import unicodedata

from text_to_num import alpha2digit

from agents.english.figure_spelling import format_decimal, spell_figures

_QUOTES = str.maketrans(
    {"‘": "'", "’": "'", "ʼ": "'", "`": "'", "“": '"', "”": '"', "–": "-", "—": " - ", "−": "-", "‐": "-"}
)
_GROUP_BLANK = re.compile(r"(?<=\d)[\u00a0\u202f\u2009](?=\d{3}(?!\d))")
_GROUP_COMMA = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_CITATION = re.compile(r"\[\d+\]|[*_#]+(?=\S)|(?<=\S)[*_#]+")
DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d{1,2}(?!\d))")  # not that of "1,234"
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "bn": 1e9, "trillion": 1e12}
_NUMBER = r"(?<![\d.])(\d++(?:\.\d++)?+)"
_SCALE = re.compile(rf"(?:{_NUMBER}( ?(?:-|to|and) ?))?{_NUMBER}[ -]?({'|'.join(_SCALES)})\b", re.IGNORECASE)
_CONTRACTIONS = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"\bcan'?t\b|\bcannot\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"n't\b", " not"),
        (r"\b(it|that|this|there|he|she|what|who|where|which|how)'s\b", r"\1 is"),
        (r"'(?:re)\b", " are"),
        (r"'s\b", ""),
        (r"\bnot only\b|\bno doubt\b", " "),
        (r"\bno\.? ?(?=\d)", "number "),
    )
)
_PRONOUN_ONE = re.compile(
    r"\b(no|this|that|which|the|each|any|every|some|another|other|left|right|first|last) one\b", re.IGNORECASE
)
_SMALL_NUMBERS = (
    (re.compile(r"\btwo\b", re.IGNORECASE), "2"),
    (re.compile(r"\bone\b(?! of (?!them\b)| another\b)", re.IGNORECASE), "1"),
)
_TOKEN = re.compile(r"[a-z0-9]+(?:\.\d+)?")

AUXILIARIES = frozenset(
    "is are was were do does did can could has have had will would shall should may might must".split()
)
STOPWORDS = frozenset(
    """a an the of in on at to for from by with and or as is are was were be been being it its this that these those there
    he she they his her their them i you we my your our has have had do does did can could will would shall should may might
    must which who whom whose what when where why how than then so also just very about around approximately roughly nearly
    called named known image picture photo shown shows seen into over per if because""".split()
)  # fmt: skip
"""Words that say nothing of an answer's content."""
_NO_NOUNS = frozenset(("after", "before", "since", "during", "but", "out", "under", "until"))


def normalise_text(text: str) -> str:
    """Normalise a text: as ``normalise_spelling`` does, in lower case."""
    return normalise_spelling(text).lower()


def normalise_spelling(text: str, *, number_words: bool = True) -> str:
    """Normalise a text but for its case: ASCII punctuation, no accents, contractions and numbers expanded.

    Args:
        text: The text.
        number_words: Whether numbers in words become figures too. All figures lose their separators.
    """
    text = _GROUP_BLANK.sub("", text).replace("U.S.", "US")
    text = unicodedata.normalize("NFKC", spell_figures(text)).translate(_QUOTES)
    text = "".join(ch for ch in unicodedata.normalize("NFD", text) if not unicodedata.combining(ch))
    text = _CITATION.sub(" ", DECIMAL_COMMA.sub(".", _GROUP_COMMA.sub("", text)))
    for pattern, replacement in _CONTRACTIONS:
        text = pattern.sub(replacement, text)
    text = _PRONOUN_ONE.sub(r"\1 thing", _SCALE.sub(_multiply, text))
    text = alpha2digit(text, "en") if number_words else text
    for pattern, replacement in _SMALL_NUMBERS if number_words else ():
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def _multiply(number: re.Match[str]) -> str:
    """Write a number with its scale in digits; "7 to 8 million" says the scale of both."""
    low, joint, high, scale = number.groups()
    factor = _SCALES[scale.lower()]
    shared = factor if low and float(low) < float(high) else 1.0
    written = [format_decimal(value) for value in (float(low or 0) * shared, float(high) * factor)]
    return joint.join(written) if low else written[1]


def stem(token: str) -> str:
    """Reduce a plural to its singular by the S-stemmer's three rules.

    Harman, How effective is suffixing?, 1991.
    """
    if len(token) > 4 and token.endswith("ies") and not token.endswith(("eies", "aies")):
        return token[:-3] + "y"
    if len(token) > 4 and token.endswith("es") and not token.endswith(("aes", "ees", "oes")):
        return token[:-1]
    if len(token) > 3 and token.endswith("s") and not token.endswith(("us", "ss", "0s")):
        return token[:-1]
    return token


def tokenise(plain_text: str) -> list[str]:
    """Split a plain text into stemmed words and numbers, in order."""
    return [stem(token) for token in _TOKEN.findall(plain_text)]


def tokenise_content(plain_text: str) -> list[str]:
    """Return the tokens of a plain text other than stopwords."""
    return [stem(token) for token in _TOKEN.findall(plain_text) if token not in STOPWORDS]


def counts_nothing(word: str) -> bool:
    """Return whether a word after a figure is none that it counts."""
    return word in STOPWORDS or word in _NO_NOUNS
