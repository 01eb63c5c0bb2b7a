"""The documents for an answer with citations: the top K of each query, text and image documents together (MAVIS, section 3.1)."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from agents.methods.fusion import fuse
from agents.stage import Context, Stage, StageOptions
from agents.texts.evidence_text import evidence_for_trace, modality_of, passage_of
from agents.turn import Evidence, Turn

_CHUNKS_WHEN_SHORT = 24


class DocumentsStage(Stage):
    """The top K of each query, text and image documents together (MAVIS); all pairs of the batch through the reranker at once.

    The organiser searches pictures by a picture and pages by a text; what both found is one collection here, ranked against each
    query, as the paper's retriever ranks its collection of both.
    """

    class Options(StageOptions):
        k: int = Field(5, ge=1, description="documents kept for each query (K)")
        modality: Literal["both", "text", "image"] = Field(
            "both", description="documents to choose from: Multi-RAG, Text-RAG or Image-RAG (section 5.2)"
        )

    options: Options
    fills = ("ranked",)
    model_roles = ("reranker",)
    when_short = f"{_CHUNKS_WHEN_SHORT} chunks"
    least_seconds, wanted_seconds = 0.5, 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``ranked``: at most K documents for each query, each once, best first."""
        options = self.options
        asked = [
            (turn, query, chunk)
            for turn in turns
            for query in turn.queries or (turn.question,)
            for chunk in turn.evidence[: _CHUNKS_WHEN_SHORT if context.short else None]
            if options.modality in ("both", modality_of(chunk))
        ]
        scores = context.models.reranker.score([(query, passage_of(chunk)) for _, query, chunk in asked])
        lists: dict[int, dict[str, list[Evidence]]] = {id(turn): {} for turn in turns}
        for (turn, query, chunk), score in zip(asked, scores, strict=True):
            if score == score:  # no NaN
                lists[id(turn)].setdefault(query, []).append(chunk.scored(float(score)))
        for turn in turns:
            found = lists[id(turn)].values()
            best = [sorted(chunks, key=lambda chunk: -(chunk.score or 0.0))[: options.k] for chunks in found]
            fused = fuse(best, key=lambda chunk: (chunk.title, chunk.text), score=lambda chunk: chunk.score or 0.0)
            turn.ranked = tuple(chunk for chunk, _ in fused)
            modalities = [modality_of(chunk) for chunk in turn.ranked]
            counts = {"text": modalities.count("text"), "image": modalities.count("image")}
            turn.note(**counts, evidence=evidence_for_trace(turn.ranked))
