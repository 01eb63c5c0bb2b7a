"""Stage 12: the chat model answers, from the evidence where there is any."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from agents.stage import Context
from agents.text import one_line
from agents.turn import Candidate, Turn


class Answer:
    """One batched call for all turns."""

    name: ClassVar[str] = "answer"
    least_seconds: ClassVar[float] = 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``; its confidence is the mean token probability."""
        settings = context.settings.answer
        with_evidence = context.prompts[settings.prompt]
        without = context.prompts[settings.prompt_without_evidence]
        requests = []
        for turn in turns:
            chunks = turn.best_evidence(settings.evidence)
            prompt = with_evidence if chunks else without
            requests.append(
                prompt.request(image=turn.image, question=turn.question, history=turn.history, evidence=chunks)
            )
        replies = context.models.chat(with_evidence.settings.model).chat(requests, context.deadline)
        for turn, reply in zip(turns, replies, strict=True):
            if reply.finish_reason == "error":
                turn.error = f"answer: {reply.error}"
            elif reply.text:
                probabilities = [math.exp(logprob) for logprob in reply.logprobs or ()]
                confidence = sum(probabilities) / len(probabilities) if probabilities else None
                turn.candidate = Candidate(one_line(reply.text), confidence, "generate", reply.logprobs)
            turn.note(
                reply=reply.text,
                finish_reason=reply.finish_reason,
                confidence=turn.candidate and turn.candidate.confidence,
            )
