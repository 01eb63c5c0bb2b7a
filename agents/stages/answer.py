from collections.abc import Sequence

from pydantic import Field

from agents.methods.candidates import candidate_of, candidate_of_draft
from agents.stage import Context, Stage, StageOptions
from agents.turn import Turn


class Answer(Stage):
    """The chat model, from the chunks where there are any; one batched call.

    A draft that is given or verified is not asked for again (QA-Dragon, table 1).
    """

    class Options(StageOptions):
        prompt: str = Field("answer_with_evidence", description="template in prompts/")
        prompt_without_evidence: str = Field(
            "answer_without_evidence", description="template where no evidence was kept"
        )
        evidence: int = Field(5, ge=0, description="chunks shown")

    options: Options
    fills = ("candidate", "shown")
    kind = "answers"
    min_seconds, wanted_seconds = 1.0, 2.0

    def prompts(self) -> tuple[str, ...]:
        """With evidence and without."""
        return self.options.prompt, self.options.prompt_without_evidence

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``."""
        with_evidence = context.prompts[self.options.prompt]
        without = context.prompts[self.options.prompt_without_evidence]
        for turn in turns:
            if turn.route != "direct":
                turn.shown = context.evidence(turn, self.options.evidence)
            if turn.route != "rag" and turn.draft is not None:
                turn.candidate = candidate_of_draft(turn.draft)
                turn.note(reply=turn.draft.answer, drafted=True)
        asked = [turn for turn in turns if turn.candidate is None]
        prompts = [with_evidence if turn.shown else without for turn in asked]
        requests = [(prompt, prompt.request(**turn.values)) for turn, prompt in zip(asked, prompts, strict=True)]
        for turn, reply in zip(asked, context.ask_all(requests), strict=True):
            if reply.finish_reason == "error":
                turn.error = f"answer: {reply.error}"
            else:
                turn.candidate = candidate_of(reply)
            confidence = turn.candidate.confidence if turn.candidate else None
            turn.note(reply=reply.text, finish_reason=reply.finish_reason, confidence=confidence)
