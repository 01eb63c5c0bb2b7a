"""MAVIS: "A Benchmark for Multimodal Source Attribution in Long-form Visual Question Answering".

The paper from top to bottom; preset ``mavis``. Stages in brackets are those of ``agents/stages``, which other presets run too.

3.1 N queries: [``queries``]; K documents for each, of both modalities: [``image_search``, ``web_search``, ``evidence``] and
    ``DocumentsStage``; a long answer with ``[n]`` after each sentence: ``CitedAnswer``
4 metrics: no part of the agent; that each citation is checked is ours: [``cite``], and the rule ``Citations`` of [``finalise``]
5.2 Text-RAG, Image-RAG, Multi-RAG: ``documents.modality``; vanilla or chain of thought: ``cited_answer.method``; knowledge extraction
    before the answer: ``KnowledgeStage``
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from PIL import Image
from pydantic import Field

from agents.asking.ask import Ask, Question
from agents.asking.readers.answers import CITED_ANSWER
from agents.asking.readers.lines import FACTS
from agents.evidence.passages import classify_document, convert_to_record, format_passage, sort_by_score
from agents.evidence.shown import DOCUMENTS, select_documents
from agents.methods.ranking import fuse
from agents.stage import Context, Stage, StageOptions
from agents.turn import Candidate, Evidence, Turn

_CHUNKS_WHEN_SHORT = 24
_RANKING = 100  # addresses in the record, of all ranked hits: how well retrieval ranks is measured beyond K


class DocumentsStage(Stage):
    """Keeps the top k documents of each query, texts and images together (MAVIS, section 3.1); one call reranks all pairs of the batch.

    The organiser searches pictures by a picture and pages by a text. Here both results form one collection, ranked against each query,
    as the paper's retriever ranks its collection of both.
    """

    name = "documents"

    class Options(StageOptions):
        k: int = Field(5, ge=1, description="documents kept for each query (K)")
        modality: Literal["both", "text", "image"] = Field(
            "both", description="documents to choose from: Multi-RAG, Text-RAG or Image-RAG (section 5.2)"
        )

    options: Options
    fills = ("evidence",)
    gathers = True
    doing = "ranking the results"
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


_ANSWER_SECONDS = 3.0  # for each turn, left to the answer


EXTRACT = Ask("knowledge_extraction", FACTS)


class KnowledgeStage(Stage):
    """Asks what each document says by itself, without question and photo (MAVIS, section 5.2); each once, in one batched call."""

    name = "knowledge"
    fills = ("knowledge",)
    doing = "reading the documents"
    asks = (EXTRACT,)
    min_seconds, wanted_seconds = 2.0, 4.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``knowledge``; a document that nothing could be taken from, or for which time ran out, keeps its own words.

        So does an image document without its picture: asked about a picture that it does not see, a model invents one.
        """
        chunks = (chunk for turn in turns for chunk in select_documents(turn.evidence))
        distinct = {(chunk.title, chunk.text): chunk for chunk in chunks}
        if not distinct or not context.deadline.allows(_ANSWER_SECONDS * len(turns)):
            return
        urls = [chunk.url for chunk in distinct.values() if classify_document(chunk) == "image" and chunk.url]
        pictures = context.search.pictures(urls, context.fetch, context.deadline)
        distinct = {key: it for key, it in distinct.items() if classify_document(it) == "text" or it.url in pictures}
        readers: dict[tuple[str, str], list[Turn]] = {key: [] for key in distinct}
        for turn in turns:
            for key in {(chunk.title, chunk.text) for chunk in select_documents(turn.evidence)} & distinct.keys():
                readers[key].append(turn)
        questions = [
            Question(
                EXTRACT,
                {"image": pictures.get(chunk.url), "document": chunk, "modality": classify_document(chunk)},
                tuple(readers[key]),
            )
            for key, chunk in distinct.items()
        ]
        answers = context.put(questions, context.deadline.sooner(_ANSWER_SECONDS * len(turns)))
        texts_by_key = {key: answer.value for key, answer in zip(distinct, answers, strict=True)}
        for turn in turns:
            texts_by_chunk = {
                chunk: texts_by_key.get((chunk.title, chunk.text)) for chunk in select_documents(turn.evidence)
            }
            turn.knowledge = {chunk: knowledge for chunk, knowledge in texts_by_chunk.items() if knowledge is not None}
            turn.note(documents=len(turn.knowledge), knowledge=list(turn.knowledge.values()))


PROMPTS = {"vanilla": "cited_answer", "chain_of_thought": "cited_answer_reasoned"}


class CitedAnswer(Stage):
    """Writes a long answer with ``[n]`` after each sentence (MAVIS, sections 3.1 and 5.2).

    Documents are numbered from 1 in the order of ``Turn.evidence``.
    """

    name = "cited_answer"

    class Options(StageOptions):
        method: Literal["vanilla", "chain_of_thought"] = Field("vanilla", description="how the model is asked")

    options: Options
    fills = ("candidate",)
    doing = "writing an answer with citations"
    kind = "answers"
    min_seconds, wanted_seconds = 2.0, 4.0

    def list_asks(self) -> tuple[Ask[Candidate | None], ...]:
        """Return the prompt of the method."""
        return (Ask(PROMPTS[self.options.method], CITED_ANSWER),)

    def pictures(self) -> int:
        """Return the number of documents: each has one picture at most."""
        return DOCUMENTS

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``, with its markers."""
        urls = [
            chunk.url
            for turn in turns
            for chunk in select_documents(turn.evidence)
            if classify_document(chunk) == "image" and chunk.url and chunk not in turn.knowledge
        ]
        pictures = context.search.pictures(urls, context.fetch, context.deadline) if urls else {}
        (ask,) = self.list_asks()
        for turn, answer in context.ask_each(ask, turns, lambda turn: self._values(turn, context, pictures)):
            if answer.failed:
                turn.error = turn.error or f"cited_answer: {answer.error}"
            else:
                turn.candidate = answer.value

    @staticmethod
    def _values(turn: Turn, context: Context, pictures: dict[str, Image.Image]) -> dict[str, Any]:
        chunks = select_documents(turn.evidence)
        texts = [dataclasses.replace(chunk, text=turn.knowledge.get(chunk, chunk.text)) for chunk in chunks]
        numbered_pictures: dict[int, tuple[list[int], Image.Image]] = {}  # attributes of one entity share its picture
        for number, chunk in enumerate(chunks, start=1):
            if chunk not in turn.knowledge and (picture := pictures.get(chunk.url)) is not None:
                numbered_pictures.setdefault(id(picture), ([], picture))[0].append(number)
        labels = [
            ("".join(f"[{number}]" for number in numbers), picture) for numbers, picture in numbered_pictures.values()
        ]
        return {
            **turn.values,
            **context.show(turn.image, labels),
            "documents": texts,
            "pictures": [numbers for numbers, _ in numbered_pictures.values()],
        }
