"""A sentence on the picture with the question in mind (CRUISE, section 3.2, eq. 1); searches and rerankers may read it (eq. 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.stage import Context
from agents.texts.text import clean, cut_words, one_line
from agents.turn import Turn, with_image


class Summarise:
    """One batched call for the turns whose picture matters and that are to be searched for at all."""

    name: ClassVar[str] = "summarise"
    least_seconds: ClassVar[float] = 2.0
    wanted_seconds: ClassVar[float] = 4.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``summary``."""
        concerned = [turn for turn in with_image(turns) if turn.tools.image or turn.tools.text]
        if not concerned:
            return
        prompt = context.prompts["image_summary"]
        requests = [prompt.request(image=turn.image, question=turn.question) for turn in concerned]
        replies = context.models.chat(prompt.settings.model).chat(requests, context.deadline)
        for turn, reply in zip(concerned, replies, strict=True):
            turn.summary = cut_words(one_line(clean(reply.text)), prompt.settings.max_tokens)
            turn.note(summary=turn.summary, error=reply.error)
