"""How well a ranking finds the documents that answer, each known by its address: Recall@k and NDCG@k.

CoRe-MMRAG, section 4.2: a document counts where its URL is exactly that of the truth. MAVIS, table 3: both modalities in one ranking.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence


def recall_at(k: int, ranking: Sequence[str], truth: Collection[str]) -> float:
    """Share of the documents of the truth, at least one, among the first k of the ranking, 0 to 1; one that is ranked twice counts once."""
    return len(set(_once(ranking)[:k]) & set(truth)) / len(set(truth))


def ndcg_at(k: int, ranking: Sequence[str], truth: Collection[str]) -> float:
    """Normalised discounted cumulative gain with gains of 0 and 1, 0 to 1; see ``recall_at``."""
    gain = sum(_discount(place) for place, name in enumerate(_once(ranking)[:k]) if name in truth)
    return gain / sum(_discount(place) for place in range(min(k, len(set(truth)))))


def _once(ranking: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ranking))


def _discount(place: int) -> float:
    return 1 / math.log2(place + 2)
