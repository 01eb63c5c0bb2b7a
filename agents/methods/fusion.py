"""Fusing ranked lists that several queries (crops, sub-queries) brought for one question."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Literal, TypeVar

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
