from collections.abc import Sequence

from pydantic import Field

from agents.evidence.chunks import interleave_by_entity
from agents.evidence.passages import convert_to_record, sort_by_score
from agents.methods.ranking import score_by_question, take_best
from agents.papers.cruise import compute_mad_threshold
from agents.stage import Context, Stage, StageOptions
from agents.turn import Turn

_CHUNKS_WHEN_SHORT = 24


class Rerank(Stage):
    """Reranks all chunks of the batch in one call and cuts at a fixed threshold, or at one that follows the scores (MAD, CRUISE).

    A question about several objects keeps chunks in turn: the best of each object and of the rest, then the second best ...
    """

    class Options(StageOptions):
        k: int = Field(6, ge=1, description="chunks kept")
        threshold: float = Field(0.0, description="score below which a chunk is dropped (tau of CRUISE, eq. 5)")
        mad_lambda: float | None = Field(
            None,
            ge=0,
            description="chunks below median - lambda * MAD of the best scores are dropped too (eq. 5); None: none",
        )
        fuse_entity: bool = Field(True, description="chunks are scored against the question with the entity's name")
        fuse_summary: bool = Field(
            False, description="chunks are scored against the question with the summary (eq. 2 and 4)"
        )

    options: Options
    fills = ("evidence",)
    groups = ("reranking",)
    gathers = True
    doing = "ranking the evidence"
    model_roles = ("reranker",)
    when_short = f"{_CHUNKS_WHEN_SHORT} chunks"
    min_seconds, wanted_seconds = 0.5, 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Replace ``evidence`` by at most k chunks that reach the threshold, best first; several objects alternate."""
        options, limit = self.options, _CHUNKS_WHEN_SHORT if context.short else None
        turn_chunks = [(turn, turn.evidence[:limit]) for turn in turns]

        def list_questions(turn: Turn) -> Sequence[str]:
            return turn.hops or (turn.search_text(entity=options.fuse_entity, summary=options.fuse_summary),)

        for turn, chunk_scores in score_by_question(turn_chunks, list_questions, context.models.reranker):
            scored = [(chunk, take_best(values)) for chunk, values in chunk_scores]
            threshold = self._threshold([value for _, value in scored])
            # NaN reaches no threshold.
            best = sort_by_score(chunk.with_score(value) for chunk, value in scored if value >= threshold)
            turn.evidence = tuple(interleave_by_entity(turn, best)[: options.k])
            turn.record(evidence=convert_to_record(turn.evidence))
            turn.note(threshold=round(threshold, 4))

    def _threshold(self, scores: Sequence[float]) -> float:
        """Return the fixed threshold, or theta of CRUISE (eq. 5) over the scores of this turn."""
        options = self.options
        if options.mad_lambda is None:
            return options.threshold
        return compute_mad_threshold(scores, tau=options.threshold, lam=options.mad_lambda)
