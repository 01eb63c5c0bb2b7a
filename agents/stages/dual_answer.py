import dataclasses
from collections.abc import Sequence

from pydantic import Field

from agents.asking.prompts import Prompt
from agents.asking.record import FROM_EVIDENCE, OWN_KNOWLEDGE
from agents.methods.candidates import candidate_of
from agents.models.base import ChatRequest
from agents.stage import Context, Stage, StageOptions
from agents.turn import Candidate, Turn

Asked = tuple[Prompt, ChatRequest]

_SEED = 0  # of the second answer where there is no evidence


class DualAnswer(Stage):
    """Answers with and without evidence of all turns in one batched call (CRUISE, section 3.3, eq. 8 and 9)."""

    class Options(StageOptions):
        evidence: int = Field(5, ge=0, description="chunks shown")
        probe_temperature: float = Field(
            0.0,
            ge=0,
            description="temperature of the second answer where there is no evidence and both prompts are alike",
        )

    options: Options
    fills = ("candidate", "parametric", "shown")
    templates = ("answer_with_evidence", "answer_without_evidence")
    kind = "answers"
    min_seconds, wanted_seconds = 1.0, 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate`` (a', from the evidence) and ``parametric`` (a, without it)."""
        requests = [request for turn in turns for request in self._pair(turn, context)]
        replies = iter(context.ask_all(requests))
        for turn in turns:
            with_evidence, without = next(replies), next(replies)
            turn.candidate, turn.parametric = candidate_of(with_evidence), candidate_of(without)
            errors = [reply.error for reply in (with_evidence, without) if reply.finish_reason == "error"]
            if errors:
                turn.error = turn.error or f"dual_answer: {errors[0]}"
            turn.found(answers={FROM_EVIDENCE: _said(turn.candidate), OWN_KNOWLEDGE: _said(turn.parametric)})

    def _pair(self, turn: Turn, context: Context) -> tuple[Asked, Asked]:
        """Without evidence both prompts are the same one; the second answer is then sampled, so that agreement means something."""
        turn.shown = context.evidence(turn, self.options.evidence)
        plain = context.prompts["answer_without_evidence"]
        without = plain.request(**{**turn.values, "entity": None, "evidence": ()})
        if not turn.shown:
            again = dataclasses.replace(without, temperature=self.options.probe_temperature, seed=_SEED)
            return (plain, without), (plain, again)
        with_evidence = context.prompts["answer_with_evidence"]
        return (with_evidence, with_evidence.request(**turn.values)), (plain, without)


def _said(candidate: Candidate | None) -> str | None:
    return candidate.text if candidate is not None else None
