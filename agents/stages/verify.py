from collections.abc import Sequence

from pydantic import Field

from agents.methods.candidates import answered
from agents.methods.token_probabilities import token_probabilities, yes_probability
from agents.models.base import ChatReply
from agents.stage import Context, Stage, StageOptions
from agents.texts.replies import labelled, yes_or_no
from agents.turn import Candidate, Turn, Verification


def verdict(reply: ChatReply) -> tuple[bool | None, str]:
    """What the verifying model says, and why; a reply that cannot be read is no approval but no rejection either."""
    if reply.finish_reason == "error":
        return None, reply.error or ""
    said = labelled(reply.text, "response")
    return yes_or_no(said if said is not None else reply.text), labelled(reply.text, "reason") or ""


class Verify(Stage):
    """Dual verification (QA-Dragon, section 3.7.2): token probabilities, and a model that reads the evidence; ``finalise`` judges both."""

    class Options(StageOptions):
        prompt: str = Field("answer_verifier", description="template in prompts/ for the model that judges")
        weight_min: float = Field(0.5, description="weight of the least token probability in g_white")
        weight_mean: float = Field(0.5, description="weight of the mean token probability in g_white")
        white_box_threshold: float = Field(0.5, description="tau_white")

    options: Options
    fills = ("verification",)
    kind = "verifies"
    min_seconds, wanted_seconds = 1.0, 2.0

    def prompts(self) -> tuple[str, ...]:
        """Of the model that judges."""
        return (self.options.prompt,)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``verification`` of the turns that have an answer to verify."""
        concerned = [(turn, candidate) for turn, candidate in answered(turns) if turn.route != "direct"]
        for (turn, candidate), reply in context.ask_each(
            self.options.prompt,
            concerned,
            lambda one: {**one[0].values, "answer": one[1].text, "reasoning": one[1].reasoning},
        ):
            by_tokens = self._white_box(candidate)
            by_model, reason = verdict(reply)
            p_yes = yes_probability(reply.first_token_probs)
            turn.verification = Verification(by_tokens, by_model, reason, p_yes)
            turn.found(checks={"token probabilities": by_tokens, "verifier": by_model, "verifier's P(yes)": p_yes})
            turn.note(reason=reason)

    def _white_box(self, candidate: Candidate) -> bool | None:
        """Whether g_white(s_min, s_mean) reaches tau_white; None for an answer that no model generated."""
        statistics = token_probabilities(candidate.logprobs)
        if statistics is None:
            return None
        g_white = self.options.weight_min * statistics.minimum + self.options.weight_mean * statistics.mean
        return g_white >= self.options.white_box_threshold
