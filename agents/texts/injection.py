"""Sanitises retrieved text against prompt injection: removes special tokens, headers of our prompts and instructions to the model.

The threat is indirect prompt injection (Greshake et al., 2023, arXiv 2302.12173). A list of phrases does not find every order; it finds
the plain ones at next to no cost in ordinary text (``tests/injection`` has both). Text that gets through is between quotation marks in the
prompts, and ``agents/texts/orders.py`` looks at the answer; lab/notes/injection.md says what that brings.
"""

import re
import tomllib
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

_SPECIAL_TOKEN = re.compile(
    r"<[|｜][^|｜<>]{0,40}[|｜]>"  # Llama, Qwen, DeepSeek: <|eot_id|>
    r"|</?(?:s|bos|eos|pad|unk|mask|image|img|video|start_of_turn|end_of_turn|start_of_image|think|tool_call|vision_start|vision_end)>"
    r"|\[/?(?:INST|IMG|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]|<</?SYS>>",
    re.IGNORECASE,
)
_MAX_ROUNDS = 8
_BARS = re.compile(r"<[|｜]|[|｜]>")
_FAKE_INFO = re.compile(
    r"\[\s*((?:info|doc|document|source|passage|evidence)\s*+(?:#\s*+)?\d{1,4})\s*\]", re.IGNORECASE
)
_FAKE_CITATION = re.compile(r"[\[【]\s*+(?:\^\s*+)?(\d{1,3})\s*[\]】]")
_ROLE_LINE = re.compile(
    r"(^|\n)([ \t]{0,8}(?:[=#-]{1,8}[ \t]{0,8})?)"
    r"(system|assistant|user|human|ai|information|evidence|question|answer|response|reason|instructions?|the conversation so far)"
    r"((?:[ \t]{1,4}(?:message|prompt))?[ \t]{0,4})(?::|(?=\n)|$)",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?\n]*(?:[.!?]+(?=\s|[\"'”’)\]]|$)[\"'”’)\]]*|\n|$)|[^.!?\n]*[.!?]+")

_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _insert_words(pattern: str) -> str:
    """Put the words of a list in the place of its name: "<ALL>" becomes "(?:every|all|any)"."""
    return re.sub(r"<([A-Z]+)>", lambda name: f"(?:{_insert_words('|'.join(_TABLE['words'][name[1]]))})", pattern)


_ORDERS = re.compile(
    rf"\b(?:{'|'.join(map(_insert_words, _TABLE['orders']))})"
)  # one boundary for all: elsewhere none is tried
_KEY_WORDS = frozenset(_TABLE["keys"].split())
_WORD = re.compile("[a-z]+")
_MAX_CHARACTERS = 200_000


def without_special_tokens(text: str) -> str:
    """Remove the marks of chat templates.

    A second application changes nothing more.
    """
    if "<" not in text and "[" not in text:
        return text
    for _ in range(_MAX_ROUNDS):
        shorter = _SPECIAL_TOKEN.sub(" ", text)
        if shorter == text:
            return text
        text = shorter  # the rest may close up to a new one: <|<|x|>eot|>
    return _BARS.sub(" ", text)  # nested on purpose; further rounds, one for each depth, would take quadratic time


def gives_orders(sentence: str) -> bool:
    """Return whether a sentence speaks to the model instead of about a thing.

    Compatibility forms of letters (full-width, bold) count as letters.
    """
    return _orders_in(_one_line(_fold(sentence)))


def neutral(text: str, *, citations: bool = True) -> str:
    """Neutralise retrieved text, so that it cannot be taken for a part of the prompt.

    Special tokens and orders are removed, and headers become plain words. With ``citations`` bare ``[3]``, as encyclopedias
    have them, are removed too: the model is to cite our documents, not theirs.
    """
    text = without_special_tokens(text[:_MAX_CHARACTERS])
    if "[" in text or "【" in text:
        text = _FAKE_INFO.sub(r"(\1)", text)
        if citations:
            text = _FAKE_CITATION.sub("", text)
    if "\n" in text or _ROLE_LINE.match(text):
        text = _ROLE_LINE.sub(_plain_header, text)
    return _without_orders(text) if _orders_in(_one_line(_fold(text))) else text


def _orders_in(folded: str) -> bool:
    """Return whether a folded text contains an order. A cheap test comes first: most texts lack the words that every order needs."""
    return not _KEY_WORDS.isdisjoint(_WORD.findall(folded)) and _ORDERS.search(folded) is not None


def _plain_header(line: re.Match[str]) -> str:
    """Rewrite a header as plain words."""
    before, _, header, kind = line.groups()
    return f"{before}{header}{kind} -"


def _without_orders(text: str) -> str:
    """Remove the sentences that an order touches.

    An order may go over several sentences, because lines may be broken anywhere.
    """
    parts: list[str] = _SENTENCE.findall(text)
    for _ in range(_MAX_ROUNDS):
        touched = _find_orders(parts)
        if not touched:
            return text
        parts = [part for number, part in enumerate(parts) if number not in touched]
        text = "".join(parts).strip()
    return ""  # orders within orders: not written for readers


def _find_orders(parts: Sequence[str]) -> set[int]:
    """Return the indices of the parts that contain orders."""
    folded = [_one_line(_fold(part)) for part in parts]
    ends = list(accumulate(map(len, folded)))
    touched: set[int] = set()
    for order in _ORDERS.finditer("".join(folded)):
        first, last = bisect_right(ends, order.start()), bisect_left(ends, order.end())
        while last + 1 < len(parts) and parts[last + 1][:1].islower():  # the line was broken within the sentence
            last += 1
        while first > 0 and parts[first][:1].islower() and parts[first - 1].endswith("\n"):
            first -= 1
        touched.update(range(first, last + 1))
    return touched


def _one_line(text: str) -> str:
    """Join the words of a text with a blank after each, the last one too."""
    return " ".join([*text.split(), ""])


def _fold(text: str) -> str:
    """Letters in their plain form, small: capitals, full-width, bold and other compatibility forms are read alike by a model."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).lower()
