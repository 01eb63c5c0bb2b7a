from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from agents.evidence.passages import classify_document, convert_to_record, format_passage, sort_by_score
from agents.methods.ranking import fuse
from agents.stage import Context, Stage, StageOptions
from agents.turn import Evidence, Turn

_CHUNKS_WHEN_SHORT = 24
_RANKING = 100  # addresses that the record holds, of whatever was ranked: how well retrieval ranks is measured beyond K


class DocumentsStage(Stage):
    """Keeps the top k documents of each query, texts and images together (MAVIS, section 3.1); one call reranks all pairs of the batch.

    The organiser searches pictures by a picture and pages by a text. Here both results form one collection, ranked against each query,
    as the paper's retriever ranks its collection of both.
    """

    class Options(StageOptions):
        k: int = Field(5, ge=1, description="documents kept for each query (K)")
        modality: Literal["both", "text", "image"] = Field(
            "both", description="documents to choose from: Multi-RAG, Text-RAG or Image-RAG (section 5.2)"
        )

    options: Options
    fills = ("evidence",)
    gathers = True
    doing = "ranking what was found"
    model_roles = ("reranker",)
    picture_notes = frozenset({"ranking"})
    when_short = f"{_CHUNKS_WHEN_SHORT} chunks"
    min_seconds, wanted_seconds = 0.5, 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Replace ``evidence``: at most K documents for each query, each once, best first."""
        options = self.options
        limit = _CHUNKS_WHEN_SHORT if context.short else None
        tasks: list[tuple[Turn, Sequence[str], list[Evidence]]] = []
        for turn in turns:
            chunks = [it for it in turn.evidence[:limit] if options.modality in ("both", classify_document(it))]
            tasks.append((turn, turn.queries or (turn.question,), chunks))
        pairs = [
            (query, format_passage(chunk)) for _, queries, chunks in tasks for query in queries for chunk in chunks
        ]
        scores = iter(context.models.reranker.score(pairs))
        for turn, queries, chunks in tasks:
            scored = [[chunk.with_score(float(next(scores))) for chunk in chunks] for _ in queries]
            # NaN equals nothing, not even itself.
            ordered = [
                sort_by_score(chunk for chunk in scored_chunks if chunk.score == chunk.score)
                for scored_chunks in scored
            ]
            turn.evidence = tuple(_fuse([scored_chunks[: options.k] for scored_chunks in ordered]))
            ranking = dict.fromkeys(chunk.url for chunk in _fuse(ordered))
            modalities = [classify_document(chunk) for chunk in turn.evidence]
            counts = {"text": modalities.count("text"), "image": modalities.count("image")}
            turn.record(evidence=convert_to_record(turn.evidence))
            turn.note(**counts, ranking=list(ranking)[:_RANKING])


def _fuse(lists: Sequence[Sequence[Evidence]]) -> list[Evidence]:
    """Merge the documents of several queries, each once, best first."""
    fused = fuse(lists, key=lambda chunk: (chunk.title, chunk.text), score=lambda chunk: chunk.score or 0.0)
    return [chunk for chunk, _ in fused]
