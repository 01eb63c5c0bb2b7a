"""Scoring the chunks of a whole batch in one call of a reranker, and the cut-off that follows their scores."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

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
    score: Callable[[Sequence[ToScore]], Iterable[float]],
) -> list[tuple[Turn, list[tuple[Evidence, float]]]]:
    """Each turn's chunks with their best score over what the turn asks (a multi-hop question asks several), in order; in one call."""
    of_turns = [(turn, found, asked(turn)) for turn, found in chunks]
    pairs = ((turn, chunk, asks) for turn, found, asks in of_turns for chunk in found)
    scores = iter(score([ToScore(turn, question, chunk) for turn, chunk, asks in pairs for question in asks]))
    return [
        (turn, [(chunk, max(float(next(scores)) for _ in questions)) for chunk in found])
        for turn, found, questions in of_turns
    ]


def mad_threshold(scores: Sequence[float], *, tau: float, lam: float, top: int = 10) -> float:
    """The dynamic relevance threshold of CRUISE (section 3.2, eq. 5): max(tau, median - lam * MAD) over the best ``top`` scores.

    MAD is the median absolute deviation from the median. What is not finite is left out; without any score the threshold is ``tau``.
    """
    best = sorted((score for score in scores if np.isfinite(score)), reverse=True)[:top]
    if not best:
        return tau
    median = float(np.median(best))
    deviation = float(np.median(np.abs(np.asarray(best) - median)))
    return max(tau, median - lam * deviation)
