"""Scoring the chunks of a whole batch in one call of a reranker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agents.texts.evidence_text import passage_of
from agents.turn import Evidence, Turn


@dataclass(frozen=True)
class ToScore:
    """A chunk of a turn, and one of the questions that it may answer."""

    turn: Turn
    question: str
    chunk: Evidence

    @property
    def pair(self) -> tuple[str, str]:
        """Question and passage, as a reranker takes them."""
        return self.question, passage_of(self.chunk)


def best_scores(
    chunks: Sequence[tuple[Turn, Sequence[Evidence]]],
    asked: Callable[[Turn], Sequence[str]],
    score: Callable[[Sequence[ToScore]], Sequence[float]],
) -> list[tuple[Turn, list[tuple[Evidence, float]]]]:
    """Each turn's chunks with their best score over what the turn asks (a multi-hop question asks several), in order.

    Args:
        chunks: The chunks of each turn.
        asked: What a turn asks; at least one question.
        score: Scores everything in one call.
    """
    of_turns = [(turn, found, asked(turn)) for turn, found in chunks]
    items = [
        ToScore(turn, question, chunk)
        for turn, found, questions in of_turns
        for chunk in found
        for question in questions
    ]
    scores = iter(score(items))
    return [
        (turn, [(chunk, max(float(next(scores)) for _ in questions)) for chunk in found])
        for turn, found, questions in of_turns
    ]
