"""Decision on an answer without values fitted to the models: a verdict, the answer's own tokens and the draft, as witnesses."""

from typing import Literal

from pydantic import Field

from agents.decision.rule import Rule, RuleContext, RuleOptions
from agents.methods.candidates import trusts_draft
from agents.turn import Turn


class VerifierOptions(RuleOptions):
    """Which rule reads the verdict of the stage ``verify``: this one, or ``DualVerification`` of ``agents/papers/qa_dragon.py``."""

    verified_by: tuple[Literal["white_box", "model"], ...] | Literal["witnesses"] = Field(
        (),
        description="used only without a gate: verifiers that all must approve (QA-Dragon; the model's alone if the engine gives no "
        "probabilities); or witnesses: both must approve, but a draft that says the same outweighs low token probabilities "
        "(`agents/decision/witnesses.py`)",
    )


def verifiers_decide(turn: Turn, context: RuleContext) -> bool:
    """Return whether the verifiers decide: there is no gate, and the answer is not a trusted draft."""
    return not context.gated and not trusts_draft(turn)


class Witnesses(Rule):
    """A verdict and the answer's own tokens have to approve; a draft that says the same outweighs the tokens.

    The verdict decides: it is the one witness that reads answer and evidence, and its cut of one half follows from the score. The bounds
    on token probabilities were published for other replies and models (QA-Dragon's released code). They withhold an answer too, which
    gained on validation (lab/notes/results.md, "Without a gate"), but not one that the model drafted before anything was searched: then two
    witnesses are against one. A draft that differs withholds nothing, for a search often puts a draft right. Without a verdict the
    tokens have to approve, and no draft may differ.
    """

    Options = VerifierOptions
    options: VerifierOptions

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Withhold an answer that the witnesses do not support together."""
        if self.options.verified_by != "witnesses" or not verifiers_decide(turn, context):
            return None
        verification = turn.verification
        if verification.model is False:
            return "the verifier does not approve"
        if verification.white_box is False and verification.draft is not True:
            return "its token probabilities are low"
        alone = not verification.white_box or verification.draft is False
        if verification.model is None and not verification.draft and alone:
            return "the verifier gave no verdict, and nothing else speaks for the answer"
        return None
