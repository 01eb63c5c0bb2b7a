from collections.abc import Sequence
from operator import attrgetter

from pydantic import Field

from agents.methods.ranking import Score, ToScore, best_scores, scores_of
from agents.models.base import MultimodalPair, MultimodalReranker
from agents.stage import Context, Stage, StageOptions
from agents.texts.evidence_text import best_first, evidence_for_trace
from agents.turn import Evidence, Turn

_CHUNKS_WHEN_SHORT = 24
_FINE_WHEN_SHORT = 12


class TwoStageOptions(StageOptions):
    """Coarse-to-fine reranking (QA-Dragon, section 3.6.2)."""

    coarse: bool = Field(True, description="run the coarse stage; without it every chunk goes to the fine one")
    fine: bool = Field(True, description="run the fine stage; without it the coarse score decides")
    k1: int = Field(20, ge=1, description="chunks kept after the coarse stage (K1)")
    k2: int = Field(5, ge=1, description="chunks kept in the end (K2)")
    coarse_threshold: float = Field(0.0, description="tau_coarse")
    fine_threshold: float = Field(0.0, description="tau_fine; the product of both cuts the cumulative score")


def coarse_cut(scored: Sequence[tuple[Evidence, float]], options: TwoStageOptions) -> list[tuple[Evidence, float]]:
    """The best K1 chunks that reach the coarse threshold, best first (NaN never does)."""
    passing = [(chunk, score) for chunk, score in scored if score >= options.coarse_threshold]
    return sorted(passing, key=lambda pair: -pair[1])[: options.k1]


def fine_cut(scored: Sequence[tuple[Evidence, float, float]], options: TwoStageOptions) -> tuple[Evidence, ...]:
    """The best K2 chunks by cumulative score s = fine x coarse that reach the product of both thresholds, best first."""
    least = options.fine_threshold * options.coarse_threshold
    cumulative = [chunk.scored(fine * coarse) for chunk, coarse, fine in scored if fine * coarse >= least]
    return tuple(best_first(cumulative)[: options.k2])


class TwoStageRerank(Stage):
    """Coarse, then fine, by the cumulative score (QA-Dragon, section 3.6.2, eq. 2 to 4); one call for the batch each."""

    Options = TwoStageOptions
    options: TwoStageOptions
    fills = ("ranked",)
    when_short = f"{_CHUNKS_WHEN_SHORT} chunks, {_FINE_WHEN_SHORT} of them to the fine stage"
    least_seconds, wanted_seconds = 1.0, 2.0

    def roles(self) -> tuple[str, ...]:
        """The rerankers that are run."""
        coarse, fine = ("coarse_reranker",) * self.options.coarse, ("fine_reranker",) * self.options.fine
        return (*coarse, *fine)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``ranked``."""
        options = self.options
        if context.short:
            options = options.model_copy(update={"k1": min(options.k1, _FINE_WHEN_SHORT)})
        everything = [(turn, turn.evidence[: _CHUNKS_WHEN_SHORT if context.short else None]) for turn in turns]
        asked = attrgetter("asked")
        coarse = best_scores(everything, asked, self._coarse(context) if options.coarse else _indifferent)
        left = [(turn, coarse_cut(scored, options)) for turn, scored in coarse]
        chunks = [(turn, [chunk for chunk, _ in kept]) for turn, kept in left]
        fine = best_scores(chunks, asked, scores_of(context.models.fine_reranker) if options.fine else _indifferent)
        for (turn, kept), (_, scored) in zip(left, fine, strict=True):
            both = [(chunk, first, second) for (chunk, first), (_, second) in zip(kept, scored, strict=True)]
            turn.ranked = fine_cut(both, options)
            turn.note(coarse_kept=len(kept), evidence=evidence_for_trace(turn.ranked))

    @staticmethod
    def _coarse(context: Context) -> Score:
        model = context.models.coarse_reranker
        if isinstance(model, MultimodalReranker):
            return lambda items: model.score_multimodal(
                [MultimodalPair(item.question, item.turn.image, item.pair[1]) for item in items]
            )
        return scores_of(model)


def _indifferent(items: Sequence[ToScore]) -> list[float]:
    """A stage that is switched off lets everything pass alike."""
    return [1.0] * len(items)
