"""A long answer with a citation for each sentence (MAVIS, sections 3.1 and 5.2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from PIL import Image

from agents.methods.candidates import MOST_READ, candidate_from
from agents.models.base import ChatReply, ChatRequest
from agents.stage import Context
from agents.texts.evidence_text import modality_of
from agents.texts.replies import labelled
from agents.turn import Candidate, Turn

PROMPTS = {"vanilla": "cited_answer", "chain_of_thought": "cited_answer_reasoned"}
_STEPS = ("relevant documents", "information")
"""Labels of the steps before the answer in the prompt that reasons."""


class CitedAnswer:
    """One batched call; documents are numbered from 1 in the order of ``Turn.best_evidence``."""

    name: ClassVar[str] = "cited_answer"
    least_seconds: ClassVar[float] = 2.0
    wanted_seconds: ClassVar[float] = 4.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``, with its markers."""
        settings = context.settings.cited_answer
        prompt = context.prompts[PROMPTS[settings.method]]
        urls = [
            chunk.url
            for turn in turns
            for chunk in turn.best_evidence(settings.documents)
            if modality_of(chunk) == "image" and chunk.url and chunk not in turn.knowledge
        ]
        pictures = context.search.pictures(urls, settings.fetch, context.deadline) if settings.pictures and urls else {}
        requests = [self._request(turn, context, pictures) for turn in turns]
        if not requests:
            return
        replies = context.models.chat(prompt.settings.model).chat(requests, context.deadline)
        for turn, reply in zip(turns, replies, strict=True):
            if reply.finish_reason == "error":
                turn.error = turn.error or f"cited_answer: {reply.error}"
            else:
                turn.candidate = long_answer(reply)
            turn.note(reply=reply.text, finish_reason=reply.finish_reason)

    @staticmethod
    def _request(turn: Turn, context: Context, pictures: dict[str, Image.Image]) -> ChatRequest:
        settings = context.settings.cited_answer
        chunks = turn.best_evidence(settings.documents)
        texts = [dataclasses.replace(chunk, text=turn.knowledge.get(chunk, chunk.text)) for chunk in chunks]
        shown = [
            (number, picture)
            for number, chunk in enumerate(chunks, start=1)
            if chunk not in turn.knowledge and (picture := pictures.get(chunk.url)) is not None
        ]
        numbers: dict[int, list[int]] = {}
        for number, picture in shown:  # attributes of one entity share its picture
            numbers.setdefault(id(picture), []).append(number)
        distinct = tuple({id(picture): picture for _, picture in shown}.values())
        return context.prompts[PROMPTS[settings.method]].request(
            image=turn.image,
            images=distinct,
            question=turn.question,
            history=turn.history,
            documents=texts,
            pictures=list(numbers.values()),
        )


def long_answer(reply: ChatReply) -> Candidate | None:
    """The answer of a reply with its markers; None where it says nothing or was cut off before its answer."""
    said = reply.text[:MOST_READ]
    text = labelled(said, "answer")
    begins = text is None  # with the answer itself, not with a label
    if text is None:
        text = "" if any(labelled(said, step) is not None for step in _STEPS) else said
    return candidate_from(reply, text, begins=begins)
