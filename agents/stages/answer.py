from collections.abc import Sequence

from pydantic import Field

from agents.asking.ask import Ask, Question
from agents.asking.readers.answers import ANSWER
from agents.evidence.passages import convert_to_record
from agents.methods.candidates import convert_draft
from agents.stage import Context, Stage, StageOptions
from agents.turn import Candidate, Turn

_DIRECT = ("answer_with_evidence", "answer_without_evidence")


class Answer(Stage):
    """Answers from the evidence with the chat model, or from the photo and the question where there is none; one batched call.

    A draft is not asked for again if the preset gives or verifies drafts (QA-Dragon, table 1).
    """

    class Options(StageOptions):
        prompt: str = Field("answer_with_evidence", description="template in prompts/")
        prompt_without_evidence: str = Field(
            "answer_without_evidence", description="template where no evidence was kept"
        )
        k: int = Field(5, ge=0, description="chunks shown")
        give_draft: bool = Field(
            True,
            description="take a draft that the route trusts as the answer; false: ask for the answer again, so that its "
            "tokens have probabilities",
        )
        direct_when_short: bool = Field(
            False,
            description="with less time it asks for the answer alone: answer_with_evidence, answer_without_evidence",
        )

    options: Options
    fills = ("candidate", "shown")
    doing = "writing an answer"
    kind = "answers"
    when_short = "the direct prompts, where `direct_when_short` says so"
    min_seconds, wanted_seconds = 1.0, 2.0

    def list_asks(self) -> tuple[Ask[Candidate | None], ...]:
        """With evidence and without; then those with less time."""
        names = (*self._prompts(short=False), *self._prompts(short=True))
        return tuple(Ask(name, ANSWER) for name in dict.fromkeys(names))

    def _prompts(self, *, short: bool) -> tuple[str, str]:
        options = self.options
        return _DIRECT if short and options.direct_when_short else (options.prompt, options.prompt_without_evidence)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``."""
        with_evidence, without = (Ask(name, ANSWER) for name in self._prompts(short=context.short))
        unanswered = [turn for turn in turns if turn.candidate is None]
        for turn in unanswered:
            if turn.route != "direct":
                turn.shown = context.evidence(turn, self.options.k)
                turn.record(evidence=convert_to_record(turn.shown))
            if self.options.give_draft and turn.route != "rag" and turn.draft is not None:
                turn.candidate = convert_draft(turn.draft)
                turn.note(reply=turn.draft.answer, drafted=True)
        remaining_turns = [turn for turn in unanswered if turn.candidate is None]
        questions = [
            Question(with_evidence if turn.shown else without, turn.values, (turn,)) for turn in remaining_turns
        ]
        for turn, answer in zip(remaining_turns, context.put(questions), strict=True):
            if answer.failed:
                turn.error = f"answer: {answer.error}"
            else:
                turn.candidate = answer.value
