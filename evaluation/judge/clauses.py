"""Answers cut into clauses, each marked as affirmed or denied."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

_BREAK = re.compile(
    r"(?<!\d)[.](?=\s|$)|(?<=\d)[.](?=\s|$)|[;:!?](?=\s|$)|,(?=\s|$)|[()]|\s-\s"
    r"|\b(?=(?:but|however|while|whereas|although|though|rather than|instead of|unlike|as opposed to|compared (?:to|with)|than|not"
    r"|similar to|modelled on|modeled on|inspired by|based on|replica of|copy of|confused with|except|other than)\b)"
    r"|\b(?=and (?:it|they|he|she|this|that|is|was|were|has|had)\b)"
)
_SENTENCE_END = re.compile(r"[.;!?](?=\s|$)")
_NEGATION = re.compile(
    r"\b(?:not|no|never|neither|nor|none|without|nothing|hardly|false|wrong|incorrect|isnt|denied)\b"
)
_ANSWER_NO = re.compile(r"^\s*(?:no|nope|not really|not exactly)\s*$")
_DISTANCE = re.compile(
    r"^\s*(?:rather than|instead of|unlike|as opposed to|compared (?:to|with)|than|similar to|modelled on|modeled on|inspired by"
    r"|based on|replica of|copy of|confused with|except|other than)\b"
)
_CLAUSE_OF_ITS_OWN = re.compile(
    r"\b(?:it|this|that|they|he|she|is|are|was|were|has|have|but|instead|rather|actually)\b"
)
_INHERITED_WORDS = 4


@dataclass(frozen=True)
class Clause:
    """A stretch of a plain text.

    Attributes:
        start: Character offsets in the text.
        end: Exclusive.
        text: The stretch itself.
        denied: It says what is not so, or names something only to set it apart ("than X", "rather than X").
        compared: It is what something is compared with ("than X").
    """

    start: int
    end: int
    text: str
    denied: bool
    compared: bool = False


def clauses(plain_text: str) -> list[Clause]:
    """The clauses of a text that went through ``plain_text.plain``, in order."""
    cuts = sorted({0, len(plain_text), *(match.start() for match in _BREAK.finditer(plain_text))})
    found: list[Clause] = []
    for start, end in pairwise(cuts):
        text = plain_text[start:end].strip(" ,.;:!?()")
        if not text:
            continue
        compared = text.startswith(("than", "compared"))
        denied = bool(_DISTANCE.match(text)) or (bool(_NEGATION.search(text)) and not _ANSWER_NO.match(text))
        before = found[-1] if found else None
        continues = (
            before is not None
            and before.denied
            and not before.compared
            and not _SENTENCE_END.match(plain_text[start:])
            and len(text.split()) <= _INHERITED_WORDS
            and not _CLAUSE_OF_ITS_OWN.search(text)
        )
        found.append(Clause(start, end, text, denied or continues, compared))
    return found
