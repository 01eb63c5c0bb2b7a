"""Two answers to each question, one from the evidence and one without it (CRUISE, section 3.3, eq. 8 and 9)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from agents.methods.candidates import candidate_of
from agents.models.base import ChatRequest
from agents.stage import Context
from agents.turn import Candidate, Turn


class DualAnswer:
    """Both answers of all turns in one batched call."""

    name: ClassVar[str] = "dual_answer"
    least_seconds: ClassVar[float] = 1.0
    wanted_seconds: ClassVar[float] = 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate`` (a', from the evidence) and ``parametric`` (a, without it)."""
        if not turns:
            return
        requests: list[ChatRequest] = []
        for turn in turns:
            requests += self._pair(turn, context)
        model = context.models.chat(context.prompts[context.settings.answer.prompt].settings.model)
        replies = iter(model.chat(requests, context.deadline))
        for turn in turns:
            with_evidence, without = next(replies), next(replies)
            turn.candidate, turn.parametric = candidate_of(with_evidence), candidate_of(without)
            errors = [reply.error for reply in (with_evidence, without) if reply.finish_reason == "error"]
            if errors:
                turn.error = turn.error or f"dual_answer: {errors[0]}"
            turn.note(from_evidence=_said(turn.candidate), without_evidence=_said(turn.parametric))

    @staticmethod
    def _pair(turn: Turn, context: Context) -> tuple[ChatRequest, ChatRequest]:
        """Without evidence both prompts are the same one; the second answer is then sampled, so that agreement means something."""
        settings = context.settings
        chunks = context.evidence(turn, settings.answer.evidence)
        plain = context.prompts[settings.answer.prompt_without_evidence]
        entity = turn.entity.name if turn.entity is not None else None
        asked: dict[str, Any] = {"image": turn.image, "question": turn.question, "history": turn.history}
        without = plain.request(**asked, entity=None, evidence=())
        if not chunks:
            probe = dataclasses.replace(
                without, temperature=settings.dual_answer.probe_temperature, seed=settings.dual_answer.seed
            )
            return without, probe
        prompt = context.prompts[settings.answer.prompt]
        informed = prompt.request(**asked, entity=entity, evidence=chunks)
        return informed, without


def _said(candidate: Candidate | None) -> str | None:
    return candidate.text if candidate is not None else None
