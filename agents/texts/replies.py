"""Tolerant parsing of replies of chat models: JSON, labelled lines, yes or no, a number; the complete sentences of a truncated reply.

Engines that can constrain a reply to a schema give clean JSON; others wrap it in prose and fences, leave out quotes or stop in the
middle. Every function returns None rather than raise: what cannot be read was not said.
"""

import re
from typing import Any

import json_repair
import sentencex

from agents.models.base import ChatReply
from agents.texts.text import without_controls

_MAX_CHARACTERS = 20_000  # of a reply; an endless one must not cost endless time
_MAX_VERDICT = 4_000
_MAX_JSON = 8_000  # no prompt allows a reply of more than some hundred tokens
_MAX_OPEN = 200  # brackets; the time that repairing takes grows with the square of their depth
_MARKS = re.compile(r"[*_`\"“”]")
_LINE_LABEL = re.compile(r"^\W*(?P<label>[a-z][a-z -]{0,30}?)\s*:\s*")
_REASONS = frozenset({"reason", "reasoning", "explanation", "because", "analysis", "rationale"})
_JUDGED = (
    r"(?P<no>(?:not |in|un|partially |partly )(?:correct|supported|consistent|true|right|accurate)|wrong|false)|"
    r"(?P<yes>correct|supported|consistent|true|right|accurate)"
)
_OUTRIGHT = re.compile(
    rf"\W*(?:(?P<certain_yes>yes)\b|(?P<certain_no>no)\b|(?:it is |it's |the )?(?:{_JUDGED})(?: answer)?\s*(?:[.,;:!)–—-]|$))"
)
_SAID_OF_IT = re.compile(
    r"\b(?:answers?|responses?|statements?|claims?|predictions?|they|it|this|that)\b(?: \w+){0,3}? (?:is|are|was|were|seems?) "
    rf"(?:{_JUDGED})\s*(?:[.;!]|$)"
)
_REJECTED = re.compile(
    r"\b(?:incorrect|unsupported|inconsistent|inaccurate|(?:not|isn't|aren't) (?:\w+ )?(?:correct|supported|consistent|true|accurate))\b"
)
_AGAINST = re.compile(r"\b(?:contradicts?|(?:does|do) not support) (?:the|this|that) answer\b")
_EITHER = re.compile(r"\W*or\b")  # "Correct Answer, or Incorrect Answer": the choice repeated
_FENCE = re.compile(r"^[^\S\n]*```\w*[^\S\n]*$", re.MULTILINE)
_NUMBERED = re.compile(r"\s*\[\d{1,2}\]\s")
_MARKER = re.compile(
    r"^\W{0,3}(?:[-–—•+>]\s*|\(?\d{1,2}[.):]\s+|\[\d{1,2}\]\s*|"
    r"(?:(?:web|image|google) )?(?:search )?(?:query|queries|search)\W{0,2}\d{0,2}\s*[:.)–-]\s*)+",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"([^\"\n]{2,200})\"|“([^”\n]{2,200})”")
_BETWEEN = re.compile(r";|(?<!\s)\s+\(?\d{1,2}[.)]\s+(?=\S)")
_MAX_ITEM_WORDS = 15  # more are a sentence of prose, where short items were asked for
_NUMBER = re.compile(r"(?<![\w.])(?:\d+(?:\.\d+)?|\.\d+)(?![\w])")
_MAX_SPLIT = 6_000  # sentencex takes quadratic time on some quotes
_END_CHARACTERS = 80
_ENDED = re.compile(r"[^\W\d_]{4}[\"')]*(?: ?\[[\d, ]+\])*[.!?][\"')]*(?: ?\[[\d, ]+\])*$")
"""A word, its citations and its full stop, in either order; "3." and "Mt." may go on."""


def json_object(reply: str) -> dict[str, Any] | None:
    """Parse the first JSON object of a reply, and repair it if it is incomplete.

    Returns:
        None if there is no object, or the reply opens more than ``_MAX_OPEN`` brackets.
    """
    start = reply.find("{", 0, _MAX_CHARACTERS)
    if start < 0:
        return None
    text = reply[start : min(start + _MAX_JSON, _MAX_CHARACTERS)]
    if text.count("{") <= text.count(
        "}"
    ):  # else it was cut inside the object, and its last brace is that of an inner one
        text = text[: text.rfind("}") + 1] or text
    content = _repair(text)
    if isinstance(content, list):  # several objects in one reply: the first is the answer, the rest is chatter
        content = next((item for item in content if isinstance(item, dict)), None)
    return content if isinstance(content, dict) else None


def _repair(text: str) -> Any:
    """Parse JSON, and repair it if it is incomplete.

    Returns:
        None if the text opens more than ``_MAX_OPEN`` brackets or cannot be read.
    """
    if sum(map(text.count, "{[(")) > _MAX_OPEN:
        return None
    try:
        return json_repair.loads(text)
    except (ValueError, RecursionError):
        return None


def yes_or_no(reply: str) -> bool | None:
    """Parse the verdict of a reply: True approves the answer, False rejects it.

    A verdict is a line that says nothing else (yes, no, correct, incorrect, ...) or the end of a sentence. Partial approval
    is none ("correct about the brand but ...", "partially correct"), and neither is a remark in a line of reasons. A reason
    against the answer rejects it if no verdict follows.

    Returns:
        None if the verdict is unclear.
    """
    rejected = False
    for line in _MARKS.sub("", reply[:_MAX_VERDICT].lower()).replace("\u2019", "'").splitlines():
        label = _LINE_LABEL.match(line)
        if label and label.group("label").strip() in _REASONS:
            rejected = rejected or _AGAINST.search(line) is not None
            continue
        statement = line[label.end() :] if label else line
        verdict = _OUTRIGHT.match(statement) or _SAID_OF_IT.search(statement)
        if verdict is not None:
            groups = verdict.groupdict()
            if _EITHER.match(statement, verdict.end()):
                return None
            if "partial" in (groups["no"] or "") or "partly" in (groups["no"] or ""):
                return None
            return bool(groups["yes"] or groups.get("certain_yes"))
        rejected = rejected or _REJECTED.search(statement) is not None
    return False if rejected else None


def read_label(reply: str, label: str) -> str | None:
    """Return the text after ``label:``, or after a heading of that name, up to the next label.

    A label is at the beginning of a line or, capitalised, after the end of a sentence. Stars and numbers before it are
    ignored.

    Returns:
        None if the label is missing or nothing follows it.
    """
    text = reply[:_MAX_CHARACTERS].replace("*", "")
    match = re.search(
        rf"^\W{{0,4}}(?:\d{{1,2}}[.)]\W{{0,3}})?{re.escape(label)}[ \t]*:[ \t]*|^#{{1,4}} {{1,3}}{re.escape(label)}[ \t]*$|"
        rf"(?<=[.!?] )(?-i:{re.escape(label.capitalize())}):[ \t]*",
        text,
        re.IGNORECASE | re.MULTILINE,
    )
    if match is None:
        return None
    rest = text[match.end() :]
    end = re.search(r"^\W{0,4}[A-Za-z][A-Za-z -]{1,30}[ \t]*:", rest, re.MULTILINE)
    value = (rest[: end.start()] if end else rest).strip()
    return value or None


def parse_list(reply: str, limit: int, *, cut: bool = False) -> list[str]:
    """Parse a list that a model wrote into distinct items of at most ``_MAX_ITEM_WORDS``, at most ``limit``.

    The list is in JSON; or it has one item a line with whatever stands before it (numbers, dashes, "Query 2:", quotation
    marks); or several items a line, numbered, in quotation marks or separated by semicolons. Announcements and longer
    sentences are no items, and neither is the last item of a reply that was ``cut``.
    """
    text = _FENCE.sub("", reply[:_MAX_CHARACTERS])
    items = _in_json(text) or [item for line in text.splitlines() for item in _items(line)]
    if cut and len(items) > 1:
        items = items[:-1]
    by_words = {
        " ".join(item.lower().split()): item for item in reversed(items) if len(item.split()) <= _MAX_ITEM_WORDS
    }
    return list(reversed(by_words.values()))[:limit]


def _in_json(text: str) -> list[str]:
    start = min((at for bracket in "[{" if (at := text.find(bracket, 0, _MAX_JSON)) >= 0), default=-1)
    if start < 0 or _NUMBERED.match(text) or not re.match(r"[\[{]\s*[\[{\"']", text[start:]):
        return []  # "[1] a query" is a line with a number
    value = _repair(text[start : start + _MAX_JSON])
    while isinstance(value, dict):  # {"queries": [...]}, {"1": "...", "2": "..."}
        inner = [each for each in value.values() if isinstance(each, list | dict)]
        value = inner[0] if inner else list(value.values())
    items = value if isinstance(value, list) else []
    flat = [next(iter(each.values()), None) if isinstance(each, dict) else each for each in items]
    return strings(flat, len(flat))


def _items(line: str) -> list[str]:
    """Split a line into its items.

    Returns:
        An empty list for a line that announces a list.
    """
    text = _MARKER.sub("", line.replace("*", "").replace("`", "").strip())
    quoted = [each for groups in _QUOTED.findall(text) if (each := next(filter(None, groups), "").strip())]
    if len(quoted) > 1:
        return quoted
    if text.endswith(":"):
        return []
    items = [_MARKER.sub("", part.strip()).strip(" \t\"'“”‘’,") for part in _BETWEEN.split(text)]
    return [item for item in items if any(letter.isalnum() for letter in item)]


def number(text: str | None, minimum: float, limit: float) -> float | None:
    """Parse the first number of a text.

    Returns:
        None if there is no number, or it is less than ``minimum`` or more than ``limit``.
    """
    match = _NUMBER.search((text or "")[:_MAX_CHARACTERS])
    if match is None:
        return None
    value = float(match.group())
    return value if minimum <= value <= limit else None


def strings(value: Any, limit: int) -> list[str]:
    """Coerce a value to a list of distinct non-empty strings, at most ``limit``."""
    items = value if isinstance(value, list) else [value]
    cleaned = (" ".join(item.split()) for item in items if isinstance(item, str))
    return list(dict.fromkeys(item for item in cleaned if item))[:limit]


def was_cut(reply: ChatReply) -> bool:
    """Return whether a reply was stopped in the middle, by the deadline or its limit of tokens."""
    return reply.finish_reason in ("abort", "length")


def whole_sentences(text: str) -> str:
    """Remove the last sentence of a text if it was cut off.

    An incomplete sentence is not used: the rest might have reversed its meaning ("The tower was never ...").

    Returns:
        An empty text if the cut sentence is the only one.
    """
    sentences: list[str] = []
    for line in without_controls(text[:_MAX_SPLIT]).splitlines(keepends=True):
        sentences += sentencex.segment("en", line)
    if sentences and not _ENDED.search(sentences[-1].strip()[-_END_CHARACTERS:]):
        sentences.pop()
    return "".join(sentences).strip()
