"""Which object a question is about, from its words: the rules behind object extraction where no model can be asked."""

from __future__ import annotations

import re
from typing import Literal

from agents.models.base import Box

Position = Literal["left", "right", "top", "bottom", "middle"]

_POSITIONS: dict[str, Position] = {
    "left": "left", "leftmost": "left", "left-hand": "left", "right": "right", "rightmost": "right", "right-hand": "right",
    "top": "top", "upper": "top", "above": "top", "bottom": "bottom", "lower": "bottom", "below": "bottom",
    "middle": "middle", "center": "middle", "centre": "middle", "central": "middle",
}  # fmt: skip
_POSITION = re.compile(
    r"\b(?:on|at|in|to|from)? ?(?:the|my|far|very)? ?(?P<word>"
    + "|".join(_POSITIONS)
    + r")(?:[ -]?(?:hand|most|side))?\b(?! (?:of|to|now))",
    re.IGNORECASE,
)
_STOP = (
    "is|are|was|were|be|can|could|do|does|did|has|have|had|will|would|on|in|at|of|from|to|with|that|which|who|for|by|get|gets|made|"
    "come|comes|belong|live|lives|grow|grows|eat|eats|weigh|cost|costs|and|or|than|as|first|originally|usually|normally|typically|called|"
    "named|sold|built|ever|still|it|its|next|near|behind|beside|here|there|so|fly|run|use|used|originate|reach|"
    "stand|say|says|mean|play|faster|taller|heavier|older|bigger|larger|longer|smaller|lighter|newer|higher"
)
_PHRASE = re.compile(
    rf"\b(?:this|that|these|those|the) (?P<words>(?!(?:{_STOP})\b)[a-z]+(?: (?!(?:{_STOP})\b)[a-z]+){{0,2}})",
    re.IGNORECASE,
)
_ABSTRACT = frozenset(
    "name height weight length capital country population price cost year date color colour size age number designer architect "
    "maker author inventor lifespan diet habitat speed kind type picture photo image answer time order family scientific average "
    "maximum total left right top bottom middle word words text sign sum founder language continent currency species use purpose "
    "origin sound term meaning".split()
)


def object_phrases(question: str, most: int) -> list[str]:
    """Names of the things a question points at, at most three words each, as they stand: ``this tall tower`` -> ``tall tower``."""
    found = []
    for match in _PHRASE.finditer(question):
        words = match.group("words").lower().split()
        while words and words[-1] in _POSITIONS:
            words.pop()
        if words and words[0] not in _ABSTRACT and words[-1] not in _ABSTRACT:
            found.append(" ".join(words))
    return list(dict.fromkeys(found))[:most]


def position_in(question: str) -> Position | None:
    """The position word of a question (``the building on the left`` -> ``left``), or None."""
    match = _POSITION.search(question)
    return _POSITIONS[match.group("word").lower()] if match else None


def offset(box: Box, position: Position, width: int, height: int) -> float:
    """How far, as a fraction of the image, a box's centre lies from where ``position`` is; 0 is right there."""
    across = (box.left + box.right) / 2 / width
    down = (box.top + box.bottom) / 2 / height
    return {
        "left": across,
        "right": 1 - across,
        "top": down,
        "bottom": 1 - down,
        "middle": abs(across - 0.5) + abs(down - 0.5),
    }[position]
