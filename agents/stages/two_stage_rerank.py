"""Stage 10: coarse-to-fine reranking (QA-Dragon, section 3.6.2, eq. 2 to 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.evidence_text import evidence_for_trace, passage_of
from agents.models.base import MultimodalPair, MultimodalReranker
from agents.settings import TwoStageRerank as TwoStageSettings
from agents.stage import Context
from agents.turn import Evidence, Turn


def coarse_cut(scored: Sequence[tuple[Evidence, float]], settings: TwoStageSettings) -> list[tuple[Evidence, float]]:
    """The best K1 chunks that reach the coarse threshold, best first (NaN never does)."""
    passing = [(chunk, score) for chunk, score in scored if score >= settings.coarse_threshold]
    return sorted(passing, key=lambda pair: -pair[1])[: settings.k1]


def fine_cut(scored: Sequence[tuple[Evidence, float, float]], settings: TwoStageSettings) -> tuple[Evidence, ...]:
    """The best K2 chunks by cumulative score s = fine x coarse that reach the product of both thresholds, best first."""
    least = settings.fine_threshold * settings.coarse_threshold
    cumulative = [chunk.scored(fine * coarse) for chunk, coarse, fine in scored if fine * coarse >= least]
    return tuple(sorted(cumulative, key=lambda chunk: -(chunk.score or 0.0))[: settings.k2])


class TwoStageRerank:
    """Every pair of the batch goes through the coarse reranker in one call, what is left through the fine one in another."""

    name: ClassVar[str] = "two_stage_rerank"
    least_seconds: ClassVar[float] = 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``ranked``."""
        settings = context.settings.two_stage_rerank
        pairs = [(turn, chunk) for turn in turns for chunk in turn.evidence]
        coarse = self._coarse(pairs, context) if settings.coarse else [1.0] * len(pairs)
        by_turn: dict[int, list[tuple[Evidence, float]]] = {}
        for (turn, chunk), score in zip(pairs, coarse, strict=True):
            by_turn.setdefault(id(turn), []).append((chunk, score))
        left = [
            (turn, chunk, score) for turn in turns for chunk, score in coarse_cut(by_turn.get(id(turn), ()), settings)
        ]
        fine = self._fine([(turn, chunk) for turn, chunk, _ in left], context) if settings.fine else [1.0] * len(left)
        scored: dict[int, list[tuple[Evidence, float, float]]] = {}
        for (turn, chunk, coarse_score), fine_score in zip(left, fine, strict=True):
            scored.setdefault(id(turn), []).append((chunk, coarse_score, fine_score))
        for turn in turns:
            turn.ranked = fine_cut(scored.get(id(turn), ()), settings)
            turn.note(coarse_kept=len(scored.get(id(turn), ())), evidence=evidence_for_trace(turn.ranked))

    @staticmethod
    def _coarse(pairs: Sequence[tuple[Turn, Evidence]], context: Context) -> list[float]:
        model = context.models.coarse_reranker
        if isinstance(model, MultimodalReranker):
            items = [MultimodalPair(turn.grounded_question, turn.image, passage_of(chunk)) for turn, chunk in pairs]
            return [float(score) for score in model.score_multimodal(items)]
        return [
            float(score)
            for score in model.score([(turn.grounded_question, passage_of(chunk)) for turn, chunk in pairs])
        ]

    @staticmethod
    def _fine(pairs: Sequence[tuple[Turn, Evidence]], context: Context) -> list[float]:
        scores = context.models.fine_reranker.score(
            [(turn.grounded_question, passage_of(chunk)) for turn, chunk in pairs]
        )
        return [float(score) for score in scores]
