"""A sample of sessions, balanced by the kind of their questions and drawn by a seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.records import Session

_UNKNOWN = "unknown kind"


@dataclass(frozen=True)
class Sample:
    """The sessions of a sample, and the words that say how they were drawn."""

    sessions: tuple[Session, ...]
    description: str


def draw_balanced(sessions: Sequence[Session], size: int, seed: int) -> Sample:
    """Draw sessions with equally many of each kind of question, the category of a session's first one.

    The kinds take turns, in an order that the seed decides, until there are enough; one without sessions left is passed over. Kinds and
    the seed alone decide, never an answer. Sessions without turns are never drawn.

    Args:
        sessions: All sessions, in a fixed order.
        size: Number of sessions; all of them if there are fewer.
        seed: Seed of the draw.
    """
    chance = random.Random(seed)
    kinds: dict[str, list[Session]] = {}
    for session in sessions:
        if session.turns:
            kinds.setdefault(_get_kind(session), []).append(session)
    for each in kinds.values():
        chance.shuffle(each)
    order = list(kinds.values())
    chance.shuffle(order)
    rounds = range(max(map(len, order), default=0))
    sample = tuple(each[place] for place in rounds for each in order if place < len(each))[:size]
    counted = ", ".join(f"{kind} {number}" for kind, number in sorted(Counter(map(_get_kind, sample)).items()))
    return Sample(
        sample, f"{len(sample)} of {len(sessions)} sessions, balanced by kind of question, seed {seed}: {counted}"
    )


def _get_kind(session: Session) -> str:
    return session.turns[0].query_category or _UNKNOWN
