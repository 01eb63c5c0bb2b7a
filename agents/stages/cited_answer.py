import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from PIL import Image
from pydantic import Field

from agents.asking.ask import Ask
from agents.asking.readers.answers import CITED_ANSWER
from agents.evidence.passages import classify_document
from agents.evidence.shown import DOCUMENTS, select_documents
from agents.stage import Context, Stage, StageOptions
from agents.turn import Candidate, Turn

PROMPTS = {"vanilla": "cited_answer", "chain_of_thought": "cited_answer_reasoned"}


class CitedAnswer(Stage):
    """Writes a long answer with ``[n]`` after each sentence (MAVIS, sections 3.1 and 5.2).

    Documents are numbered from 1 in the order of ``Turn.evidence``.
    """

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
