"""Stage 12: the chat model answers, from the evidence where there is any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.methods.candidates import candidate_of
from agents.methods.white_box import token_probabilities
from agents.stage import Context
from agents.turn import IDK, Candidate, Turn


class Answer:
    """One batched call for all turns; a question that is answered directly gets its draft."""

    name: ClassVar[str] = "answer"
    least_seconds: ClassVar[float] = 1.0
    wanted_seconds: ClassVar[float] = 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``."""
        settings = context.settings.answer
        with_evidence = context.prompts[settings.prompt]
        without = context.prompts[settings.prompt_without_evidence]
        asked = []
        for turn in turns:
            if turn.route == "direct" and turn.draft is not None:
                statistics = token_probabilities(turn.draft.logprobs)
                turn.candidate = Candidate(
                    turn.draft.answer or IDK, statistics.mean if statistics else None, turn.draft.logprobs
                )
                turn.note(reply=turn.draft.answer, direct=True)
            else:
                asked.append(turn)
        requests = []
        for turn in asked:
            chunks = turn.best_evidence(settings.evidence)
            prompt = with_evidence if chunks else without
            requests.append(
                prompt.request(image=turn.image, question=turn.question, history=turn.history, evidence=chunks)
            )
        if not requests:
            return
        replies = context.models.chat(with_evidence.settings.model).chat(requests, context.deadline)
        for turn, reply in zip(asked, replies, strict=True):
            if reply.finish_reason == "error":
                turn.error = f"answer: {reply.error}"
            else:
                turn.candidate = candidate_of(reply)
            confidence = turn.candidate.confidence if turn.candidate else None
            turn.note(reply=reply.text, finish_reason=reply.finish_reason, confidence=confidence)
