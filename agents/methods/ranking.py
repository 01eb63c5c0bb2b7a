"""Ranking of hits: lists fused, and the chunks of a whole batch scored in one call."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from agents.evidence.passages import format_passage
from agents.models.base import MultimodalPair, MultimodalReranker, Reranker
from agents.turn import Evidence, Turn

T = TypeVar("T")


def fuse(
    lists: Iterable[Sequence[T]], *, key: Callable[[T], Hashable], score: Callable[[T], float]
) -> list[tuple[T, float]]:
    """Merge lists into one, each item once with the best score it reached (QA-Dragon, section 3.4.3), best first.

    Items of equal score keep the order in which they came.

    Args:
        lists: Lists that are ranked or not; of an item that one list names twice the first counts.
        key: Returns the identity of an item.
        score: Score of an item, higher is better.
    """
    best: dict[Hashable, T] = {}
    for ranked in lists:
        seen: set[Hashable] = set()
        for item in ranked:
            name = key(item)
            if name in seen:
                continue
            seen.add(name)
            if name not in best or score(item) > score(best[name]):
                best[name] = item
    return sorted(((item, score(item)) for item in best.values()), key=lambda entry: -entry[1])


def score_by_question(
    turn_chunks: Sequence[tuple[Turn, Sequence[Evidence]]],
    list_questions: Callable[[Turn], Sequence[str]],
    model: Reranker | MultimodalReranker | None,
) -> list[tuple[Turn, list[tuple[Evidence, tuple[float, ...]]]]]:
    """Score each turn's chunks against each text that the turn asks, in one call for the batch.

    Args:
        turn_chunks: The turns, each with its chunks.
        list_questions: Returns the texts that a turn asks; a multi-hop question asks several.
        model: The reranker; one that sees is shown the turn's photo. None scores every chunk 1.

    Returns:
        The turns in order, each with its chunks in order and, for every chunk, one score a text.
    """
    entries = [(turn, chunks, list_questions(turn)) for turn, chunks in turn_chunks]
    pairs = [
        MultimodalPair(question, turn.image, format_passage(chunk))
        for turn, chunks, questions in entries
        for chunk in chunks
        for question in questions
    ]
    scores = iter(_score(model, pairs))
    return [
        (turn, [(chunk, tuple(float(next(scores)) for _ in questions)) for chunk in chunks])
        for turn, chunks, questions in entries
    ]


def _score(model: Reranker | MultimodalReranker | None, pairs: Sequence[MultimodalPair]) -> Iterable[float]:
    if model is None:
        return [1.0] * len(pairs)
    if isinstance(model, MultimodalReranker):
        return model.score_multimodal(pairs)
    return model.score([(pair.question, pair.passage) for pair in pairs])


def take_best(scores: Iterable[float]) -> float:
    """Return the best of one chunk's scores over several texts; NaN where none is a number."""
    return max((score for score in scores if not math.isnan(score)), default=math.nan)


def multiply_scores(coarse: Sequence[float], fine: Sequence[float]) -> float:
    """Return the best product of coarse and fine score of one text (QA-Dragon, section 3.6.2, cumulative score).

    The paper has one text, q. Over several each product is taken within a text: a chunk that is near one text in the coarse stage
    and near another in the fine stage answers neither.
    """
    return take_best(one * other for one, other in zip(coarse, fine, strict=True))
