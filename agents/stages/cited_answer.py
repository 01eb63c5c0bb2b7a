import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from PIL import Image
from pydantic import Field

from agents.methods.candidates import MAX_READ, candidate_from
from agents.methods.citations import MAX_DOCUMENTS, parse_cited
from agents.models.base import ChatReply
from agents.stage import Context, Stage, StageOptions
from agents.texts.evidence_text import modality_of
from agents.texts.replies import labelled
from agents.turn import Candidate, Turn

PROMPTS = {"vanilla": "cited_answer", "chain_of_thought": "cited_answer_reasoned"}
_STEPS = ("relevant documents", "information")  # labels of the steps before the answer in the prompt that reasons


class CitedAnswer(Stage):
    """A long answer with ``[n]`` after each sentence (MAVIS, sections 3.1 and 5.2).

    Documents are numbered from 1 in the order of ``Turn.best_evidence``.
    """

    class Options(StageOptions):
        method: Literal["vanilla", "chain_of_thought"] = Field("vanilla", description="how the model is asked")
        pictures: bool = Field(True, description="show the pictures of image documents, where there are any")

    options: Options
    fills = ("candidate",)
    kind = "answers"
    min_seconds, wanted_seconds = 2.0, 4.0

    def prompts(self) -> tuple[str, ...]:
        """Of the method."""
        return (PROMPTS[self.options.method],)

    def pictures(self) -> int:
        """One of each document at most."""
        return MAX_DOCUMENTS if self.options.pictures else 0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``, with its markers."""
        urls = [
            chunk.url
            for turn in turns
            for chunk in turn.best_evidence(MAX_DOCUMENTS)
            if modality_of(chunk) == "image" and chunk.url and chunk not in turn.knowledge
        ]
        pictures = (
            context.search.pictures(urls, context.fetch, context.deadline) if self.options.pictures and urls else {}
        )
        prompt = PROMPTS[self.options.method]
        for turn, reply in context.ask_each(prompt, turns, lambda turn: self._values(turn, context, pictures)):
            if reply.finish_reason == "error":
                turn.error = turn.error or f"cited_answer: {reply.error}"
            else:
                turn.candidate = long_answer(reply)
            turn.note(reply=reply.text, finish_reason=reply.finish_reason)

    @staticmethod
    def _values(turn: Turn, context: Context, pictures: dict[str, Image.Image]) -> dict[str, Any]:
        chunks = turn.best_evidence(MAX_DOCUMENTS)
        texts = [dataclasses.replace(chunk, text=turn.knowledge.get(chunk, chunk.text)) for chunk in chunks]
        shown: dict[int, tuple[list[int], Image.Image]] = {}  # attributes of one entity share its picture
        for number, chunk in enumerate(chunks, start=1):
            if chunk not in turn.knowledge and (picture := pictures.get(chunk.url)) is not None:
                shown.setdefault(id(picture), ([], picture))[0].append(number)
        labels = [("".join(f"[{number}]" for number in numbers), picture) for numbers, picture in shown.values()]
        return {
            **turn.values,
            **context.show(turn.image, labels),
            "documents": texts,
            "pictures": [numbers for numbers, _ in shown.values()],
        }


def long_answer(reply: ChatReply) -> Candidate | None:
    """The answer of a reply with its markers; None where it says nothing but where to read, or was cut off before its answer."""
    said = reply.text[:MAX_READ]
    text = labelled(said, "answer")
    begins = text is None  # with the answer itself, not with a label
    if text is None:
        text = "" if any(labelled(said, step) is not None for step in _STEPS) else said
    return candidate_from(reply, text if parse_cited(text) else "", begins=begins)
