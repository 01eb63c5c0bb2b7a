"""A long answer with a citation for each sentence (MAVIS, sections 3.1 and 5.2)."""

import dataclasses
from collections.abc import Sequence
from typing import Literal

from PIL import Image
from pydantic import Field

from agents.methods.candidates import MOST_READ, candidate_from
from agents.methods.citations import MOST_DOCUMENTS, parse_cited
from agents.models.base import ChatReply, ChatRequest
from agents.stage import Context, Stage, StageOptions
from agents.texts.evidence_text import modality_of
from agents.texts.replies import labelled
from agents.turn import Candidate, Turn

PROMPTS = {"vanilla": "cited_answer", "chain_of_thought": "cited_answer_reasoned"}
_STEPS = ("relevant documents", "information")  # labels of the steps before the answer in the prompt that reasons


class CitedAnswer(Stage):
    """A long answer with ``[n]`` after each sentence (MAVIS); documents are numbered from 1 in the order of ``Turn.best_evidence``."""

    class Options(StageOptions):
        method: Literal["vanilla", "chain_of_thought"] = Field("vanilla", description="how the model is asked")
        pictures: bool = Field(True, description="show the pictures of image documents, where there are any")

    options: Options
    fills = ("candidate",)
    kind = "answers"
    least_seconds, wanted_seconds = 2.0, 4.0

    def prompts(self) -> tuple[str, ...]:
        """Of the method."""
        return (PROMPTS[self.options.method],)

    def pictures(self) -> int:
        """One of each document at most."""
        return MOST_DOCUMENTS if self.options.pictures else 0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``, with its markers."""
        prompt = context.prompts[PROMPTS[self.options.method]]
        urls = [
            chunk.url
            for turn in turns
            for chunk in turn.best_evidence(MOST_DOCUMENTS)
            if modality_of(chunk) == "image" and chunk.url and chunk not in turn.knowledge
        ]
        pictures = (
            context.search.pictures(urls, context.fetch, context.deadline) if self.options.pictures and urls else {}
        )
        requests = [self._request(turn, context, pictures) for turn in turns]
        replies = context.ask(prompt, requests)
        for turn, reply in zip(turns, replies, strict=True):
            if reply.finish_reason == "error":
                turn.error = turn.error or f"cited_answer: {reply.error}"
            else:
                turn.candidate = long_answer(reply)
            turn.note(reply=reply.text, finish_reason=reply.finish_reason)

    def _request(self, turn: Turn, context: Context, pictures: dict[str, Image.Image]) -> ChatRequest:
        chunks = turn.best_evidence(MOST_DOCUMENTS)
        texts = [dataclasses.replace(chunk, text=turn.knowledge.get(chunk, chunk.text)) for chunk in chunks]
        shown = [
            (number, picture)
            for number, chunk in enumerate(chunks, start=1)
            if chunk not in turn.knowledge and (picture := pictures.get(chunk.url)) is not None
        ]
        numbers: dict[int, list[int]] = {}
        for number, picture in shown:  # attributes of one entity share its picture
            numbers.setdefault(id(picture), []).append(number)
        distinct = {id(picture): picture for _, picture in shown}
        labels = ["".join(f"[{number}]" for number in named) for named in numbers.values()]
        return context.prompts[PROMPTS[self.options.method]].request(
            **context.show(turn.image, list(zip(labels, distinct.values(), strict=True))),
            question=turn.question,
            history=turn.history,
            documents=texts,
            pictures=list(numbers.values()),
        )


def long_answer(reply: ChatReply) -> Candidate | None:
    """The answer of a reply with its markers; None where it says nothing but where to read, or was cut off before its answer."""
    said = reply.text[:MOST_READ]
    text = labelled(said, "answer")
    begins = text is None  # with the answer itself, not with a label
    if text is None:
        text = "" if any(labelled(said, step) is not None for step in _STEPS) else said
    return candidate_from(reply, text if parse_cited(text) else "", begins=begins)
