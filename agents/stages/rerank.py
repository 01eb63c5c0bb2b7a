"""Stage 10: the chunks that speak to the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.evidence_text import evidence_for_trace, passage_of
from agents.stage import Context
from agents.turn import Evidence, Turn


class Rerank:
    """All pairs of the batch go through the reranker together."""

    name: ClassVar[str] = "rerank"
    least_seconds: ClassVar[float] = 0.5

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``ranked``: at most k chunks that reach the threshold, best first."""
        settings = context.settings.rerank
        pairs = [(turn, chunk) for turn in turns for chunk in turn.evidence]
        scores = context.models.reranker.score([(turn.grounded_question, passage_of(chunk)) for turn, chunk in pairs])
        scored: dict[int, list[Evidence]] = {}
        for (turn, chunk), score in zip(pairs, scores, strict=True):
            if score >= settings.threshold:  # False for NaN
                scored.setdefault(id(turn), []).append(chunk.scored(float(score)))
        for turn in turns:
            best = sorted(scored.get(id(turn), ()), key=lambda chunk: -(chunk.score or 0.0))
            turn.ranked = tuple(best[: settings.k])
            turn.note(evidence=evidence_for_trace(turn.ranked))
