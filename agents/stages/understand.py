"""Stage 1: a question of a dialog is made to stand alone, and it is settled whether it still needs the picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.methods.references import resolve
from agents.stage import Context
from agents.texts.text import clean, one_line
from agents.turn import Turn


class Understand:
    """Rules first; a model rewrites what the rules are not sure of, where the preset says so."""

    name: ClassVar[str] = "understand"
    least_seconds: ClassVar[float] = 0.0
    wanted_seconds: ClassVar[float] = 0.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``question`` and ``needs_image``."""
        settings = context.settings.understand
        unsure: list[Turn] = []
        for turn in turns:
            resolved = resolve(one_line(clean(turn.query)), turn.history)
            turn.question = resolved.question
            turn.needs_image = resolved.needs_image
            if turn.history and not resolved.sure:
                unsure.append(turn)
        if settings.rewrite == "model" and unsure:
            self._rewrite(unsure, context)
        for turn in turns:
            turn.note(
                question=turn.question,
                needs_image=turn.needs_image,
                by_model=turn in unsure and settings.rewrite == "model",
            )

    def _rewrite(self, turns: Sequence[Turn], context: Context) -> None:
        most = context.settings.understand.history_messages
        prompt = context.prompts["standalone_question"]
        replies = context.models.chat(prompt.settings.model).chat(
            [prompt.request(query=turn.query, history=turn.history[-most:] if most else ()) for turn in turns],
            context.deadline,
        )
        for turn, reply in zip(turns, replies, strict=True):
            first_line = reply.text.strip().split("\n", 1)[0].strip()
            if first_line and (reply.finish_reason == "stop" or first_line != reply.text.strip()):  # not torn
                turn.question = first_line
