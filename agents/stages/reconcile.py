"""Parametric and retrieved answer become one (CoRe-MMRAG, section 3.2, step 4, eq. 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.methods.candidates import candidate_of
from agents.methods.knowledge_conflict import prki, says_something
from agents.stage import Context
from agents.turn import Candidate, Turn


class Reconcile:
    """Where both agree, or only one says something, nothing is asked; the others go to the model in one batched call."""

    name: ClassVar[str] = "reconcile"
    least_seconds: ClassVar[float] = 0.0
    wanted_seconds: ClassVar[float] = 0.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Replace ``candidate``, the retrieved answer, by the reconciled one."""
        disagreeing: list[tuple[Turn, Candidate, Candidate]] = []
        for turn in turns:
            own, retrieved = turn.parametric, turn.candidate
            differ = prki(own.text if own else None, retrieved.text if retrieved else None)
            turn.note(
                prki=differ, parametric=own.text if own else None, retrieved=retrieved.text if retrieved else None
            )
            if differ and own is not None and retrieved is not None:
                disagreeing.append((turn, own, retrieved))
            elif (
                own is not None
                and says_something(own.text)
                and not says_something(retrieved.text if retrieved else None)
            ):
                turn.candidate = own if context.settings.reconcile.parametric_alone else turn.candidate
        if not disagreeing:
            return
        if context.settings.reconcile.by == "retrieved":
            return  # what was retrieved stands already
        prompt = context.prompts["reconcile"]
        requests = [
            prompt.request(
                image=turn.image,
                images=(turn.chosen.image,) if turn.chosen and turn.chosen.image else (),
                question=turn.question,
                own=own.text,
                retrieved=retrieved.text,
                entry=turn.chosen,
                evidence=context.evidence(turn, context.settings.answer.evidence) if turn.chosen is None else (),
            )
            for turn, own, retrieved in disagreeing
        ]
        replies = context.models.chat(prompt.settings.model).chat(requests, context.deadline)
        for (turn, _, retrieved), reply in zip(disagreeing, replies, strict=True):
            turn.candidate = candidate_of(reply) or retrieved
            turn.note(reconciled=turn.candidate.text, error=reply.error)
