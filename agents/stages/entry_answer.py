"""The answer from the chosen entry, its text and its picture (CoRe-MMRAG, section 3.2, step 3, eq. 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.methods.candidates import candidate_of
from agents.stage import Context
from agents.turn import Turn


class EntryAnswer:
    """One batched call for the turns that have an entry."""

    name: ClassVar[str] = "entry_answer"
    least_seconds: ClassVar[float] = 1.0
    wanted_seconds: ClassVar[float] = 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``."""
        concerned = [(turn, turn.chosen) for turn in turns if turn.chosen is not None]
        if not concerned:
            return
        prompt = context.prompts["entry_answer"]
        requests = [
            prompt.request(
                image=turn.image,
                images=(entry.image,) if entry.image is not None else (),
                question=turn.question,
                history=turn.history,
                entry=entry,
            )
            for turn, entry in concerned
        ]
        replies = context.models.chat(prompt.settings.model).chat(requests, context.deadline)
        for (turn, _), reply in zip(concerned, replies, strict=True):
            turn.candidate = candidate_of(reply)
            turn.note(retrieved=turn.candidate.text if turn.candidate else None, error=reply.error)
