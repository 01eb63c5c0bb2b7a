"""Normalisation that makes answers comparable: one spelling for quotes, dashes, accents, contractions, numbers and plurals."""

from __future__ import annotations

import re
import unicodedata

from text_to_num import alpha2digit

_QUOTES = str.maketrans(
    {"‘": "'", "’": "'", "ʼ": "'", "`": "'", "“": '"', "”": '"', "–": "-", "—": " - ", "−": "-", "‐": "-"}
)
_GROUP_BLANK = re.compile(r"(?<=\d)[\u00a0\u202f\u2009](?=\d{3}(?!\d))")
_GROUP_COMMA = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_CITATION = re.compile(r"\[\d+\]|[*_#]+(?=\S)|(?<=\S)[*_#]+")
_SCALE = re.compile(r"(\d+(?:\.\d+)?)[ -]?(hundred|thousand|million|billion|bn|trillion)\b")
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "bn": 1e9, "trillion": 1e12}
_CONTRACTIONS = (
    (re.compile(r"\bcan'?t\b|\bcannot\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\b(it|that|this|there|he|she|what|who|where|which|how)'s\b"), r"\1 is"),
    (re.compile(r"'(?:re)\b"), " are"),
    (re.compile(r"'s\b"), ""),
    (re.compile(r"\bnot only\b|\bno doubt\b"), " "),
)
_PRONOUN_ONE = re.compile(r"\b(no|this|that|which|the|each|any|every|some|another|other|left|right|first|last) one\b")
_ONE = re.compile(r"\bone\b(?! of (?!them\b)| another\b)")
_NUMBER_SIGN = re.compile(r"\bno\.? ?(?=\d)")
_TOKEN = re.compile(r"[a-z0-9]+(?:\.\d+)?")

STOPWORDS = frozenset(
    """a an the of in on at to for from by with and or as is are was were be been being it its this that these those there
    he she they his her their them i you we my your our has have had do does did can could will would shall should may might
    must which who whom whose what when where why how than then so also just very about around approximately roughly nearly
    called named known image picture photo shown shows seen into over per if because""".split()
)  # fmt: skip
"""Words that say nothing of an answer's content."""


def normalise_text(text: str) -> str:
    """Normalise a text: lower case, ASCII punctuation, no accents, contractions and numbers expanded.

    Numbers become digits without separators.
    """
    text = _GROUP_BLANK.sub("", text)
    text = unicodedata.normalize("NFKC", text).translate(_QUOTES)
    text = "".join(ch for ch in unicodedata.normalize("NFD", text) if not unicodedata.combining(ch)).lower()
    text = _CITATION.sub(" ", _GROUP_COMMA.sub("", text))
    for pattern, replacement in _CONTRACTIONS:
        text = pattern.sub(replacement, text)
    text = _NUMBER_SIGN.sub("number ", text)
    text = _SCALE.sub(lambda match: f"{float(match[1]) * _SCALES[match[2]]:.4f}".rstrip("0").rstrip("."), text)
    text = _PRONOUN_ONE.sub(r"\1 thing", text)
    digits: str = alpha2digit(text, "en")
    return " ".join(_ONE.sub("1", re.sub(r"\btwo\b", "2", digits)).split())


def stem(token: str) -> str:
    """Reduce a plural to its singular by the S-stemmer's three rules.

    Harman, How effective is suffixing?, 1991.
    """
    if len(token) > 4 and token.endswith("ies") and not token.endswith(("eies", "aies")):
        return token[:-3] + "y"
    if len(token) > 4 and token.endswith("es") and not token.endswith(("aes", "ees", "oes")):
        return token[:-1]
    if len(token) > 3 and token.endswith("s") and not token.endswith(("us", "ss")):
        return token[:-1]
    return token


def tokenise(plain_text: str) -> list[str]:
    """Split a plain text into stemmed words and numbers, in order."""
    return [stem(token) for token in _TOKEN.findall(plain_text)]


def tokenise_content(plain_text: str) -> list[str]:
    """Return the tokens of a plain text that are no stopwords."""
    return [stem(token) for token in _TOKEN.findall(plain_text) if token not in STOPWORDS]
