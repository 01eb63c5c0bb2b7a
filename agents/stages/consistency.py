"""Self-consistency: do the answers with and without evidence agree (CRUISE, section 3.3 and appendix A.3)?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.methods.knowledge_conflict import same_answer, says_something
from agents.stage import Context
from agents.texts.replies import yes_or_no
from agents.turn import Turn


class Consistency:
    """A model judges all pairs of the batch in one call, or their words are compared."""

    name: ClassVar[str] = "consistency"
    least_seconds: ClassVar[float] = 1.0
    wanted_seconds: ClassVar[float] = 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``consistent`` of the turns that have an answer from the evidence and one without it."""
        concerned = [
            (turn, turn.candidate.text, turn.parametric.text)
            for turn in turns
            if turn.candidate is not None and turn.parametric is not None and says_something(turn.candidate.text)
        ]
        if context.settings.consistency.by == "words":
            for turn, with_evidence, without in concerned:
                turn.consistent = says_something(without) and same_answer(with_evidence, without)
        elif concerned:
            self._ask(concerned, context)
        for turn, _, _ in concerned:
            turn.note(consistent=turn.consistent)

    @staticmethod
    def _ask(concerned: Sequence[tuple[Turn, str, str]], context: Context) -> None:
        prompt = context.prompts["consistency_judge"]
        most = context.settings.answer.evidence
        requests = [
            prompt.request(
                image=turn.image,
                question=turn.question,
                evidence=context.evidence(turn, most),
                first=without,
                second=with_evidence,
            )
            for turn, with_evidence, without in concerned
        ]
        replies = context.models.chat(prompt.settings.model).chat(requests, context.deadline)
        for (turn, _, _), reply in zip(concerned, replies, strict=True):
            turn.consistent = yes_or_no(reply.text) if reply.finish_reason != "error" else None
            turn.note(judge=reply.text, error=reply.error)
