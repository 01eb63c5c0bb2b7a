"""Ranking what was found: lists fused, the chunks of a whole batch scored in one call, and the cut-off that follows their scores."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from agents.evidence.passages import passage_of
from agents.models.base import Reranker
from agents.turn import Evidence, Turn

T = TypeVar("T")
Method = Literal["score", "reciprocal_rank"]

_RANK_CONSTANT = 60  # Cormack, Clarke and Buettcher 2009


def fuse(
    lists: Iterable[Sequence[T]], *, key: Callable[[T], Hashable], score: Callable[[T], float], method: Method = "score"
) -> list[tuple[T, float]]:
    """All items with their fused scores, each once, best first; ties keep the order in which they came.

    ``key`` says what makes two items the same; the one with the best ``score`` in its own list is kept. Method ``score``: by the best score
    an item reached (QA-Dragon, section 3.4.3). ``reciprocal_rank``: by the sum over the lists of 1 / (60 + rank), ranks from 1.
    """
    best: dict[Hashable, T] = {}
    reciprocal: dict[Hashable, float] = {}
    for ranked in lists:
        seen: set[Hashable] = set()
        for rank, item in enumerate(ranked, start=1):
            name = key(item)
            if name in seen:  # a list that names an item twice counts it once, where it stands first
                continue
            seen.add(name)
            reciprocal[name] = reciprocal.get(name, 0.0) + 1.0 / (_RANK_CONSTANT + rank)
            if name not in best or score(item) > score(best[name]):
                best[name] = item
    fused = [(item, score(item) if method == "score" else reciprocal[name]) for name, item in best.items()]
    return sorted(fused, key=lambda entry: -entry[1])


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


Score = Callable[[Sequence[ToScore]], Iterable[float]]  # one score for each, higher is better


def scores_of(model: Reranker) -> Score:
    """What a reranker says of pairs of question and passage."""
    return lambda items: model.score([item.pair for item in items])


def scores_by_question(
    chunks: Sequence[tuple[Turn, Sequence[Evidence]]],
    asked: Callable[[Turn], Sequence[str]],
    score: Score,
) -> list[tuple[Turn, list[tuple[Evidence, tuple[float, ...]]]]]:
    """Score each turn's chunks against each text that the turn asks, in one call for the batch.

    Returns:
        The turns in order, each with its chunks in order and, for every chunk, one score a text (a multi-hop question asks several).
    """
    of_turns = [(turn, found, asked(turn)) for turn, found in chunks]
    pairs = ((turn, chunk, asks) for turn, found, asks in of_turns for chunk in found)
    scores = iter(score([ToScore(turn, question, chunk) for turn, chunk, asks in pairs for question in asks]))
    return [
        (turn, [(chunk, tuple(float(next(scores)) for _ in questions)) for chunk in found])
        for turn, found, questions in of_turns
    ]


def best_of(scores: Iterable[float]) -> float:
    """Return the best of one chunk's scores over several texts; NaN where none is a number."""
    return max((score for score in scores if not math.isnan(score)), default=math.nan)


def cumulative(coarse: Sequence[float], fine: Sequence[float]) -> float:
    """Return the best product of coarse and fine score of one text (QA-Dragon, section 3.6.2, eq. 4).

    The paper has one text, q. Over several each product is taken within a text: a chunk that is near one text in the coarse stage
    and near another in the fine stage answers neither.

    Args:
        coarse: A chunk's coarse scores, one a text.
        fine: Its fine scores, for the same texts in the same order.
    """
    return best_of(one * other for one, other in zip(coarse, fine, strict=True))


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
