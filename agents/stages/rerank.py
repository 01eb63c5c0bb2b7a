"""Stage 10: the chunks that speak to the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.methods.chunk_scores import ToScore, best_scores
from agents.methods.thresholds import mad_threshold
from agents.settings import Rerank as RerankSettings
from agents.stage import Context
from agents.texts.evidence_chunks import in_turn
from agents.texts.evidence_text import evidence_for_trace
from agents.turn import Evidence, Turn


class Rerank:
    """All pairs of the batch go through the reranker together."""

    name: ClassVar[str] = "rerank"
    least_seconds: ClassVar[float] = 0.5
    wanted_seconds: ClassVar[float] = 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``ranked``: at most k chunks that reach the threshold, best first; those of several objects in turn."""
        settings, most = context.settings.rerank, context.settings.evidence.most_chunks
        asked_of = [(turn, turn.evidence[:most]) for turn in turns]

        def asked(turn: Turn) -> Sequence[str]:
            return turn.hops or (turn.search_text(entity=settings.fuse_entity, summary=settings.fuse_summary),)

        def score(items: Sequence[ToScore]) -> Sequence[float]:
            return [float(value) for value in context.models.reranker.score([item.pair for item in items])]

        for turn, scored in best_scores(asked_of, asked, score):
            chunks = [chunk.scored(value) for chunk, value in scored]
            threshold = self._threshold(chunks, settings)
            passing = [
                chunk for chunk in chunks if chunk.score is not None and chunk.score >= threshold
            ]  # False for NaN
            best = sorted(passing, key=lambda chunk: -(chunk.score or 0.0))
            turn.ranked = tuple((in_turn(turn, best) if settings.by_entity else best)[: settings.k])
            turn.note(threshold=round(threshold, 4), evidence=evidence_for_trace(turn.ranked))

    @staticmethod
    def _threshold(chunks: Sequence[Evidence], settings: RerankSettings) -> float:
        """The fixed threshold, or theta of CRUISE (eq. 5) over the scores of this turn."""
        if settings.mad_lambda is None:
            return settings.threshold
        scores = [chunk.score for chunk in chunks if chunk.score is not None]
        return mad_threshold(scores, tau=settings.threshold, lam=settings.mad_lambda, top=settings.mad_top)
