"""Recall@k and NDCG@k of a ranking of documents, each identified by its address.

CoRe-MMRAG, section 4.2: a document counts if its URL is exactly that of the truth. MAVIS, table 3: both modalities in one ranking.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence


def recall_at(k: int, ranking: Sequence[str], truth: Collection[str]) -> float:
    """Return the share of the true documents among the first k of a ranking, 0 to 1.

    A document that is ranked twice counts once. The truth has at least one document.
    """
    return len(set(_deduplicate(ranking)[:k]) & set(truth)) / len(set(truth))


def ndcg_at(k: int, ranking: Sequence[str], truth: Collection[str]) -> float:
    """Return the normalised discounted cumulative gain with gains of 0 and 1, 0 to 1; see ``recall_at``."""
    gain = sum(_discount(place) for place, name in enumerate(_deduplicate(ranking)[:k]) if name in truth)
    return gain / sum(_discount(place) for place in range(min(k, len(set(truth)))))


def _deduplicate(ranking: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ranking))


def _discount(place: int) -> float:
    return 1 / math.log2(place + 2)
