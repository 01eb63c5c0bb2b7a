"""Stage 10: coarse-to-fine reranking (QA-Dragon, section 3.6.2, eq. 2 to 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from agents.methods.chunk_scores import ToScore, best_scores
from agents.models.base import MultimodalPair, MultimodalReranker
from agents.settings import TwoStageRerank as TwoStageSettings
from agents.stage import Context
from agents.texts.evidence_text import evidence_for_trace
from agents.turn import Evidence, Turn

Score = Callable[[Sequence[ToScore]], Sequence[float]]


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
    wanted_seconds: ClassVar[float] = 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``ranked``."""
        settings = context.settings.two_stage_rerank
        everything = [(turn, turn.evidence[: context.settings.evidence.most_chunks]) for turn in turns]
        coarse = best_scores(everything, _asked, self._coarse(context) if settings.coarse else _indifferent)
        left = [(turn, coarse_cut(scored, settings)) for turn, scored in coarse]
        fine = best_scores(
            [(turn, [chunk for chunk, _ in kept]) for turn, kept in left],
            _asked,
            self._fine(context) if settings.fine else _indifferent,
        )
        for (turn, kept), (_, scored) in zip(left, fine, strict=True):
            both = [(chunk, first, second) for (chunk, first), (_, second) in zip(kept, scored, strict=True)]
            turn.ranked = fine_cut(both, settings)
            turn.note(coarse_kept=len(kept), evidence=evidence_for_trace(turn.ranked))

    @staticmethod
    def _coarse(context: Context) -> Score:
        model = context.models.coarse_reranker
        if isinstance(model, MultimodalReranker):
            return lambda items: [
                float(score)
                for score in model.score_multimodal(
                    [MultimodalPair(item.question, item.turn.image, item.pair[1]) for item in items]
                )
            ]
        return lambda items: [float(score) for score in model.score([item.pair for item in items])]

    @staticmethod
    def _fine(context: Context) -> Score:
        return lambda items: [
            float(score) for score in context.models.fine_reranker.score([item.pair for item in items])
        ]


def _asked(turn: Turn) -> Sequence[str]:
    return turn.asked


def _indifferent(items: Sequence[ToScore]) -> list[float]:
    """A stage that is switched off lets everything pass alike."""
    return [1.0] * len(items)
