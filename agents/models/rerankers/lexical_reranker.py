"""BM25 over the candidate passages of each query, by the bm25s library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bm25s
import numpy as np
import Stemmer

from agents.models.base import FloatArray


class LexicalReranker:
    """BM25 (Lucene's variant, k1 1.5, b 0.75) with English stemming and stop words.

    Document frequencies are those of the query's own candidates. Scores are divided by what a passage would get that
    held each query term often without end (the sum of the terms' IDF), so they lie in 0..1 and compare between
    queries: near 1 only where all terms of the query stand in the passage, 0 where none does.
    """

    name = "bm25"

    def __init__(self, k1: float = 1.5, b: float = 0.75) -> None:
        self._k1 = k1
        self._b = b
        self._stemmer = Stemmer.Stemmer("english")

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Shape (len(pairs),); see ``Reranker.score``."""
        scores = np.zeros(len(pairs), dtype=np.float32)
        rows: dict[str, list[int]] = {}
        for row, (query, _) in enumerate(pairs):
            rows.setdefault(query, []).append(row)
        tokens = self._tokens([text for pair in pairs for text in pair])
        for query, members in rows.items():
            passages = [tokens[pairs[row][1]] for row in members]
            scores[members] = self._of_query(tokens[query], passages)
        return scores

    def _tokens(self, texts: Sequence[str]) -> dict[str, list[str]]:
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return {}
        split: Any = bm25s.tokenize(
            distinct, stopwords="en", stemmer=self._stemmer, return_ids=False, show_progress=False
        )
        return dict(zip(distinct, split, strict=True))

    def _of_query(self, query: list[str], passages: list[list[str]]) -> FloatArray:
        terms = list(dict.fromkeys(query))
        if not terms or not any(passages):
            return np.zeros(len(passages), dtype=np.float32)
        index = bm25s.BM25(method="lucene", k1=self._k1, b=self._b)
        index.index(passages, show_progress=False)
        found = np.asarray(index.get_scores(terms), dtype=np.float32)
        scaled: FloatArray = np.clip(found / self._ceiling(terms, passages), 0.0, 1.0).astype(np.float32)
        return scaled

    def _ceiling(self, terms: Sequence[str], passages: Sequence[Sequence[str]]) -> float:
        """The highest score there can be, terms that no passage holds included."""
        sets = [set(passage) for passage in passages]
        frequencies = [sum(term in words for words in sets) for term in terms]
        # Lucene's BM25 leaves out the constant factor k1 + 1, so a term's share stays below its IDF.
        return float(sum(np.log(1 + (len(sets) - n + 0.5) / (n + 0.5)) for n in frequencies))
