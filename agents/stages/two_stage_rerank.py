from collections.abc import Sequence
from operator import attrgetter
from typing import Literal

from pydantic import Field

from agents.evidence.chunks import interleave_by_entity
from agents.evidence.passages import PICTURE_KEY, convert_to_record, sort_by_score
from agents.methods.ranking import multiply_scores, score_by_question, take_best
from agents.stage import Context, Stage, StageOptions
from agents.turn import Evidence, Turn

_CHUNKS_WHEN_SHORT = 24
_FINE_WHEN_SHORT = 12


class TwoStageRerank(Stage):
    """Reranks coarse, then fine, by the cumulative score (QA-Dragon, section 3.6.2, eq. 2 and 3); one call of each reranker for the batch.

    A question about several objects keeps chunks in turn: the best of each object and of the rest, then the second best ...
    """

    class Options(StageOptions):
        coarse: bool = Field(True, description="run the coarse stage; without it every chunk goes to the fine one")
        fine: bool = Field(True, description="run the fine stage; without it the coarse score decides")
        k_coarse: int = Field(20, ge=1, description="chunks kept after the coarse stage (K1)")
        k: int = Field(5, ge=1, description="chunks kept in the end (K2)")
        coarse_threshold: float = Field(0.0, description="tau_coarse")
        fine_threshold: float = Field(0.0, description="tau_fine; the product of both cuts the cumulative score")
        min_share: float = Field(
            0.0,
            ge=0,
            le=1,
            description="minimum share of the best chunk's score",
        )
        rank_by: Literal["cumulative", "fine"] = Field(
            "cumulative",
            description="score of the chunks kept by the coarse stage: s = fine x coarse, or only the fine "
            "score, if the models' scores are not on one scale",
        )

    options: Options
    fills = ("evidence",)
    groups = ("reranking",)
    gathers = True
    doing = "ranking the evidence"
    when_short = f"{_CHUNKS_WHEN_SHORT} chunks, {_FINE_WHEN_SHORT} of them to the fine stage"
    min_seconds, wanted_seconds = 1.0, 2.0

    def roles(self) -> tuple[str, ...]:
        """Name the active rerankers."""
        coarse, fine = ("coarse_reranker",) * self.options.coarse, ("fine_reranker",) * self.options.fine
        return (*coarse, *fine)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Replace ``evidence`` by the best K1 of the coarse stage and of these the best K2 by ``rank_by``; NaN reaches no threshold."""
        options = self.options
        k_coarse = min(options.k_coarse, _FINE_WHEN_SHORT) if context.short else options.k_coarse
        everything = [(turn, turn.evidence[: _CHUNKS_WHEN_SHORT if context.short else None]) for turn in turns]
        list_questions = attrgetter("evidence_questions")
        coarse_chunks: list[tuple[Turn, list[Evidence]]] = []
        coarse: list[dict[Evidence, tuple[float, ...]]] = []  # of each turn, the remaining chunks
        coarse_model = context.models.coarse_reranker if options.coarse else None
        for turn, chunk_scores in score_by_question(everything, list_questions, coarse_model):
            near = [(chunk, values) for chunk, values in chunk_scores if take_best(values) >= options.coarse_threshold]
            coarse.append(dict(sorted(near, key=lambda scored: -take_best(scored[1]))[:k_coarse]))
            coarse_chunks.append((turn, list(coarse[-1])))
        fine_model = context.models.fine_reranker if options.fine else None
        minimum = options.fine_threshold * options.coarse_threshold
        for (turn, chunk_scores), of_coarse in zip(
            score_by_question(coarse_chunks, list_questions, fine_model), coarse, strict=True
        ):
            both = [(chunk, take_best(fine), multiply_scores(of_coarse[chunk], fine)) for chunk, fine in chunk_scores]
            chunks = [
                chunk.with_score(fine if options.rank_by == "fine" else s) for chunk, fine, s in both if s >= minimum
            ]
            ranked = _name_first(sort_by_score(chunks))
            worthy = [chunk for chunk in ranked if (chunk.score or 0.0) >= options.min_share * (ranked[0].score or 0.0)]
            turn.evidence = tuple(interleave_by_entity(turn, worthy)[: options.k])
            turn.record(evidence=convert_to_record(turn.evidence))
            turn.note(coarse_kept=len(chunk_scores))


def _name_first(ranked: Sequence[Evidence]) -> list[Evidence]:
    """Keep what the photo shows only as the best chunk: it answers what a thing is, and takes the place of a fact elsewhere."""
    return [
        chunk for rank, chunk in enumerate(ranked) if rank == 0 or chunk.key != PICTURE_KEY or chunk.value is not None
    ]
