from collections.abc import Sequence

from pydantic import Field

from agents.asking.ask import Ask, Question
from agents.asking.readers.verdicts import VERDICT, Verdict
from agents.methods.candidates import answered, trusts_draft
from agents.methods.token_probabilities import token_probabilities
from agents.stage import Context, Stage, StageOptions
from agents.turn import Candidate, Turn, Verification


class Verify(Stage):
    """Dual verification (QA-Dragon, section 3.7.2): token probabilities, and a model that reads the evidence; ``finalise`` judges both."""

    class Options(StageOptions):
        prompt: str = Field("answer_verifier", description="template in prompts/ for the model that judges")
        prompt_without_evidence: str | None = Field(
            None, description="template where the answer was made without evidence; None: the same"
        )
        weight_min: float = Field(0.5, description="weight of the least token probability in g_white")
        weight_mean: float = Field(0.5, description="weight of the mean token probability in g_white")
        white_box_threshold: float = Field(0.5, description="tau_white")

    options: Options
    fills = ("verification",)
    kind = "verifies"
    min_seconds, wanted_seconds = 1.0, 2.0

    def asks(self) -> tuple[Ask[Verdict], ...]:
        """The model that judges, with evidence and without."""
        return tuple(Ask(name, VERDICT) for name in dict.fromkeys(self._prompts))

    @property
    def _prompts(self) -> tuple[str, str]:
        return self.options.prompt, self.options.prompt_without_evidence or self.options.prompt

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``verification`` of the turns that have an answer to verify."""
        concerned = [(turn, candidate) for turn, candidate in answered(turns) if not trusts_draft(turn)]
        with_evidence, without = (Ask(name, VERDICT) for name in self._prompts)
        questions = [
            Question(
                with_evidence if turn.shown else without,
                {**turn.values, "answer": candidate.text, "reasoning": candidate.reasoning},
                (turn,),
            )
            for turn, candidate in concerned
        ]
        for (turn, candidate), answer in zip(concerned, context.put(questions), strict=True):
            by_tokens, said = self._white_box(candidate), answer.value
            turn.verification = Verification(by_tokens, said.approves, said.reason, said.p_yes)
            turn.found(
                checks={"token probabilities": by_tokens, "verifier": said.approves, "verifier's P(yes)": said.p_yes}
            )
            turn.note(reason=said.reason)

    def _white_box(self, candidate: Candidate) -> bool | None:
        """Whether g_white(s_min, s_mean) reaches tau_white; None for an answer that no model generated."""
        statistics = token_probabilities(candidate.logprobs)
        if statistics is None:
            return None
        g_white = self.options.weight_min * statistics.minimum + self.options.weight_mean * statistics.mean
        return g_white >= self.options.white_box_threshold
