"""The answer from the model's own knowledge (CoRe-MMRAG, section 3.2, step 1, eq. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.methods.candidates import candidate_of
from agents.stage import Context
from agents.turn import Turn


class ParametricAnswer:
    """One batched call for all turns."""

    name: ClassVar[str] = "parametric_answer"
    least_seconds: ClassVar[float] = 1.0
    wanted_seconds: ClassVar[float] = 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``parametric``."""
        if not turns:
            return
        prompt = context.prompts["parametric_answer"]
        requests = [prompt.request(image=turn.image, question=turn.question, history=turn.history) for turn in turns]
        replies = context.models.chat(prompt.settings.model).chat(requests, context.deadline)
        for turn, reply in zip(turns, replies, strict=True):
            turn.parametric = candidate_of(reply)
            turn.note(parametric=turn.parametric.text if turn.parametric else None, error=reply.error)
