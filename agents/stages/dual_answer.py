from collections.abc import Sequence

from pydantic import Field

from agents.asking.ask import Ask, Question
from agents.asking.readers.answers import ANSWER
from agents.evidence.passages import convert_to_record
from agents.record import FROM_EVIDENCE, OWN_KNOWLEDGE
from agents.stage import Context, Stage, StageOptions
from agents.turn import Candidate, Turn

CandidateQuestion = Question[Candidate | None]

_SEED = 0  # of the second answer where there is no evidence


WITH_EVIDENCE, WITHOUT = Ask("answer_with_evidence", ANSWER), Ask("answer_without_evidence", ANSWER)


class DualAnswer(Stage):
    """Answers with and without evidence, for all turns in one batched call (CRUISE, section 3.3, eq. 8 and 9)."""

    class Options(StageOptions):
        k: int = Field(5, ge=0, description="chunks shown")
        probe_temperature: float = Field(
            0.0,
            ge=0,
            description="temperature of the second answer where there is no evidence and both prompts are alike",
        )

    options: Options
    fills = ("candidate", "parametric", "shown")
    doing = "writing an answer with and without evidence"
    asks = (WITH_EVIDENCE, WITHOUT)
    kind = "answers"
    min_seconds, wanted_seconds = 1.0, 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate`` (a', from the evidence) and ``parametric`` (a, without it)."""
        replies = iter(context.put([question for turn in turns for question in self._pair(turn, context)]))
        for turn in turns:
            with_evidence, without = next(replies), next(replies)
            turn.candidate, turn.parametric = with_evidence.value, without.value
            errors = [answer.error for answer in (with_evidence, without) if answer.failed]
            if errors:
                turn.error = turn.error or f"dual_answer: {errors[0]}"
            answers = {FROM_EVIDENCE: _get_text(turn.candidate), OWN_KNOWLEDGE: _get_text(turn.parametric)}
            turn.record(evidence=convert_to_record(turn.shown), answers=answers)

    def _pair(self, turn: Turn, context: Context) -> tuple[CandidateQuestion, CandidateQuestion]:
        """Build the questions with and without evidence.

        If there is no evidence, both have the same prompt. The second answer is then sampled, so that agreement means something.
        """
        turn.shown = context.evidence(turn, self.options.k)
        alone = {**turn.values, "entity": None, "evidence": ()}
        without = Question(WITHOUT, alone, (turn,))
        if not turn.shown:
            sampling = {"temperature": self.options.probe_temperature, "seed": _SEED}
            return without, Question(WITHOUT, alone, (turn,), sampling)
        return Question(WITH_EVIDENCE, turn.values, (turn,)), without


def _get_text(candidate: Candidate | None) -> str | None:
    return candidate.text if candidate is not None else None
